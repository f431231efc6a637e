"""For every clause a text that breaks it, where it breaks, and a neighbour that does not."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from openskills.skillmd.frontmatter import decode
from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Problem, Severity
from openskills.skillmd.rules import lint_skill
from openskills.skillmd.yaml import MAX_DEPTH, MAX_FILE_BYTES, MAX_FRONTMATTER_CHARACTERS, MAX_KEYS

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

NAME = "name: pdf-tools"
DESCRIPTION = "description: Merge PDF files. Use when the user asks for it."


@dataclass(frozen=True, slots=True)
class Case:
    """`broken` breaks `rule` at `line` and `column`; `sound` differs as little as possible and does not."""

    rule: str
    severity: Severity
    broken: str | bytes
    line: int | None
    column: int | None
    sound: str | bytes
    folder: str | None = "pdf-tools"
    files: Mapping[str, int] | None = None
    linked_texts: Mapping[str, str] = field(default_factory=dict[str, str])

    def problems(self, text: str | bytes) -> tuple[Problem, ...]:
        """Everything that a strict reader says about a text."""
        if isinstance(text, bytes):
            text, problem = decode(text)
            if problem:
                return (problem,)
        return lint_skill(parse(text), self.folder, self.files, self.linked_texts)


def skill(*fields: str, body: str = "Do it.") -> str:
    """A SKILL.md with a sound name and description and these fields; the first of them stands on line 4."""
    return file(NAME, DESCRIPTION, *fields, body=body)


def file(*fields: str, body: str = "Do it.") -> str:
    """A SKILL.md with exactly these fields; the first of them stands on line 2."""
    return "\n".join(("---", *fields, "---", body, ""))


def named(name: str) -> str:
    """A SKILL.md with this name as written, on line 2, column 7."""
    return file(f"name: {name}", DESCRIPTION)


def described(description: str) -> str:
    """A SKILL.md with this description as written, on line 3, column 14."""
    return file(NAME, f"description: {description}")


SOUND = skill()

READING = (
    Case("file-size", ERROR, b"-" * (MAX_FILE_BYTES + 1), None, None, SOUND.encode().ljust(MAX_FILE_BYTES)),
    Case("text-encoding", ERROR, b"---\nname: caf\xe9\n---\n", 2, 10, SOUND.encode()),
    Case("text-encoding", ERROR, SOUND.encode("utf-16"), 1, 1, SOUND.encode()),
    Case("text-nul", ERROR, b"---\r\nname: a\0b\r\n---\r\n", 2, 8, SOUND.encode()),
    Case("text-bom", WARNING, "\ufeff" + SOUND, 1, 1, SOUND),
    Case("frontmatter-first-line", WARNING, "\n \n" + SOUND, 1, 1, SOUND),
    Case("frontmatter-missing", ERROR, "# Title\n\n---\nname: x\n---\n", 1, 1, SOUND),
    Case("frontmatter-missing", ERROR, "", 1, 1, SOUND),
    Case(
        "frontmatter-unclosed",
        ERROR,
        f"\n---\n{NAME}\n --- \n{DESCRIPTION}\n",
        2,
        1,
        f"\n---\n{NAME}\n{DESCRIPTION}\n---",
    ),
    Case(
        "frontmatter-size", ERROR, skill("x: " + "y" * MAX_FRONTMATTER_CHARACTERS), 2, 1, skill("x: " + "y" * 200_000)
    ),
    Case("text-control", ERROR, skill("note: a\x07b"), 4, 8, skill("note: a b")),
    Case("yaml-syntax", ERROR, file("@" + NAME, DESCRIPTION), 2, 1, SOUND),
    Case("frontmatter-mapping", ERROR, file("just text"), 2, 1, SOUND),
    Case("frontmatter-mapping", ERROR, file("- name", "- description"), 2, 1, SOUND),
    Case("yaml-alias", ERROR, skill("note: &anchor x"), 4, 7, skill('note: "&anchor x"')),
    Case("yaml-alias", ERROR, skill("note: *anchor"), 4, 7, skill("note: '*anchor'")),
    Case("yaml-tag", ERROR, skill("note: !!python/name:os.system x"), 4, 7, skill("note: !!str x")),
    Case(
        "yaml-depth", ERROR, skill(f"x: {'[' * MAX_DEPTH}{']' * MAX_DEPTH}"), 4, 35, skill(f"x: {'[' * 31}{']' * 31}")
    ),
    Case(
        "yaml-keys", ERROR, skill(f"x: [{'a,' * MAX_KEYS}]"), 4, 5 + 2 * (MAX_KEYS - 3), skill(f"x: [{'a,' * 9_000}]")
    ),
    Case(
        "yaml-surrogates",
        ERROR,
        skill('metadata: {"a": "\\ud83d\\udcc4"}'),
        4,
        18,
        skill('metadata: {"a": "\\U0001f4c4"}'),
    ),
    Case("yaml-tab", ERROR, skill("metadata:", "\tauthor: x"), 5, 1, skill("metadata:", "  author: x\ty")),
    Case(
        "yaml-unquoted",
        ERROR,
        described("Merge: all files. Use when asked."),
        3,
        14,
        described("'Merge: all. Use it.'"),
    ),
    Case("yaml-unquoted", ERROR, skill("metadata:", "  a: b: c"), 5, 6, skill("metadata:", "  a: b:c")),
    Case("yaml-layout", ERROR, file(" " + NAME, DESCRIPTION), 3, 1, file(" " + NAME, " " + DESCRIPTION)),
    Case("yaml-duplicate-key", ERROR, skill(NAME), 4, 1, SOUND),
    Case("yaml-duplicate-key", ERROR, skill("metadata: {a: b, a: c}"), 4, 18, skill("metadata: {a: b, c: a}")),
)

SPECIFICATION = (
    Case("name-required", ERROR, file(DESCRIPTION), 2, 1, SOUND),
    Case("name-required", ERROR, file('name: " "', DESCRIPTION), 2, 7, SOUND),
    Case("name-type", ERROR, named("[pdf-tools]"), 2, 7, SOUND),
    Case("name-unsafe", ERROR, named("../pdf-tools"), 2, 7, SOUND),
    Case("name-unsafe", ERROR, named(r"pdf\tools"), 2, 7, SOUND),
    Case("name-unsafe", ERROR, named(".."), 2, 7, named("a.b")),
    Case("name-unsafe", ERROR, named('"pdf\\u202etools"'), 2, 7, SOUND),
    Case("name-unsafe", ERROR, named('"pdf\\u0007tools"'), 2, 7, SOUND),
    Case("name-unsafe", ERROR, named("pdf\ue000tools"), 2, 7, SOUND),
    Case("name-length", ERROR, named("a" * 65), 2, 7, named("a" * 64)),
    Case("name-length", ERROR, named("ﬃ" * 22), 2, 7, named("ﬃ" * 21)),
    Case("name-uppercase", ERROR, named("Pdf-tools"), 2, 7, SOUND),
    Case("name-uppercase", ERROR, named("Мой"), 2, 7, named("мой")),
    Case("name-characters", ERROR, named("pdf_tools"), 2, 7, SOUND),
    Case("name-characters", ERROR, named("a b"), 2, 7, named("हिन्दी")),
    Case("name-characters", ERROR, named("a.b"), 2, 7, named("สกิล")),
    Case("name-hyphen-edge", ERROR, named("-pdf"), 2, 7, SOUND),
    Case("name-hyphen-edge", ERROR, named("pdf-"), 2, 7, SOUND),
    Case("name-hyphen-double", ERROR, named("pdf--tools"), 2, 7, SOUND),
    Case("name-folder", ERROR, named("pdf"), 2, 7, SOUND),
    Case("name-folder", ERROR, named("cafe"), 2, 7, named("café"), folder="cafe\u0301"),
    Case("description-required", ERROR, file(NAME), 2, 1, SOUND),
    Case("description-required", ERROR, described("' '"), 3, 14, SOUND),
    Case("description-required", ERROR, described("~"), 3, 14, described("'~'")),
    Case("description-type", ERROR, described("[Merge]"), 3, 14, described("'[Merge]'")),
    Case("description-length", ERROR, described("é" * 1025), 3, 14, described(f"'  {'é' * 1024}  '")),
    Case("license-type", ERROR, skill("license: [MIT]"), 4, 1, skill("license: MIT")),
    Case("license-type", ERROR, skill("license:"), 4, 1, skill("license: MIT")),
    Case("compatibility-type", ERROR, skill("compatibility: [a]"), 4, 1, skill("compatibility: a")),
    Case("compatibility-length", ERROR, skill('compatibility: ""'), 4, 1, skill("compatibility: a")),
    Case("compatibility-length", ERROR, skill("compatibility:"), 4, 1, skill("compatibility: a")),
    Case(
        "compatibility-length", ERROR, skill("compatibility: " + "a" * 501), 4, 1, skill("compatibility: " + "a" * 500)
    ),
    Case("metadata-type", ERROR, skill("metadata: [a]"), 4, 1, skill("metadata: {a: b}")),
    Case("metadata-type", ERROR, skill("metadata:"), 4, 1, skill("metadata: {}")),
    Case("metadata-value-type", WARNING, skill("metadata:", "  v: 1.0"), 5, 3, skill("metadata:", '  v: "1.0"')),
    Case("metadata-value-type", WARNING, skill("metadata: {a: [b]}"), 4, 12, skill("metadata: {a: b}")),
    Case("metadata-value-type", WARNING, skill("metadata:", "  on: yes"), 5, 3, skill("metadata:", "  on: yes please")),
    Case("allowed-tools-type", ERROR, skill("allowed-tools: {a: b}"), 4, 1, skill("allowed-tools: a b")),
    Case("allowed-tools-type", ERROR, skill("allowed-tools:"), 4, 1, skill('allowed-tools: ""')),
    Case("allowed-tools-list", WARNING, skill("allowed-tools: [a, b]"), 4, 1, skill("allowed-tools: a, b")),
)

PORTABILITY = (
    Case("name-unicode", WARNING, named("技能"), 2, 7, SOUND),
    Case("name-normalised", WARNING, named("ﬁle-x"), 2, 7, named("file-x")),
    Case("name-reserved", WARNING, named("claude-pdf"), 2, 7, SOUND),
    Case("description-markup", WARNING, described("Merge <b>PDF</b>. Use when asked."), 3, 14, SOUND),
    Case(
        "text-invisible",
        WARNING,
        described("Merge\u200b it. Use when asked."),
        3,
        14,
        described("क्\u200dष. Use when asked."),
    ),
    Case(
        "text-invisible", WARNING, described("Merge\U000e0041. Use it."), 3, 14, described("👩\u200d💻 merges. Use it.")
    ),
    Case("text-invisible", WARNING, named("pdf\u3164tools"), 2, 7, SOUND),
    Case("field-unknown", NOTE, skill("color: blue"), 4, 1, skill("metadata:", "  color: blue")),
    Case("field-prose", WARNING, skill("", "Second part: more text."), 5, 1, skill("second-part: more")),
    Case("field-extension", NOTE, skill("homepage: https://example.org"), 4, 1, SOUND),
    Case("extension-type", WARNING, skill("user-invocable: maybe"), 4, 1, skill("user-invocable: no")),
    Case("extension-type", WARNING, skill("model: [a]"), 4, 1, skill("model: a")),
    Case("extension-type", WARNING, skill("hooks: a"), 4, 1, skill("hooks: {a: b}")),
    Case("extension-type", WARNING, skill("paths: {a: b}"), 4, 1, skill("paths: [a]")),
    Case("value-not-text", WARNING, skill("version: 1.0"), 4, 10, skill('version: "1.0"')),
    Case(
        "value-not-text", WARNING, file("name: 123", DESCRIPTION), 2, 7, file("name: '123'", DESCRIPTION), folder="123"
    ),
    Case("value-not-text", WARNING, skill("license: 2026-01-01"), 4, 10, skill("license: 2026-01-01 MIT")),
    Case(
        "yaml-comment-in-value", WARNING, described("Fix issue #12. Use when asked."), 3, 1, described("Fix issue#12.")
    ),
    Case(
        "yaml-comment-in-value",
        WARNING,
        skill("metadata:", "  color: #fff"),
        5,
        3,
        skill("metadata:", "  color: a # b"),
    ),
)

LINKED = {"references/a.md": "See [b](b.md) and [c](references/c.md)."}
CHAIN = {"references/a.md": 1, "references/b.md": 1, "references/c.md": 1}

LINT = (
    Case("description-short", NOTE, described("Use when asked."), 3, 14, SOUND),
    Case(
        "description-when",
        NOTE,
        described("Merges PDF files and splits them."),
        3,
        14,
        described("合并文件，当用户需要时使用。"),
    ),
    Case(
        "description-vague", NOTE, described("Helps with PDF files."), 3, 14, described("Merges PDF files of any size.")
    ),
    Case("body-empty", WARNING, skill(body=""), 6, 1, SOUND),
    Case("body-lines", WARNING, skill(body="a\n" * 501), 505, 1, skill(body="a\n" * 500)),
    Case("body-tokens", WARNING, skill(body="word " * 4100), 5, 1, skill(body="word " * 3900)),
    Case("link-outside", WARNING, skill(body="\nSee [it](../other/a.md)."), 6, 10, skill(body="See [it](b/../a.md).")),
    Case("link-outside", WARNING, skill(body="![x](/etc/a.png)"), 5, 6, skill(body="![x](https://a.b/c.png)")),
    Case("link-outside", WARNING, skill(body="[x](file:///a)"), 5, 5, skill(body="[x](mailto:a@b.c)")),
    Case("link-outside", WARNING, skill(body="[x](C:\\a.md)"), 5, 5, skill(body="[x](#anchor)")),
    Case("link-dead", WARNING, skill(body="[x](a.md)"), 5, 5, skill(body="[x](b.md#part)"), files={"b.md": 1}),
    Case("link-dead", WARNING, skill(body="[x]: <a b.md>"), 5, 7, skill(body="[x](c%20d.md 'T')"), files={"c d.md": 1}),
    Case("link-dead", WARNING, skill(body="Run `scripts/a.py -x`."), 5, 6, skill(body="```\n[x](a.md)\n```"), files={}),
    Case(
        *("link-dead", WARNING, skill(body="See FORMS.md."), 5, 5),
        *(skill(body="See forms.md, or ask for README.md."),),
        files={"forms.md": 1},
    ),
    Case(
        *("link-dead", WARNING, skill(body="`scripts/Run.py` does it."), 5, 2),
        *(skill(body="Example: `scripts/rotate.py` for PDF files"),),
        files={"scripts/run.py": 1},
    ),
    Case("link-dead", WARNING, skill(body="[x](refs/)"), 5, 5, skill(body="[x](docs/)"), files={"docs/a/b.md": 1}),
    Case(
        *("reference-depth", WARNING, skill(body="[a](references/a.md)"), 5, 5),
        skill(body="[a](references/a.md) [b](references/b.md) `references/c.md`"),
        files=CHAIN,
        linked_texts=LINKED,
    ),
    Case(
        "license-file", WARNING, skill("license: Terms in LICENSE.txt"), 4, 10, skill("license: MIT License"), files={}
    ),
    Case(
        "license-file", WARNING, skill("license: See LICENSE"), 4, 10, skill("license: COPYING"), files={"COPYING": 1}
    ),
)

CASES = (*READING, *SPECIFICATION, *PORTABILITY, *LINT)
