"""A rule of the format, what it looks at, and what it finds."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from openskills.skillmd.frontmatter import FrontMatter
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.parse import ParsedSkill
from openskills.skillmd.problem import Fix, Severity
from openskills.skillmd.value import Place, Value


@dataclass(frozen=True, slots=True)
class Subject:
    """One skill to be judged.

    `folder` is the name of the folder its file lies in; None when unknown. `files` has every file below that folder,
    POSIX path to size, and `linked_texts` the text of those that SKILL.md points at (see `links.linked_files`); None
    when nobody looked, and then the rules that need them say nothing.
    """

    parsed: ParsedSkill
    manifest: SkillManifest
    folder: str | None = None
    files: Mapping[str, int] | None = None
    linked_texts: Mapping[str, str] | None = None

    @property
    def front(self) -> FrontMatter:
        """The front matter, which knows where everything stands."""
        return self.parsed.front

    @property
    def fields(self) -> Mapping[str, Value]:
        """The fields as written."""
        return self.parsed.front.fields


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found, in words, and where; the rule it belongs to gives it an id and a severity."""

    message: str
    line: int
    column: int = 1
    fix: Fix | None = None


Check = Callable[[Subject], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One clause. `clause` says which text it rests on; `check` is None when reading or discovery finds its faults.

    What is `fatal` keeps a skill from being loaded; other errors only make it invalid.
    """

    id: str
    severity: Severity
    clause: str
    check: Check | None = None
    fatal: bool = False


def at_value(subject: Subject, key: str, message: str, fix: Fix | None = None) -> Finding:
    """A finding at the value of a field, or at the beginning of the front matter when it has no place."""
    return _at(subject.front.value(key) or subject.front.key(key), subject, message, fix)


def at_key(subject: Subject, message: str, *path: str | int, fix: Fix | None = None) -> Finding:
    """A finding at a key, or at that of the field it belongs to when its own place is not known."""
    return _at(subject.front.key(*path) or subject.front.key(*path[:1]), subject, message, fix)


def _at(place: Place | None, subject: Subject, message: str, fix: Fix | None) -> Finding:
    if place is None:
        return Finding(message, subject.front.line, 1, fix)
    return Finding(message, place.line, place.column, fix)


def kind(value: Value) -> str:
    """What a value is, in words."""
    if value is None:
        return "empty"
    if isinstance(value, str):
        return "text"
    return "a map" if isinstance(value, Mapping) else "a list"
