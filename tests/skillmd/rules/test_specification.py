""""""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.skillmd.fixes import apply_fixes
from openskills.skillmd.parse import parse
from openskills.skillmd.problem import select_errors
from openskills.skillmd.rules import lint_skill
from openskills.skillmd.rules.specification import describe_unsafe, is_valid_name, suggest_name
from tests.skillmd.strategies import prose, relaxed


def fixed(*lines: str) -> list[str]:
    """These lines after the safe fixes."""
    text = "\n".join(("---", "name: pdf", "description: Merge PDF files. Use when asked.", *lines, "---", "Do it.", ""))
    return apply_fixes(text, lint_skill(parse(text), "pdf"))[0].split("\n")[3:-3]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["allowed-tools: [Read, Write]"], ["allowed-tools: Read Write"]),
        (
            ["allowed-tools:", "  - Read", "  - Bash(git commit *)", "license: MIT"],
            ["allowed-tools: Read Bash(git commit *)", "license: MIT"],
        ),
        (["allowed-tools:", "- 'Bash(git: *)'", '- "Read"', ""], ['allowed-tools: "Bash(git: *) Read"', ""]),
        (["allowed-tools: []"], ['allowed-tools: ""']),
        (["allowed-tools: [", "  Read,", "]"], ["allowed-tools: Read"]),
    ],
)
def test_a_list_of_tools_becomes_one_text(lines: list[str], expected: list[str]) -> None:
    assert fixed(*lines) == expected


@pytest.mark.parametrize(
    "lines",
    [
        ["allowed-tools: [Read Write]"],
        ["allowed-tools: ['Read,Write']"],
        ["allowed-tools: ['Bash(a', Read]"],
        ["allowed-tools: [Read, [Write]]"],
        ["allowed-tools: [Read] ", "# note", "allowed-tools:", "  - Read # note", "  - Write"],
        ["allowed-tools:", "  - |", "    Read", "license: MIT"],
        ["? allowed-tools", ": [Read]"],
    ],
)
def test_a_list_of_tools_stays_when_a_text_would_mean_something_else_or_lose_a_comment(lines: list[str]) -> None:
    assert fixed(*lines) == lines


def test_scalars_in_metadata_that_are_not_text_are_quoted_and_the_rest_stays() -> None:
    lines = ["metadata:", "  a: 1.0 # one", "  b: true", "  c: [1]", "  d: {e: 2}", "  f:", "  g: text", "  h: ~"]
    assert fixed(*lines) == [
        *("metadata:", '  a: "1.0" # one', '  b: "true"', "  c: [1]", "  d: {e: 2}", "  f:", "  g: text", "  h: ~"),
    ]


def test_numbers_in_flow_metadata_are_quoted_too() -> None:
    assert fixed("metadata: {a: 1, b: 2026-01-01}") == ['metadata: {a: "1", b: "2026-01-01"}']


def test_hundreds_of_numbers_in_metadata_are_mended_at_once() -> None:
    lines = fixed("metadata:", *(f"  k{number}: {number}" for number in range(300)))
    assert lines[1:] == [f'  k{number}: "{number}"' for number in range(300)]


def fixed_naming(name_line: str, folder: str) -> str:
    """The name line after the safe fixes."""
    text = f"---\n{name_line}\ndescription: Merge PDF files. Use when asked.\n---\nDo it.\n"
    return apply_fixes(text, lint_skill(parse(text), folder))[0].split("\n")[1]


@pytest.mark.parametrize(
    "name",
    ["a", "pdf-tools", "1password", "技能", "мой-навык", "café", "हिन्दी", "สกิล", "日本語-スキル", "مهارة", "straße"],
)
def test_a_name_of_lower_case_letters_of_any_script_is_valid(name: str) -> None:
    assert is_valid_name(name)
    text = f"---\nname: {name}\ndescription: Merge.\n---\n"
    assert select_errors(lint_skill(parse(text), name)) == ()


@pytest.mark.parametrize(
    "name", ["", "A", "a_b", "a b", "-a", "a-", "a--b", "a.b", "a" * 65, "ﬁ", "İ", "Ⅷ", "a\u200db", "a/b", ".."]
)
def test_other_names_are_not(name: str) -> None:
    assert not is_valid_name(name)


@relaxed
@given(prose | st.text())
def test_a_suggested_name_is_valid_or_empty(text: str) -> None:
    suggestion = suggest_name(text)
    assert not suggestion or is_valid_name(suggestion)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("..", "stands for a folder"),
        ("../x", "'../'"),
        ("x/..\\y", "'..\\'"),
        ("a/b", "'/'"),
        ("a\\b", "'\\'"),
        ("a\x00b", "U+0000"),
        ("a\u202eb", "U+202E"),
        ("a\u2028b", "U+2028"),
        ("\ue000", "U+E000"),
        ("\ud800", "U+D800"),
    ],
)
def test_a_dangerous_name_is_called_by_what_makes_it_so(name: str, what: str) -> None:
    assert what in describe_unsafe(name)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "ü", "Pdf_Tools"])
def test_a_name_that_is_merely_wrong_is_not_dangerous(name: str) -> None:
    assert describe_unsafe(name) == ""


@pytest.mark.parametrize(
    ("line", "folder", "expected"),
    [
        ("name: Pdf_Tools", "pdf-tools", "name: pdf-tools"),
        ('name: "PDF  Tools"  # note', "pdf-tools", "name: pdf-tools  # note"),
        ("name: pdf_tools", "pdf_tools", "name: pdf_tools"),
        ("name: other", "pdf-tools", "name: other"),
        ("name: Pdf", "pdf-tools", "name: Pdf"),
        ("license: MIT", "pdf-tools", "name: pdf-tools"),
        ("license: MIT", "Pdf Tools", "license: MIT"),
        ("name:", "pdf-tools", "name:"),
        ("name: 技_能", "技-能", "name: 技-能"),
    ],
)
def test_a_name_is_mended_only_when_it_clearly_means_the_folder(line: str, folder: str, expected: str) -> None:
    assert fixed_naming(line, folder) == expected


def test_a_missing_name_is_written_before_the_first_field_with_the_line_ends_of_the_file() -> None:
    text = "---\r\n# note\r\ndescription: Merge.\r\n---\r\n"
    assert (
        apply_fixes(text, lint_skill(parse(text), "pdf"))[0]
        == "---\r\n# note\r\nname: pdf\r\ndescription: Merge.\r\n---\r\n"
    )


def test_a_long_name_is_shown_shortened() -> None:
    parsed = parse(f"---\nname: {'A' * 5000}\ndescription: Merge.\n---\n")
    assert all(len(problem.message) < 300 for problem in lint_skill(parsed, "pdf"))
