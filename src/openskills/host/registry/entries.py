"""What the host offers at one moment, as one value that never changes. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from openskills.errors import InvalidSkill, UnknownSkill
from openskills.host.registration import Registration
from openskills.paths import printable
from openskills.skillmd.problem import Problem, Severity, errors_in

Status = Literal["ready", "broken", "unavailable"]
_NEAR = 3
_LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """One skill of the host, usable or not, with everything that is wrong with it.

    `broken`: its manifest has errors, and there is no registration. `unavailable`: the manifest is fine, and this
    machine lacks something. `lines` has the fields that its manifest gives, with their lines where these are known.
    `rank` says which of several with one id counts: the highest.
    """

    id: str
    registration: Registration | None
    problems: tuple[Problem, ...] = ()
    status: Status = "ready"
    origin: Path | None = None
    lines: Mapping[str, int | None] = field(default_factory=dict[str, int | None])
    rank: int = 0
    content: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """Ids whose entries came, went, or are not what they were; a script that was edited changes its skill too."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


class Offer:
    """All entries at one moment, sorted by id. Of several with one id one counts; the others say which."""

    def __init__(self, entries: Iterable[Entry] = (), problems: Iterable[Problem] = ()) -> None:
        self.problems = tuple(problems)
        self.by_id: dict[str, Entry] = {}
        losers: list[Entry] = []
        # Usable ones first: a broken manifest takes nothing away from another.
        for entry in sorted(entries, key=lambda each: (each.registration is None, -each.rank, str(each.origin))):
            winner = self.by_id.setdefault(entry.id, entry)
            if winner is not entry:
                losers.append(_lost(entry, winner))
        self.entries = tuple(sorted((*self.by_id.values(), *losers), key=lambda each: each.id))
        self._folded = {_folded(name): name for name in sorted(self.by_id, reverse=True)}
        self.registrations = tuple(each.registration for each in self.entries if each.registration is not None)

    @cached_property
    def stamp(self) -> str:
        """A digest of all of it."""
        return blake2b(repr((self.entries, self.problems)).encode(errors="replace"), digest_size=16).hexdigest()

    def same_as(self, other: "Offer") -> bool:
        """Whether the two say the same."""
        return self.entries == other.entries and self.problems == other.problems

    def entry(self, skill_id: str) -> Entry:
        """The entry of this id; `_` and `-` find each other. Raises `UnknownSkill` with the nearest ids."""
        found = self._found(skill_id)
        if found is None:
            raise UnknownSkill(skill_id, self._near(skill_id))
        return found

    def get(self, skill_id: str) -> Registration:
        """The registration of this id. Raises `UnknownSkill`, and `InvalidSkill` where the manifest is broken."""
        found = self.entry(skill_id)
        if found.registration is None:
            said = "; ".join(problem.message for problem in errors_in(found.problems)[:3])
            raise InvalidSkill(f"the manifest of {found.id!r} is broken: {said}", found.problems)
        return found.registration

    def known(self, skill_id: str) -> Registration | None:
        """The same, or None."""
        found = self._found(skill_id)
        return None if found is None else found.registration

    def since(self, earlier: "Offer") -> Changes:
        """What is different from an earlier moment."""
        before, after = earlier.by_id, self.by_id
        return Changes(
            added=tuple(sorted(after.keys() - before.keys())),
            removed=tuple(sorted(before.keys() - after.keys())),
            changed=tuple(sorted(name for name in after.keys() & before.keys() if after[name] != before[name])),
        )

    def _found(self, skill_id: str) -> Entry | None:
        return self.by_id.get(skill_id) or self.by_id.get(self._folded.get(_folded(skill_id), ""))

    def _near(self, skill_id: str) -> list[str]:
        # Comparing is slow, and whoever asks may ask often: only what can be near is compared.
        name = _folded(skill_id[:64])
        ids = [each for each in self.by_id if each[:1] == name[:1] or abs(len(each) - len(name)) < _NEAR]
        return get_close_matches(name, ids[:_LOOKED_AT], n=_NEAR)


def _folded(skill_id: str) -> str:
    return skill_id.replace("-", "_")


def _lost(entry: Entry, winner: Entry) -> Entry:
    message = f"id: {entry.id!r} is taken by {printable(str(winner.origin))}; give this one another id"
    path = printable(str(entry.origin or ""))
    problem = Problem("id-taken", message, Severity.ERROR, entry.lines.get("id"), path=path)
    return Entry(entry.id, None, (*entry.problems, problem), "broken", entry.origin, entry.lines, entry.rank)
