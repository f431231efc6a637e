"""The texts that an agent has loaded, as they were at load time. Reads block; nothing is read twice.

A loaded text stays the same, byte for byte, even if the file changes on disk. This keeps prompt caches valid.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from openskills.catalog.skill import SKILL_FILE, Skill
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.errors import InvalidArgument, LimitExceeded, SkillError
from openskills.executors.spec import SkillSnapshot
from openskills.prompt.blocks import (
    DOC_MARK,
    MIN_TOKENS,
    LoadedSkill,
    LoadedText,
    TokenBudget,
    fit_text,
    parse_fragment,
)
from openskills.session.state import ALL, AgentView
from openskills.tokens import TokenCounter, estimate_tokens

ContinuationHint = Callable[[str, str, int, int], str]
"""How to read on in a skill's text: (skill, path, line, character) to a sentence."""

_HEADING = DOC_MARK + "{}\n\n\n\n, {}"
"""Roughly what surrounds a text, for its token count."""


@dataclass(frozen=True, slots=True)
class VisibleTexts:
    """The loaded skills of an agent; `gone` skills and `missing` (skill, document) pairs can no longer be read."""

    skills: tuple[LoadedSkill, ...] = ()
    gone: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()


class LoadedTexts:
    """The loaded texts of one agent. Thread-safe."""

    def __init__(
        self, read_on: ContinuationHint, budget: TokenBudget | None = None, count: TokenCounter = estimate_tokens
    ) -> None:
        self._read_on = read_on
        self._budget = budget or TokenBudget()
        self._count = count
        self._bodies: dict[str, LoadedText] = {}
        self._docs: dict[str, dict[str, LoadedText]] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._left_out: dict[str, dict[str, str]] = {}
        self._snapshots: dict[str, SkillSnapshot] = {}
        self._visible: tuple[AgentView, CatalogSnapshot, VisibleTexts] | None = None
        self._lock = threading.RLock()

    def load(self, skill: Skill) -> LoadedText:
        """Return the body of a skill, reading it if necessary.

        Raises `InvalidSkill` if it cannot be read and `LimitExceeded` if the budget has no room for it.
        """
        with self._lock:
            if skill.name not in self._bodies:
                room = min(self._check_room(self._count_remaining(), SKILL_FILE), self._budget.body)
                self._bodies[skill.name] = self._build_text(skill, SKILL_FILE, skill.body(), room)
                self._visible = None
            return self._bodies[skill.name]

    def select(self, skill: Skill, docs: Iterable[str]) -> tuple[LoadedText, ...]:
        """Return documents of a skill, sorted by path; new ones are read, all of them or none.

        Raises `InvalidArgument` for documents that cannot be read or are not text, `LimitExceeded` without room. With
        `(ALL,)`, such documents are left out instead; `list_left_out` has the reasons.
        """
        with self._lock:
            wanted = tuple(docs)
            found, failed = self._read_docs(skill, wanted)
            if failed and wanted != (ALL,):
                raise next(iter(failed.values()))
            self._docs.setdefault(skill.name, {}).update(found)
            self._visible = None
            return tuple(found[path] for path in sorted(found))

    def list_left_out(self, skill: str) -> Mapping[str, str]:
        """Why documents are not shown although all were selected, by path."""
        return self._left_out.get(skill, {})

    def collect_visible(self, view: AgentView, skills: CatalogSnapshot) -> VisibleTexts:
        """Return all loaded texts in load order, and forget those that are not loaded any more.

        With the same arguments, and nothing loaded or selected since, the result is the same object.
        """
        with self._lock:
            if self._visible is not None and self._visible[0] is view and self._visible[1] is skills:
                return self._visible[2]
            loaded = view.list_loaded()
            for name in [name for name in self._bodies if name not in loaded]:
                self.forget(name)
            found: dict[str, LoadedSkill] = {}
            missing: list[tuple[str, str]] = []
            for name in loaded:
                shown = self._build_loaded_skill(name, view.docs(name), skills, missing)
                if shown is not None:
                    found[name] = shown
            gone = tuple(name for name in loaded if name not in found)
            seen = VisibleTexts(tuple(found[name] for name in self._bodies if name in found), gone, tuple(missing))
            self._visible = None if gone or missing else (view, skills, seen)
            return seen

    def keep_snapshot(self, name: str, snapshot: SkillSnapshot) -> None:
        """Keep the snapshot of a skill that is being loaded; texts of another version are read again."""
        with self._lock:
            before = self._snapshots.get(name)
            if before is not None and before.digest != snapshot.digest:
                self.forget(name)
            self._snapshots[name] = snapshot

    def get_snapshot(self, name: str) -> SkillSnapshot | None:
        """The folder of a skill as it was when it was loaded last, if that was in this process."""
        return self._snapshots.get(name)

    def forget(self, name: str) -> None:
        """Drop a skill and its documents; the next load reads them again."""
        with self._lock:
            self._visible = None
            self._bodies.pop(name, None)
            self._docs.pop(name, None)
            self._names.pop(name, None)
            self._left_out.pop(name, None)

    def _build_loaded_skill(
        self, name: str, docs: Sequence[str], skills: CatalogSnapshot, missing: list[tuple[str, str]]
    ) -> LoadedSkill | None:
        held = self._docs.get(name, {})
        wanted = self._names.get(name) if docs == (ALL,) else docs
        if name in self._bodies and wanted is not None and all(path in held for path in wanted):
            for path in held.keys() - set(wanted):
                del held[path]
            return LoadedSkill(name, self._bodies[name], tuple(held[path] for path in sorted(wanted)))
        try:
            skill = skills.get(name)
            if name not in self._bodies:
                room = min(self._count_remaining() - self._count_heading(SKILL_FILE), self._budget.body)
                self._bodies[name] = self._build_text(skill, SKILL_FILE, skill.body(), room)
        except SkillError:
            return None  # it is gone since it was loaded
        found, failed = self._read_docs(skill, tuple(docs))
        self._docs[name] = found
        if docs != (ALL,):
            missing.extend((name, path) for path in failed)
        return LoadedSkill(name, self._bodies[name], tuple(found[path] for path in sorted(found)))

    def _read_docs(self, skill: Skill, docs: tuple[str, ...]) -> tuple[dict[str, LoadedText], dict[str, SkillError]]:
        """Read documents that are not there yet; return all that can be shown, and why others cannot."""
        here = self._docs.get(skill.name, {})
        found: dict[str, LoadedText] = {}
        failed: dict[str, SkillError] = {}
        left = self._count_remaining()
        for path in [doc.path for doc in skill.docs()] if docs == (ALL,) else dict.fromkeys(docs):
            try:
                if path not in here:
                    room = min(self._check_room(left, path), self._budget.doc)
                    found[path] = self._build_text(skill, path, _read_text(skill, path), room)
                    left -= self._count_text(found[path])
                else:
                    found[path] = here[path]
            except SkillError as error:
                failed[path] = error
        if docs == (ALL,):
            self._names[skill.name] = tuple(found)
            self._left_out[skill.name] = {path: error.message for path, error in failed.items()}
        return found, failed

    def _count_remaining(self) -> int:
        pieces = [*self._bodies.values(), *(piece for docs in self._docs.values() for piece in docs.values())]
        return self._budget.total - sum(map(self._count_text, pieces))

    def _count_text(self, piece: LoadedText) -> int:
        return piece.tokens + self._count_heading(piece.path)

    def _count_heading(self, path: str) -> int:
        return self._count(_HEADING.format(path, path))

    def _check_room(self, left: int, path: str) -> int:
        room, total = left - self._count_heading(path), self._budget.total
        if room < MIN_TOKENS:
            raise LimitExceeded(
                f"no room for {path[:200]}: loaded texts use {total - left:,} of {total:,} tokens; unload a skill with "
                "skill_unload, or select documents with mode replace",
                limit=total,
            )
        return room

    def _build_text(self, skill: Skill, name: str, text: str, room: int) -> LoadedText:
        path, part = parse_fragment(name)

        def rest(line: int, character: int) -> str:
            return self._read_on(skill.name, path, line, character)

        return fit_text(name, text, room, self._count, rest, part)


def _read_text(skill: Skill, name: str) -> str:
    path, _ = parse_fragment(name)
    if path == SKILL_FILE:
        return skill.body()
    try:
        return skill.read(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidArgument("docs", f"{path!r} of {skill.name!r} is not UTF-8 text") from None
