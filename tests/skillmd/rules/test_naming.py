import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.skillmd.mend import mend
from openskills.skillmd.parse import parse
from openskills.skillmd.problem import errors_in
from openskills.skillmd.rules import judge
from openskills.skillmd.rules.naming import is_valid_name, suggested_name, unsafe_in
from tests.skillmd.strategies import prose, relaxed


def fixed(name_line: str, folder: str) -> str:
    """The name line after the safe fixes."""
    text = f"---\n{name_line}\ndescription: Merge PDF files. Use when asked.\n---\nDo it.\n"
    return mend(text, judge(parse(text), folder))[0].split("\n")[1]


@pytest.mark.parametrize(
    "name",
    ["a", "pdf-tools", "1password", "技能", "мой-навык", "café", "हिन्दी", "สกิล", "日本語-スキル", "مهارة", "straße"],
)
def test_a_name_of_lower_case_letters_of_any_script_is_valid(name: str) -> None:
    assert is_valid_name(name)
    text = f"---\nname: {name}\ndescription: Merge.\n---\n"
    assert errors_in(judge(parse(text), name)) == ()


@pytest.mark.parametrize(
    "name", ["", "A", "a_b", "a b", "-a", "a-", "a--b", "a.b", "a" * 65, "ﬁ", "İ", "Ⅷ", "a\u200db", "a/b", ".."]
)
def test_other_names_are_not(name: str) -> None:
    assert not is_valid_name(name)


@relaxed
@given(prose | st.text())
def test_a_suggested_name_is_valid_or_empty(text: str) -> None:
    suggestion = suggested_name(text)
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
    assert what in unsafe_in(name)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "ü", "Pdf_Tools"])
def test_a_name_that_is_merely_wrong_is_not_dangerous(name: str) -> None:
    assert unsafe_in(name) == ""


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
    assert fixed(line, folder) == expected


def test_a_missing_name_is_written_before_the_first_field_with_the_line_ends_of_the_file() -> None:
    text = "---\r\n# note\r\ndescription: Merge.\r\n---\r\n"
    assert mend(text, judge(parse(text), "pdf"))[0] == "---\r\n# note\r\nname: pdf\r\ndescription: Merge.\r\n---\r\n"


def test_a_long_name_is_shown_shortened() -> None:
    parsed = parse(f"---\nname: {'A' * 5000}\ndescription: Merge.\n---\n")
    assert all(len(problem.message) < 300 for problem in judge(parsed, "pdf"))
