"""`Rule`, its `Subject` and `Finding`, and the rules that are checked while a file is found and parsed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from openskills.skillmd.frontmatter import FrontMatter
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.parse import ParsedSkill
from openskills.skillmd.problem import Fix, Severity
from openskills.skillmd.yaml import SourcePosition, Value


@dataclass(frozen=True, slots=True)
class Subject:
    """One skill to check.

    `folder` is the name of its folder. `files` has every file below it, POSIX path to size, and `linked_texts` the text
    of those that SKILL.md links to (`find_linked_files`). Rules that need a value that is None find nothing.
    """

    parsed: ParsedSkill
    manifest: SkillManifest
    folder: str | None = None
    files: Mapping[str, int] | None = None
    linked_texts: Mapping[str, str] | None = None

    @property
    def front(self) -> FrontMatter:
        return self.parsed.front

    @property
    def fields(self) -> Mapping[str, Value]:
        return self.parsed.front.fields


@dataclass(frozen=True, slots=True)
class Finding:
    """A message with a position; its rule has the id and the severity."""

    message: str
    line: int
    column: int = 1
    fix: Fix | None = None


RuleCheck = Callable[[Subject], Iterable[Finding]]


class RuleStage(StrEnum):
    """What a rule needs: only the text while it is read, the fields and the folder's name, the body, or all files.

    Rules of the stage `MANIFEST` are cheap and are applied to every skill that is found; later ones by `validate` only.
    """

    READING = "reading"
    MANIFEST = "manifest"
    BODY = "body"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. `clause` is its source; `check` is None when parsing or discovery finds its faults.

    A skill with a `fatal` problem is not loaded; other errors only make it invalid.
    """

    id: str
    severity: Severity
    clause: str
    check: RuleCheck | None = None
    fatal: bool = False
    stage: RuleStage = RuleStage.READING

    @property
    def summary(self) -> str:
        """What is wanted, in one sentence; empty for rules of reading."""
        return (self.check.__doc__ or "").partition("\n")[0] if self.check else ""


def define_rule(
    rule_id: str, severity: Severity, clause: str, *, stage: RuleStage = RuleStage.MANIFEST, fatal: bool = False
) -> Callable[[RuleCheck], Rule]:
    """A decorator that turns a check into a `Rule`. The first line of its docstring says what is wanted."""
    return lambda check: Rule(rule_id, severity, clause, check, fatal, stage)


def finding_at_value(subject: Subject, key: str, message: str, fix: Fix | None = None) -> Finding:
    """A finding at the value of a field, or at the start of the front matter."""
    return _finding_at(subject.front.find_value(key) or subject.front.find_key(key), subject, message, fix)


def finding_at_key(subject: Subject, message: str, *path: str | int, fix: Fix | None = None) -> Finding:
    """A finding at a key, or at its field if the position of the key is unknown."""
    return _finding_at(subject.front.find_key(*path) or subject.front.find_key(*path[:1]), subject, message, fix)


def _finding_at(place: SourcePosition | None, subject: Subject, message: str, fix: Fix | None) -> Finding:
    if place is None:
        return Finding(message, subject.front.line, 1, fix)
    return Finding(message, place.line, place.column, fix)


def describe_type(value: Value) -> str:
    """What a value is, in words."""
    if value is None:
        return "empty"
    if isinstance(value, str):
        return "text"
    return "a map" if isinstance(value, Mapping) else "a list"


_FILE = "specification, directory structure: a skill is a folder that contains at minimum a SKILL.md file"
_TEXT = "specification, SKILL.md format: YAML front matter followed by Markdown, both text; we read UTF-8"
_FRONT = "specification, SKILL.md format: the file must contain YAML front matter followed by Markdown content"
_GUIDE = "client guide, parsing: the opening --- is at the start of the file"
_RECOVERY = "client guide, malformed YAML: wrap the value that broke the parser in quotes and retry"
_LIMIT = "ours: bounded time and memory for untrusted files"
_NO_ALIAS = "ours: front matter is plain data; aliases, anchors and tags are refused"

READING_RULES = (
    Rule("file-missing", Severity.ERROR, _FILE, fatal=True),
    Rule("file-name", Severity.WARNING, "client guide, discovery: a file named exactly SKILL.md"),
    Rule("file-type", Severity.ERROR, _FILE, fatal=True),
    Rule("file-unreadable", Severity.ERROR, _FILE, fatal=True),
    Rule("link-leaves-skill", Severity.ERROR, "ours: what a skill consists of lies in its folder", fatal=True),
    Rule("file-size", Severity.ERROR, _LIMIT, fatal=True),
    Rule("yaml-surrogates", Severity.ERROR, "YAML 1.2, 5.7: an escape is one character, never half of one"),
    Rule("text-encoding", Severity.ERROR, _TEXT, fatal=True),
    Rule("text-nul", Severity.ERROR, _TEXT, fatal=True),
    Rule("text-bom", Severity.WARNING, _GUIDE),
    Rule("frontmatter-first-line", Severity.WARNING, _GUIDE),
    Rule("frontmatter-missing", Severity.ERROR, _FRONT, fatal=True),
    Rule("frontmatter-unclosed", Severity.ERROR, _FRONT, fatal=True),
    Rule("frontmatter-size", Severity.ERROR, _LIMIT, fatal=True),
    Rule("text-control", Severity.ERROR, "YAML 1.2, 5.1: only printable characters", fatal=True),
    Rule("yaml-syntax", Severity.ERROR, _FRONT, fatal=True),
    Rule("frontmatter-mapping", Severity.ERROR, _FRONT, fatal=True),
    Rule("yaml-alias", Severity.ERROR, _NO_ALIAS, fatal=True),
    Rule("yaml-tag", Severity.ERROR, _NO_ALIAS, fatal=True),
    Rule("yaml-depth", Severity.ERROR, _LIMIT, fatal=True),
    Rule("yaml-keys", Severity.ERROR, _LIMIT, fatal=True),
    Rule("yaml-tab", Severity.ERROR, "YAML 1.2, 6.1: tabs must not be used in indentation"),
    Rule("yaml-unquoted", Severity.ERROR, _RECOVERY),
    Rule("yaml-layout", Severity.ERROR, _RECOVERY),
    Rule("suppression-unknown", Severity.WARNING, "ours: a comment that suppresses a problem names a rule"),
    Rule("yaml-duplicate-key", Severity.ERROR, "YAML 1.2, 3.2.1.1: the keys of a map are unique"),
)
