"""The shapes that real files have and that libraries fail on, each with what a loader must make of it.

A loader reads leniently: problems that are not fatal are warnings, and the manifest is what the author meant.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from openskills.skillmd.frontmatter import decode
from openskills.skillmd.parse import parse
from openskills.skillmd.problem import select_errors
from openskills.skillmd.rules import MANIFEST_RULES, apply_rules, relax_problems
from openskills.skillmd.rules.rule import Subject
from openskills.skillmd.yaml import Value


@dataclass(frozen=True, slots=True)
class Shape:
    """A file, the fields and body that a loader gets, and the rules that it reports, notes aside."""

    id: str
    text: str | bytes
    fields: Mapping[str, Value]
    body: str = "Body."
    reported: frozenset[str] = field(default_factory=frozenset[str])


def front(*lines: str, body: str = "Body.\n") -> str:
    return "\n".join(("---", "name: pdf", *lines, "---", body))


def described(text: str) -> Mapping[str, Value]:
    return {"name": "pdf", "description": text}


def with_fields(**fields: Value) -> Mapping[str, Value]:
    return {"name": "pdf", "description": "Merge.", **fields}


PLAIN = front("description: Merge.")
UNQUOTED = frozenset({"yaml-unquoted"})
VALUE = frozenset({"metadata-value-type"})
LIST = frozenset({"allowed-tools-list"})

FENCES = (
    Shape("minimal", PLAIN, described("Merge.")),
    Shape("byte-order-mark", "\ufeff" + PLAIN, described("Merge."), reported=frozenset({"text-bom"})),
    Shape(
        "byte-order-mark-as-bytes",
        b"\xef\xbb\xbf" + PLAIN.encode(),
        described("Merge."),
        reported=frozenset({"text-bom"}),
    ),
    Shape("crlf", PLAIN.replace("\n", "\r\n"), described("Merge.")),
    Shape("cr-only", PLAIN.replace("\n", "\r"), described("Merge.")),
    Shape("mixed-line-ends", PLAIN.replace("\n", "\r\n", 2), described("Merge.")),
    Shape("leading-blank-line", "\n" + PLAIN, described("Merge."), reported=frozenset({"frontmatter-first-line"})),
    Shape("blanks-after-fences", PLAIN.replace("---\n", "---  \t\n"), described("Merge.")),
    Shape("closing-fence-at-the-end", PLAIN.removesuffix("\nBody.\n"), described("Merge."), ""),
    Shape(
        "rule-in-the-body",
        front("description: Merge.", body="One\n\n---\n\nTwo\n"),
        described("Merge."),
        "One\n\n---\n\nTwo",
    ),
    Shape("blank-lines-around-the-body", front("description: Merge.", body="\n \nBody.\n\n\n"), described("Merge.")),
    Shape("indented-body", front("description: Merge.", body="\n    code\n"), described("Merge."), "    code"),
    Shape("hyphens-in-a-plain-value", front("description: Splits on --- lines."), described("Splits on --- lines.")),
    Shape("hyphens-in-a-quoted-value", front('description: "a --- b"'), described("a --- b")),
    Shape("hyphens-in-a-folded-value", front("description: >-", "  a", "  ---", "  b"), described("a --- b")),
    Shape("four-hyphens-are-no-fence", front("description: Merge.", "note: |-", "  ----"), with_fields(note="----")),
    Shape(
        "hyphens-with-text-are-no-fence",
        front("description: Merge", "--- all ---"),
        described("Merge --- all ---"),
        reported=UNQUOTED,
    ),
)

DESCRIPTIONS = (
    Shape(
        "unquoted-colon",
        front("description: Use this: merge files"),
        described("Use this: merge files"),
        reported=UNQUOTED,
    ),
    Shape(
        "paragraphs-with-keywords-at-the-margin",
        front("description: Merge files.", "And split them.", "", "Keywords: pdf, merge", "license: MIT"),
        {"name": "pdf", "description": "Merge files. And split them.\nKeywords: pdf, merge", "license": "MIT"},
        reported=UNQUOTED,
    ),
    Shape(
        "paragraphs-with-keywords-indented",
        front("description: Merge files.", "", "  Keywords: pdf, merge", "license: MIT"),
        {"name": "pdf", "description": "Merge files.\nKeywords: pdf, merge", "license": "MIT"},
        reported=UNQUOTED,
    ),
    Shape(
        "plain-text-on-the-next-lines-with-a-colon",
        front("description:", '  Checks a plan, as in "check my plan".', "  Goes with another skill: check first."),
        described('Checks a plan, as in "check my plan". Goes with another skill: check first.'),
        reported=UNQUOTED,
    ),
    Shape(
        "plain-text-that-begins-with-a-word-and-a-colon",
        front("description:", "  Usage: a", "  b: c: d"),
        described("Usage: a b: c: d"),
        reported=UNQUOTED,
    ),
    Shape("plain-over-two-lines", front("description: Merge", "  files."), described("Merge files.")),
    Shape("folded", front("description: >", "  Merge", "  files.", "", "  All."), described("Merge files.\nAll.\n")),
    Shape("folded-and-stripped", front("description: >-", "  Merge", "  files."), described("Merge files.")),
    Shape("literal", front("description: |", "  Merge", "  files."), described("Merge\nfiles.\n")),
    Shape(
        "literal-with-crlf",
        front("description: |", "  Merge", "  files.").replace("\n", "\r\n"),
        described("Merge\nfiles.\n"),
    ),
    Shape("literal-with-colons-and-quotes", front("description: |-", '  a: "b', "  # c"), described('a: "b\n# c')),
    Shape("literal-indented-wrongly", front("description: |", "  a", " b"), described("a\nb"), reported=UNQUOTED),
    Shape("double-quoted-with-escapes", front(r'description: "a\tb \"c\" \u00e9"'), described('a\tb "c" é')),
    Shape("single-quoted-with-a-quote", front("description: 'it''s'"), described("it's")),
    Shape(
        "quotes-inside-quotes",
        front('description: "say "hello" twice"'),
        described('say "hello" twice'),
        reported=UNQUOTED,
    ),
    Shape("apostrophe-inside-single-quotes", front("description: 'don't'"), described("don't"), reported=UNQUOTED),
    Shape("two-quoted-words", front('description: "one" and "two"'), described('"one" and "two"'), reported=UNQUOTED),
    Shape(
        "quote-never-closed",
        front('description: "Merge.', "license: MIT"),
        with_fields(license="MIT"),
        reported=UNQUOTED,
    ),
    Shape(
        "windows-path-in-double-quotes",
        front(r'description: "C:\Users\me"'),
        described(r"C:\Users\me"),
        reported=UNQUOTED,
    ),
    Shape("starts-with-a-bracket", front("description: [beta] Merge"), described("[beta] Merge"), reported=UNQUOTED),
    Shape("starts-with-an-asterisk", front("description: *all files"), described("*all files"), reported=UNQUOTED),
    Shape("starts-with-bold", front("description: **Merge** files"), described("**Merge** files"), reported=UNQUOTED),
    Shape("starts-with-an-at-sign", front("description: @me merge"), described("@me merge"), reported=UNQUOTED),
    Shape("starts-with-a-backtick", front("description: `pdf` merge"), described("`pdf` merge"), reported=UNQUOTED),
    Shape("starts-with-a-percent-sign", front("description: %d files"), described("%d files"), reported=UNQUOTED),
    Shape("starts-with-an-ampersand", front("description: & more"), described("& more"), reported=UNQUOTED),
    Shape("starts-with-a-brace", front("description: {a} b"), described("{a} b"), reported=UNQUOTED),
    Shape("number-sign-inside-a-word", front("description: C#11"), described("C#11")),
    Shape(
        "comment-after-a-value",
        front("description: Merge # all"),
        described("Merge"),
        reported=frozenset({"yaml-comment-in-value"}),
    ),
    Shape("comments-between-fields", front("# one", "description: Merge.", "  # two", "# three"), described("Merge.")),
    Shape(
        "comment-after-a-recovered-value",
        front("description: a: b", "# c", "license: MIT"),
        {**described("a: b"), "license": "MIT"},
        reported=UNQUOTED,
    ),
    Shape("emoji", front("description: 📄 Merge."), described("📄 Merge.")),
    Shape(
        "line-separator", front("description: a\u2028b"), described("a\u2028b"), reported=UNQUOTED | {"text-invisible"}
    ),
    Shape("chinese", front("description: 合并文件。用于：合并"), described("合并文件。用于：合并")),
    Shape(
        "markup",
        front("description: a </description> b"),
        described("a </description> b"),
        reported=frozenset({"description-markup"}),
    ),
    Shape(
        "too-long",
        front("description: " + "a" * 1068),
        described("a" * 1068),
        reported=frozenset({"description-length"}),
    ),
)

VALUES = (
    Shape(
        "switch-as-name",
        "---\nname: true\ndescription: Merge.\n---\n",
        {"name": "true", "description": "Merge."},
        "",
        frozenset({"name-folder", "value-not-text"}),
    ),
    Shape(
        "number-as-name",
        "---\nname: 123\ndescription: Merge.\n---\n",
        {"name": "123", "description": "Merge."},
        "",
        frozenset({"name-folder", "value-not-text"}),
    ),
    Shape("no-as-description", front("description: no"), described("no"), reported=frozenset({"value-not-text"})),
    Shape(
        "date-number-and-switch-in-metadata",
        front("description: Merge.", "metadata:", "  a: 2026-01-01", "  b: 1.10", "  c: off"),
        with_fields(metadata={"a": "2026-01-01", "b": "1.10", "c": "off"}),
        reported=VALUE,
    ),
    Shape(
        "empty-values",
        front("description: Merge.", "note:", "other: ~", 'text: ""'),
        with_fields(note=None, other=None, text=""),
    ),
    Shape(
        "name-missing",
        "---\ndescription: Merge.\n---\nBody.",
        {"description": "Merge."},
        reported=frozenset({"name-required"}),
    ),
    Shape(
        "name-of-another-folder",
        "---\nname: other\ndescription: Merge.\n---\nBody.",
        {"name": "other", "description": "Merge."},
        reported=frozenset({"name-folder"}),
    ),
    Shape(
        "name-with-capitals-and-blanks",
        "---\nname: Travel Planner\ndescription: Merge.\n---\nBody.",
        {"name": "Travel Planner", "description": "Merge."},
        reported=frozenset({"name-folder", "name-uppercase", "name-characters"}),
    ),
    Shape(
        "keys-that-stand-twice",
        front("description: a", "description: b"),
        described("b"),
        reported=frozenset({"yaml-duplicate-key"}),
    ),
    Shape(
        "unknown-fields", front("description: Merge.", "color: [red, {a: b}]"), with_fields(color=["red", {"a": "b"}])
    ),
    Shape(
        "flow-list-of-tools",
        front("description: Merge.", "allowed-tools: [Read, 'Bash(git:*)']"),
        with_fields(**{"allowed-tools": ["Read", "Bash(git:*)"]}),
        reported=LIST,
    ),
    Shape(
        "block-list-of-tools",
        front("description: Merge.", "allowed-tools:", "- Read", "- Write"),
        with_fields(**{"allowed-tools": ["Read", "Write"]}),
        reported=LIST,
    ),
    Shape(
        "list-indented-wrongly",
        front("description: Merge.", "allowed-tools:", "  - Read", " - Write"),
        with_fields(**{"allowed-tools": ["Read", "Write"]}),
        reported=LIST | UNQUOTED,
    ),
    Shape(
        "json-metadata-on-one-line",
        front("description: Merge.", 'metadata: {"a":{"bins":["op"]}}'),
        with_fields(metadata={"a": {"bins": ["op"]}}),
        reported=VALUE,
    ),
    Shape(
        "json-metadata-with-trailing-commas",
        front(
            "description: Merge.",
            "metadata:",
            "  {",
            '    "a":',
            "      {",
            '        "os": ["linux",],',
            '        "x": { "y": "z", },',
            "      },",
            "  }",
        ),
        with_fields(metadata={"a": {"os": ["linux"], "x": {"y": "z"}}}),
        reported=VALUE,
    ),
    Shape(
        "json-metadata-indented-with-tabs",
        front("description: Merge.", "metadata: {", '\t"a": "b",', "\t}"),
        with_fields(metadata={"a": "b"}),
    ),
    Shape(
        "nested-block-metadata",
        front("description: Merge.", "metadata:", "  a:", "    b:", "      - c"),
        with_fields(metadata={"a": {"b": ["c"]}}),
        reported=VALUE,
    ),
    Shape(
        "one-bad-value-in-metadata",
        front("description: Merge.", "metadata:", "  a: x: y", "  b:", "    c: @d", "    e: f"),
        with_fields(metadata={"a": "x: y", "b": {"c": "@d", "e": "f"}}),
        reported=VALUE | UNQUOTED,
    ),
    Shape(
        "tabs-for-indentation",
        front("description: Merge.", "metadata:", "\ta: b", "\tc:", "\t\td: e"),
        with_fields(metadata={"a": "b", "c": {"d": "e"}}),
        reported=VALUE | {"yaml-tab"},
    ),
    Shape("tab-after-the-colon", front("description:\tMerge."), described("Merge.")),
    Shape("quoted-keys", "---\n\"name\": pdf\n'description': Merge.\n---\nBody.", described("Merge.")),
    Shape(
        "whole-front-matter-as-json", '---\n{"name": "pdf", "description": "Merge."}\n---\nBody.', described("Merge.")
    ),
    Shape("every-field-indented", "---\n  name: pdf\n  description: Merge.\n---\nBody.", described("Merge.")),
    Shape(
        "every-field-indented-and-a-colon",
        "---\n  name: pdf\n  description: a: b\n---\nBody.",
        described("a: b"),
        reported=UNQUOTED,
    ),
    Shape(
        "first-field-indented",
        "---\n name: pdf\ndescription: Merge.\n---\nBody.",
        described("Merge."),
        reported=frozenset({"yaml-layout"}),
    ),
    Shape("string-tag", front("description: !!str 12", "note: !!str"), {**described("12"), "note": ""}),
)

DESCRIPTIONS_LIKE_YAML = (
    Shape(
        "an-indented-paragraph-with-a-colon",
        front("description:", "  Use this when: the user asks"),
        described("Use this when: the user asks"),
        reported=UNQUOTED,
    ),
    Shape("an-exclamation-mark", front("description: ! important"), described("! important"), reported=UNQUOTED),
    Shape("a-word-like-a-tag", front("description: !important x"), described("!important x"), reported=UNQUOTED),
)

LOADED = (*DESCRIPTIONS_LIKE_YAML, *FENCES, *DESCRIPTIONS, *VALUES)

REFUSED: Mapping[str, tuple[str | bytes, str]] = {
    "no-front-matter": ("# Title\n\nText.\n", "frontmatter-missing"),
    "empty-file": ("", "frontmatter-missing"),
    "never-closed": ("---\nname: pdf\ndescription: Merge.\n", "frontmatter-unclosed"),
    "latin-1": ("---\nname: pdf\ndescription: Café\n---\n".encode("latin-1"), "text-encoding"),
    "utf-16": (PLAIN.encode("utf-16"), "text-encoding"),
    "nul": (b"---\nname: pdf\0\n---\n", "text-nul"),
    "control-character": (front("description: a\x1bb"), "text-control"),
    "anchor-and-alias": (front("description: &a Merge", "license: *a"), "yaml-alias"),
    "alias-alone": (front("description: *a"), "yaml-alias"),
    "tag": (front("description: !!python/object/apply:os.system [id]"), "yaml-tag"),
    "deep-nesting": (front("description: Merge.", "x: " + "[" * 300 + "]" * 300), "yaml-depth"),
    "deep-block-nesting": (
        front("description: Merge.", "x:", *(" " * (n + 1) + "- " * 40 for n in range(1))),
        "yaml-depth",
    ),
    "too-many-keys": (front(*(f"k{number}: v" for number in range(10_001))), "yaml-keys"),
    "a-list": ("---\n- a\n---\n", "frontmatter-mapping"),
    "text": ("---\nMerge files\n---\n", "frontmatter-mapping"),
    "hopeless": ("---\n}{\n---\n", "yaml-syntax"),
    "empty-front-matter": ("---\n---\nBody.", "description-required"),
    "description-missing": (front("license: MIT"), "description-required"),
    "description-empty": (front("description:"), "description-required"),
    "description-blank": (front('description: " "'), "description-required"),
    "description-a-list": (front("description: [a, b]"), "description-type"),
    "description-a-map": (front("description: {a: b}"), "description-type"),
    "name-that-climbs": ("---\nname: ../../etc\ndescription: Merge.\n---\n", "name-unsafe"),
}


@pytest.mark.parametrize("shape", LOADED, ids=[shape.id for shape in LOADED])
def test_a_loader_gets_what_the_author_meant_and_says_what_was_odd(shape: Shape) -> None:
    text, problem = decode(shape.text) if isinstance(shape.text, bytes) else (shape.text, None)
    assert problem is None
    parsed = parse(text)
    assert parsed.front.fields == shape.fields
    assert parsed.body == shape.body
    assert parsed.manifest is not None
    found = (*parsed.problems, *apply_rules(Subject(parsed, parsed.manifest, "pdf"), MANIFEST_RULES))
    assert {problem.rule for problem in found} == shape.reported
    assert select_errors(relax_problems(found)) == ()


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_loader_leaves_out_what_is_beyond_use_and_says_why(case: tuple[str | bytes, str]) -> None:
    data, rule = case
    text, problem = decode(data) if isinstance(data, bytes) else (data, None)
    if problem is None:
        parsed = parse(text)
        manifest = parsed.manifest
        found = parsed.problems if manifest is None else apply_rules(Subject(parsed, manifest, "pdf"), MANIFEST_RULES)
    else:
        found = (problem,)
    assert [error.rule for error in select_errors(relax_problems(found))] == [rule]
