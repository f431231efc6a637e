"""ALL, judge(), fast path.

Every rule there is, in a stable order.

Asking the rules, and the two attitudes towards their answers.

The rules of the format: one function per clause, one table of them all.

Seeing at a glance that the specification can have no objection, as is so for most skills.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter

from openskills.skillmd.parse import ParsedSkill
from openskills.skillmd.problem import Problem, Severity, summarize_problems
from openskills.skillmd.rules import portability, specification, style
from openskills.skillmd.rules.rule import READING_RULES, Finding, Rule, Subject

_NAME = "specification, name field"
_DESCRIPTION = "specification, description field"
_COMPATIBILITY = "specification, compatibility field: must be 1-500 characters if provided"
_METADATA = "specification, metadata field: a map from string keys to string values"
_TOOLS = "specification, allowed-tools field: a space-separated string of tools"
_DISCLOSURE = "specification, progressive disclosure: keep SKILL.md under 500 lines and 5,000 tokens"
_REFERENCES = "specification, file references: relative paths from the skill root"
_ASCII = "portability: the specification says `a-z`, `0-9` in one place and Unicode in another; many clients take ASCII"
_EXTENSION = "portability: a field outside the specification, read by some clients only"

MANIFEST_RULES = (
    Rule("name-required", Severity.ERROR, f"{_NAME}: required", specification.name_required),
    Rule("name-type", Severity.ERROR, f"{_NAME}: a string", specification.name_type),
    Rule(
        "name-unsafe", Severity.ERROR, f"{_NAME}: only alphanumerics and hyphens", specification.name_unsafe, fatal=True
    ),
    Rule("name-length", Severity.ERROR, f"{_NAME}: must be 1-64 characters", specification.name_length),
    Rule("name-uppercase", Severity.ERROR, f"{_NAME}: lowercase", specification.name_uppercase),
    Rule("name-characters", Severity.ERROR, f"{_NAME}: only alphanumerics and hyphens", specification.name_characters),
    Rule("name-hyphen-edge", Severity.ERROR, f"{_NAME}: no hyphen at start or end", specification.name_hyphen_edge),
    Rule("name-hyphen-double", Severity.ERROR, f"{_NAME}: no consecutive hyphens", specification.name_hyphen_double),
    Rule("name-folder", Severity.ERROR, f"{_NAME}: must match the parent directory name", specification.name_folder),
    Rule(
        "description-required",
        Severity.ERROR,
        f"{_DESCRIPTION}: required, non-empty",
        specification.description_required,
        fatal=True,
    ),
    Rule("description-type", Severity.ERROR, f"{_DESCRIPTION}: a string", specification.description_type, fatal=True),
    Rule("description-length", Severity.ERROR, f"{_DESCRIPTION}: 1-1024 characters", specification.description_length),
    Rule("license-type", Severity.ERROR, "specification, license field: a name or a file", specification.license_type),
    Rule("compatibility-type", Severity.ERROR, _COMPATIBILITY, specification.compatibility_type),
    Rule("compatibility-length", Severity.ERROR, _COMPATIBILITY, specification.compatibility_length),
    Rule("metadata-type", Severity.ERROR, _METADATA, specification.metadata_type),
    Rule("metadata-value-type", Severity.WARNING, _METADATA, specification.metadata_values),
    Rule("allowed-tools-type", Severity.ERROR, _TOOLS, specification.allowed_tools_type),
    Rule("allowed-tools-list", Severity.WARNING, _TOOLS, specification.allowed_tools_list),
    Rule("name-unicode", Severity.WARNING, _ASCII, portability.name_unicode),
    Rule("name-normalised", Severity.WARNING, _ASCII, portability.name_normalised),
    Rule(
        "name-reserved",
        Severity.WARNING,
        "portability: Anthropic's platform reserves `anthropic` and `claude`",
        portability.name_reserved,
    ),
    Rule(
        "description-markup",
        Severity.WARNING,
        "portability: Anthropic's validator refuses angle brackets",
        portability.description_markup,
    ),
    Rule(
        "text-invisible",
        Severity.WARNING,
        "portability: what a model reads and a person cannot see is how instructions are smuggled",
        portability.text_invisible,
    ),
    Rule("extension-type", Severity.WARNING, _EXTENSION, portability.extension_type),
    Rule(
        "value-not-text",
        Severity.WARNING,
        "portability: other readers get a number, a date or a switch where the specification says text",
        portability.value_not_text,
    ),
    Rule(
        "yaml-comment-in-value",
        Severity.WARNING,
        "YAML 1.2, 6.6: a # after a blank begins a comment",
        portability.comment_in_value,
    ),
)
"""What can be said from the front matter and the folder's name; cheap enough to ask of every skill found."""

BODY_RULES = (
    Rule("field-unknown", Severity.NOTE, _EXTENSION, portability.field_unknown),
    Rule(
        "field-prose",
        Severity.WARNING,
        "client guide: text of several paragraphs that is not quoted; YAML cuts it at the first `: `",
        portability.field_prose,
    ),
    Rule("field-extension", Severity.NOTE, _EXTENSION, portability.field_extension),
    Rule(
        "description-short",
        Severity.NOTE,
        f"{_DESCRIPTION}: should describe what the skill does and when to use it",
        style.description_short,
    ),
    Rule(
        "description-when", Severity.NOTE, f"{_DESCRIPTION}: should say when to use the skill", style.description_when
    ),
    Rule("description-vague", Severity.NOTE, f"{_DESCRIPTION}: specific keywords", style.description_vague),
    Rule("body-empty", Severity.WARNING, "specification, body content: the skill instructions", style.body_empty),
    Rule("body-lines", Severity.WARNING, _DISCLOSURE, style.body_lines),
    Rule("body-tokens", Severity.WARNING, _DISCLOSURE, style.body_tokens),
    Rule("link-outside", Severity.WARNING, _REFERENCES, style.link_outside),
)
"""What its author wants to hear: notes on fields and wording, and the advice on the body."""

FOLDER_RULES = (
    Rule("link-dead", Severity.WARNING, _REFERENCES, style.link_dead),
    Rule(
        "reference-depth",
        Severity.WARNING,
        "specification, file references: keep references one level deep from SKILL.md, no chains",
        style.reference_depth,
    ),
    Rule(
        "license-file",
        Severity.WARNING,
        "specification, license field: the name of a bundled license file",
        style.license_file,
    ),
)
"""What can only be said when the files of the skill are known."""

ALL_RULES = (*READING_RULES, *MANIFEST_RULES, *BODY_RULES, *FOLDER_RULES)
"""The complete list of ids, including those that reading and discovery report by themselves."""


FATAL_RULES = frozenset(rule.id for rule in ALL_RULES if rule.fatal)
"""The ids of what keeps a skill from being loaded."""

_KNOWN = frozenset(rule.id for rule in ALL_RULES)


def apply_rules(subject: Subject, rules: Iterable[Rule] = ALL_RULES) -> tuple[Problem, ...]:
    """What these rules say, ordered by place and then as in the table. The problems of reading are not repeated."""
    found = [(rule, finding) for rule in rules if rule.check is not None for finding in rule.check(subject)]
    return _sort_findings(found) if found else ()


def lint_skill(
    parsed: ParsedSkill,
    folder: str | None = None,
    files: Mapping[str, int] | None = None,
    linked_texts: Mapping[str, str] | None = None,
) -> tuple[Problem, ...]:
    """Everything that is wrong with a file that was read: the problems of reading and those of all rules, by place."""
    if parsed.manifest is None:
        found = parsed.problems
    else:
        found = (*parsed.problems, *apply_rules(Subject(parsed, parsed.manifest, folder, files, linked_texts)))
    return tuple(sorted(found, key=position_key))


def position_key(problem: Problem) -> tuple[int, int]:
    """The order in which a person meets problems in a file."""
    return problem.line or 0, problem.column or 0


def relax_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """What a loader makes of them, as the client guide asks: only what is fatal stays an error."""
    return tuple(
        problem.as_warning() if problem.rule in _KNOWN and problem.rule not in FATAL_RULES else problem
        for problem in problems
    )


def _sort_findings(found: list[tuple[Rule, Finding]]) -> tuple[Problem, ...]:
    problems: list[Problem] = []
    for rule, group in groupby(found, key=itemgetter(0)):
        problems += summarize_problems([_to_problem(rule, finding) for _, finding in group])
    return tuple(sorted(problems, key=position_key))


def _to_problem(rule: Rule, finding: Finding) -> Problem:
    return Problem(rule.id, finding.message, rule.severity, finding.line, finding.column, finding.fix)


__all__ = [
    "ALL_RULES",
    "BODY_RULES",
    "FATAL_RULES",
    "FOLDER_RULES",
    "MANIFEST_RULES",
    "Finding",
    "Rule",
    "Subject",
    "apply_rules",
    "lint_skill",
    "relax_problems",
]


_PLAIN_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_JUDGED = frozenset({"license", "compatibility", "allowed-tools"})


def is_plainly_valid(subject: Subject) -> bool:
    """Whether no rule of severity error has anything to say. False means only that they have to be asked.

    Loading thousands of skills asks this first; a property test holds it to the rules.
    """
    name, description, fields = subject.manifest.name, subject.manifest.description, subject.fields
    return (
        name == subject.folder == fields.get("name")
        and len(name) <= 64
        and _PLAIN_NAME.fullmatch(name) is not None
        and 0 < len(description) <= 1024
        and _JUDGED.isdisjoint(fields)
        and ("metadata" not in fields or isinstance(fields["metadata"], dict))
    )
