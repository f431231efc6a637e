"""Rules about style: advice of the specification and of the guides."""

import re
from collections.abc import Iterator, Mapping

from openskills.skillmd.markdown import Link, LinkTarget, find_file_names, find_linked_files, find_links, resolve_link
from openskills.skillmd.problem import Severity
from openskills.skillmd.rules.rule import Finding, RuleStage, Subject, define_rule, finding_at_value
from openskills.tokens import estimate_tokens

MAX_BODY_LINES = 500
MAX_BODY_TOKENS = 5000
MIN_DESCRIPTION = 20

_WHEN = re.compile(
    r"\b(?:when|whenever|if|use|used (?:for|to|by)|while|during|unless|triggers?|asks?|asked|wants?"
    r"|wenn|falls|sobald|quand|lorsque|cuando|quando|si|когда|если)\b"
    r"|[当時时若]|用于|用來|适用|適用|如果|使用|とき|場合|때|경우|사용",
    re.IGNORECASE,
)
_VAGUE = re.compile(
    r"(?:(?:an?|the|this)\s+)?(?:(?:useful|helpful|simple|general|generic|great)\s+)?"
    r"(?:skill|tool|utility|utilities|helpers?|helps?|assists?|does|handles?|various|misc(?:ellaneous)?)"
    r"(?:\s+(?:with|for|that|to|you|stuff|things|tasks|and|various|many|it|everything|\w+)){0,3}\s*[.!]?",
    re.IGNORECASE,
)
_LICENSE_FILE = re.compile(r"(?<![\w/.-])([\w-]+(?:/[\w-]+)*\.(?:txt|md|rst))(?!\w)", re.ASCII)
_LICENSE_WORD = re.compile(r"(?:(?i:see|in)\s+(?:the\s+)?)?(LICEN[SC]E|COPYING|NOTICE)(?:\s+file)?\.?")
_TEXT_ENDINGS = (".md", ".txt")

_DESCRIPTION = "specification, description field"
_DISCLOSURE = "specification, progressive disclosure: keep SKILL.md under 500 lines and 5,000 tokens"
_REFERENCES = "specification, file references: relative paths from the skill root"


@define_rule(
    "description-short",
    Severity.NOTE,
    f"{_DESCRIPTION}: should describe what the skill does and when to use it",
    stage=RuleStage.BODY,
)
def description_short(subject: Subject) -> Iterator[Finding]:
    """The description has enough words to be chosen by."""
    length = len(subject.manifest.description)
    if 0 < length < MIN_DESCRIPTION:
        message = f"the description has only {length} characters; say what the skill does and when to use it"
        yield finding_at_value(subject, "description", message)


@define_rule(
    "description-when", Severity.NOTE, f"{_DESCRIPTION}: should say when to use the skill", stage=RuleStage.BODY
)
def description_when(subject: Subject) -> Iterator[Finding]:
    """The description says when to use the skill."""
    text = subject.manifest.description
    if text and not subject.manifest.when_to_use and not _WHEN.search(text):
        message = 'the description never says when to use the skill; add a sentence such as "Use when ..."'
        yield finding_at_value(subject, "description", message)


@define_rule("description-vague", Severity.NOTE, f"{_DESCRIPTION}: specific keywords", stage=RuleStage.BODY)
def description_vague(subject: Subject) -> Iterator[Finding]:
    """The description says something that only this skill does."""
    if _VAGUE.fullmatch(subject.manifest.description):
        message = "the description is vague; name the tasks, file types and words by which the skill is recognised"
        yield finding_at_value(subject, "description", message)


@define_rule(
    "body-empty", Severity.WARNING, "specification, body content: the skill instructions", stage=RuleStage.BODY
)
def body_empty(subject: Subject) -> Iterator[Finding]:
    """There are instructions."""
    if not subject.parsed.body.strip():
        yield Finding("no instructions after the front matter", subject.parsed.body_line)


@define_rule("body-lines", Severity.WARNING, _DISCLOSURE, stage=RuleStage.BODY)
def body_lines(subject: Subject) -> Iterator[Finding]:
    """The body has at most 500 lines."""
    lines = subject.parsed.body.count("\n") + 1
    if lines > MAX_BODY_LINES:
        message = f"the body has {lines:,} lines; expected at most {MAX_BODY_LINES}; move details into references/"
        yield Finding(message, subject.parsed.body_line + MAX_BODY_LINES)


@define_rule("body-tokens", Severity.WARNING, _DISCLOSURE, stage=RuleStage.BODY)
def body_tokens(subject: Subject) -> Iterator[Finding]:
    """The body has at most 5,000 tokens."""
    tokens = estimate_tokens(subject.parsed.body)
    if tokens > MAX_BODY_TOKENS:
        message = (
            f"the body has an estimated {tokens:,} tokens; expected at most {MAX_BODY_TOKENS:,}; "
            "move details into references/"
        )
        yield Finding(message, subject.parsed.body_line)


@define_rule("link-outside", Severity.WARNING, _REFERENCES, stage=RuleStage.BODY)
def link_outside(subject: Subject) -> Iterator[Finding]:
    """Every link stays in the skill's folder."""
    for link, target in _find_targets(subject):
        if target.outside:
            message = f"{link.destination!r} leads out of the skill's folder; link to files inside it, by relative path"
            yield _finding_at_link(subject, link, message)


@define_rule("link-dead", Severity.WARNING, _REFERENCES, stage=RuleStage.FOLDER)
def link_dead(subject: Subject) -> Iterator[Finding]:
    """Every link, path and file name in the text leads to a file of the skill."""
    if subject.files is None:
        return
    existing = _add_folders(subject.files)
    by_name = {_file_name(path): path for path in sorted(existing, reverse=True)}
    by_path = {path.lower(): path for path in sorted(existing, reverse=True)}
    for link, target in _find_targets(subject):
        if not target.outside and target.path not in existing:
            # Suggest the same name in another case or folder. A path in code may be an example of another skill.
            near = by_name.get(_file_name(target.path))
            hint = f"; did you mean {near!r}?" if near else " in the skill's folder"
            if near or not link.code or link.used:
                yield _finding_at_link(subject, link, f"{target.path!r} does not exist{hint}")
    seen: set[str] = set()
    for link in find_file_names(subject.parsed.body):
        near = by_path.get(link.destination.lower())
        if near is not None and link.destination not in existing and link.destination not in seen:
            seen.add(link.destination)
            message = f"{link.destination!r} does not exist; did you mean {near!r}? File names are case-sensitive"
            yield _finding_at_link(subject, link, message)


@define_rule(
    "reference-depth",
    Severity.WARNING,
    "specification, file references: keep references one level deep from SKILL.md, no chains",
    stage=RuleStage.FOLDER,
)
def reference_depth(subject: Subject) -> Iterator[Finding]:
    """Every document is linked from SKILL.md itself, not only from another one, and lies at most one folder down."""
    if subject.files is None or subject.linked_texts is None:
        return
    direct = {target.path: link for link, target in reversed(list(_find_targets(subject)))}
    seen: set[str] = set()
    for path, link in sorted(direct.items(), key=lambda item: (item[1].line, item[1].column)):
        if path.count("/") > 1 and path in subject.files and path.lower().endswith(_TEXT_ENDINGS):
            message = f"{path!r} lies {path.count('/')} folders down; expected one at most, such as references/"
            yield _finding_at_link(subject, link, message)
        for deeper in _find_documents(path, subject.linked_texts.get(path, ""), subject.files):
            if deeper in direct or deeper in seen:
                continue
            seen.add(deeper)
            if deeper not in subject.parsed.body:
                message = f"{deeper!r} can only be reached through {path!r}; link it from SKILL.md too"
                yield _finding_at_link(subject, link, message)


@define_rule(
    "license-file",
    Severity.WARNING,
    "specification, license field: the name of a bundled license file",
    stage=RuleStage.FOLDER,
)
def license_file(subject: Subject) -> Iterator[Finding]:
    """The file that the licence names exists."""
    text = subject.manifest.license
    if text is None or subject.files is None:
        return
    names = [match.group(1) for match in _LICENSE_FILE.finditer(text)]
    word = _LICENSE_WORD.fullmatch(text)
    if word:
        names.append(word.group(1))
    for name in names:
        if name not in subject.files:
            message = f"the license names {name!r}, which does not exist in the skill's folder"
            yield finding_at_value(subject, "license", message)


def _find_targets(subject: Subject) -> Iterator[tuple[Link, LinkTarget]]:
    for link in find_links(subject.parsed.body):
        target = resolve_link(link.destination)
        if target is not None:
            yield link, target


def _finding_at_link(subject: Subject, link: Link, message: str) -> Finding:
    return Finding(message, subject.parsed.body_line + link.line - 1, link.column)


def _find_documents(path: str, text: str, files: Mapping[str, int]) -> Iterator[str]:
    """The documents that a document links to, relative to itself or to the skill's folder."""
    folder = path.rpartition("/")[0]
    for found in (*find_linked_files(text, folder), *find_linked_files(text)):
        if found in files and found != path and found != "SKILL.md" and found.lower().endswith(_TEXT_ENDINGS):
            yield found


def _add_folders(files: Mapping[str, int]) -> set[str]:
    existing = set(files)
    for path in files:
        folder = path.rpartition("/")[0]
        while folder and folder not in existing:
            existing.add(folder)
            folder = folder.rpartition("/")[0]
    return existing


def _file_name(path: str) -> str:
    return path.rpartition("/")[2].lower()
