"""The texts of all skills, as they would stand in a prompt. Blocking reads."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from openskills.catalog.skill import Skill
from openskills.errors import SkillError


@dataclass(frozen=True, slots=True)
class Contents:
    """A skill with the text of its body and of all documents that a model may read, by path."""

    name: str
    description: str
    body: str
    docs: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Library:
    """What could be read, in order of name, and the names of what could not: skills, and documents as `skill/path`."""

    skills: tuple[Contents, ...]
    unread: tuple[str, ...] = ()


def read_library(skills: Iterable[Skill]) -> Library:
    """Everything, read now. What has gone, is too big or is no text is named in `unread`; nothing raises for it."""
    found: list[Contents] = []
    unread: list[str] = []
    for skill in sorted(skills, key=lambda skill: skill.name):
        try:
            found.append(_contents(skill, unread))
        except SkillError:
            unread.append(skill.name)
    return Library(tuple(found), tuple(unread))


def _contents(skill: Skill, unread: list[str]) -> Contents:
    docs: dict[str, str] = {}
    for doc in skill.docs():
        try:
            docs[doc.path] = skill.read(doc.path).decode("utf-8-sig")
        except (SkillError, UnicodeDecodeError):
            unread.append(f"{skill.name}/{doc.path}")
    return Contents(skill.name, skill.description, skill.body(), docs)
