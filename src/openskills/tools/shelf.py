"""The texts that an agent has loaded, as they were when it loaded them. Blocking reads, none when nothing is new.

A text stays the same, to the byte, for as long as it is loaded, whatever happens on disk meanwhile: what the model was
told does not change behind its back, and a prompt cache keeps what it has.
"""

from collections.abc import Callable, Iterable, Sequence

from openskills.catalog.skill import Skill
from openskills.catalog.skillfile import SKILL_FILE
from openskills.catalog.snapshot import Snapshot
from openskills.errors import InvalidArgument, InvalidSkill, SkillError
from openskills.prompt.fragments import lines_of, parse_fragment
from openskills.prompt.pieces import Budget, fitted
from openskills.prompt.shown import Piece, Shown
from openskills.session.changes import ALL
from openskills.session.state import AgentView
from openskills.tokens import TokenCounter, estimate

ReadOn = Callable[[str, str, int], str]
"""How to read on in a text of a skill from a line: `read_on(skill, path, line)`."""


class Shelf:
    """One agent's texts. Used from one thread at a time."""

    def __init__(self, read_on: ReadOn, budget: Budget | None = None, count: TokenCounter = estimate) -> None:
        self._read_on = read_on
        self._budget = budget or Budget()
        self._count = count
        self._bodies: dict[str, Piece] = {}
        self._docs: dict[str, dict[str, Piece]] = {}
        self._names: dict[str, tuple[str, ...]] = {}

    def load(self, skill: Skill) -> Piece:
        """The body of a skill; read now unless it is here. Raises `InvalidSkill` when it cannot be."""
        if skill.name not in self._bodies:
            self._bodies[skill.name] = self._piece(skill.name, SKILL_FILE, skill.body(), self._budget.body)
        return self._bodies[skill.name]

    def select(self, skill: Skill, docs: Iterable[str]) -> tuple[Piece, ...]:
        """Documents of a skill, sorted by path; those that are new are read now.

        Raises `InvalidArgument` for one that cannot be read or is no text.
        """
        here = self._docs.setdefault(skill.name, {})
        for path in self._paths(skill, docs):
            if path not in here:
                here[path] = self._piece(skill.name, path, _text_of(skill, path), self._budget.doc)
        return tuple(here[path] for path in sorted(self._paths(skill, docs)))

    def shown(self, view: AgentView, skills: Snapshot) -> tuple[tuple[Shown, ...], tuple[str, ...]]:
        """Everything that is loaded, in the order in which it came here, and the names of what cannot be had any more.

        What is not loaded is forgotten, so that the next load reads it again.
        """
        loaded = view.loaded()
        for name in [name for name in self._bodies if name not in loaded]:
            self.forget(name)
        found: dict[str, Shown] = {}
        lost: list[str] = []
        for name in loaded:
            shown = self._shown(name, view.docs(name), skills)
            if shown is None:
                lost.append(name)
            else:
                found[name] = shown
        return tuple(found[name] for name in self._bodies if name in found), tuple(lost)

    def forget(self, name: str) -> None:
        """Read a skill and its documents again when they are loaded the next time."""
        self._bodies.pop(name, None)
        self._docs.pop(name, None)
        self._names.pop(name, None)

    def _shown(self, name: str, docs: Sequence[str], skills: Snapshot) -> Shown | None:
        held = self._docs.get(name, {})
        wanted = self._names.get(name) if docs == (ALL,) else docs
        if name in self._bodies and wanted is not None and all(path in held for path in wanted):
            for path in held.keys() - set(wanted):
                del held[path]
            return Shown(name, self._bodies[name], tuple(held[path] for path in sorted(wanted)))
        try:
            skill = skills.get(name)
            body = self.load(skill)
        except SkillError:
            # It was here when it was loaded; the caller says that it has gone.
            return None
        return Shown(name, body, self._those_there(skill, docs))

    def _those_there(self, skill: Skill, docs: Sequence[str]) -> tuple[Piece, ...]:
        """The documents that can still be read; one that has gone must not take the others with it."""
        found: list[Piece] = []
        for path in self._paths(skill, docs):
            try:
                found += self.select(skill, [path])
            except (InvalidArgument, InvalidSkill):
                continue
        return tuple(found)

    def _paths(self, skill: Skill, docs: Iterable[str]) -> tuple[str, ...]:
        wanted = tuple(docs)
        if wanted != (ALL,):
            return wanted
        if skill.name not in self._names:
            self._names[skill.name] = tuple(doc.path for doc in skill.docs())
        return self._names[skill.name]

    def _piece(self, skill: str, path: str, text: str, most: int) -> Piece:
        used = sum(piece.tokens for piece in self._bodies.values())
        used += sum(piece.tokens for docs in self._docs.values() for piece in docs.values())
        room = min(most, self._budget.total - used)
        plain, lines = parse_fragment(path)
        before = lines[0] - 1 if lines else 0
        return fitted(path, text, room, self._count, lambda line: self._read_on(skill, plain, before + line))


def _text_of(skill: Skill, name: str) -> str:
    path, lines = parse_fragment(name)
    if path == SKILL_FILE:
        text = skill.body()
    else:
        try:
            text = skill.read(path).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InvalidArgument("docs", f"{path!r} of {skill.name!r} is not UTF-8 text") from None
    return text if lines is None else lines_of(text, lines)
