import pytest

from openskills.skillmd.mend import mend
from openskills.skillmd.parse import parse
from openskills.skillmd.rules import judge


def fixed(*lines: str) -> list[str]:
    """These lines after the safe fixes."""
    text = "\n".join(("---", "name: pdf", "description: Merge PDF files. Use when asked.", *lines, "---", "Do it.", ""))
    return mend(text, judge(parse(text), "pdf"))[0].split("\n")[3:-3]


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


def test_scalars_in_metadata_that_are_no_text_are_quoted_and_the_rest_stays() -> None:
    lines = ["metadata:", "  a: 1.0 # one", "  b: true", "  c: [1]", "  d: {e: 2}", "  f:", "  g: text", "  h: ~"]
    assert fixed(*lines) == [
        *("metadata:", '  a: "1.0" # one', '  b: "true"', "  c: [1]", "  d: {e: 2}", "  f:", "  g: text", "  h: ~"),
    ]


def test_numbers_in_flow_metadata_are_quoted_too() -> None:
    assert fixed("metadata: {a: 1, b: 2026-01-01}") == ['metadata: {a: "1", b: "2026-01-01"}']


def test_hundreds_of_numbers_in_metadata_are_mended_at_once() -> None:
    lines = fixed("metadata:", *(f"  k{number}: {number}" for number in range(300)))
    assert lines[1:] == [f'  k{number}: "{number}"' for number in range(300)]
