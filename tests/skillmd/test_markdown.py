import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openskills.skillmd.markdown import (
    LinkTarget,
    find_commands,
    find_linked_files,
    find_links,
    has_commands,
    resolve_link,
)
from tests.skillmd.strategies import relaxed
from tests.skillmd.work import is_linear


def found(text: str) -> list[tuple[str, int, int]]:
    return [(link.destination, link.line, link.column) for link in find_links(text)]


@pytest.mark.parametrize(
    ("text", "destination", "column"),
    [
        ("[a](b.md)", "b.md", 5),
        ("![a](b.png)", "b.png", 6),
        ('[a](b.md "title")', "b.md", 5),
        ("[a]( b.md )", "b.md", 6),
        ("[a](<b c.md>)", "b c.md", 6),
        ("[a](b(1).md)", "b(1).md", 5),
        ("[a `code` b](c.md)", "c.md", 14),
        ("[a]: b.md 'title'", "b.md", 6),
        ("  [a]: <b c.md>", "b c.md", 9),
        ("| [a](b.md) |", "b.md", 7),
        ("`scripts/run.py`", "scripts/run.py", 2),
        ("`python ./scripts/run.py --x`", "scripts/run.py", 11),
        ("``assets/a.txt``", "assets/a.txt", 3),
    ],
)
def test_a_link_is_found_with_its_column(text: str, destination: str, column: int) -> None:
    assert found(f"\n{text}\n") == [(destination, 2, column)]


@pytest.mark.parametrize(
    "text",
    [
        "```\n[a](b.md)\n`scripts/a.py`\n```",
        "~~~~ md\n```\n[a](b.md)\n~~~\n~~~~",
        "- ```\n  [a](b.md)\n  ```",
        "> ```\n> [a](b.md)\n> ```",
        "```\n[a](b.md)",
        "`[a](b.md)`",
        "`` ` [a](b.md) ``",
        "<!-- [a](b.md)\n[c](d.md) -->",
        "[a] (b.md)",
        "[^1]: b.md",
        "[a](b.md",
        "`scripts/`",
        "`scripts/<name>.py`",
        "`scripts/*.py`",
        "`myscripts/a.py`",
        "`scripts/run`",
        "scripts/run.py",
    ],
)
def test_what_is_code_or_no_link_is_not_found(text: str) -> None:
    assert found(text) == []


def test_links_after_a_code_block_and_a_comment_are_found_again() -> None:
    text = "```\n[a](b)\n```\n[c](d.md) <!-- x --> [e](f.md) `g` [h](i.md)"
    assert found(text) == [("d.md", 4, 5), ("f.md", 4, 26), ("i.md", 4, 40)]


@pytest.mark.parametrize(
    ("destination", "target"),
    [
        ("a.md", LinkTarget("a.md")),
        ("./a//b.md", LinkTarget("a/b.md")),
        ("a/../b.md", LinkTarget("b.md")),
        ("a%20b.md", LinkTarget("a b.md")),
        ("%E6%8A%80.md", LinkTarget("技.md")),
        ("a.md#part", LinkTarget("a.md")),
        ("a.md?raw=1", LinkTarget("a.md")),
        ("docs/", LinkTarget("docs")),
        ("../a.md", LinkTarget("../a.md", outside=True)),
        ("a/../../b.md", LinkTarget("a/../../b.md", outside=True)),
        ("%2e%2e/a.md", LinkTarget("../a.md", outside=True)),
        ("/etc/passwd", LinkTarget("/etc/passwd", outside=True)),
        ("~/a.md", LinkTarget("~/a.md", outside=True)),
        ("file:///a.md", LinkTarget("file:///a.md", outside=True)),
        ("C:\\a.md", LinkTarget("C:\\a.md", outside=True)),
        ("https://a.b/c", None),
        ("mailto:a@b.c", None),
        ("//a.b/c", None),
        ("#part", None),
        ("", None),
        (".", None),
        ("{{path}}", None),
        ("${DIR}/a.md", None),
        ("<name>.md", None),
        ("a/....md", None),
    ],
)
def test_where_a_destination_leads(destination: str, target: LinkTarget | None) -> None:
    assert resolve_link(destination) == target


def test_a_link_in_a_folder_is_relative_to_it() -> None:
    assert resolve_link("b.md", "references") == LinkTarget("references/b.md")
    assert resolve_link("../a.md", "references") == LinkTarget("a.md")
    assert resolve_link("../../a.md", "references") == LinkTarget("../../a.md", outside=True)


def test_the_files_a_text_points_at_are_listed_once_in_order() -> None:
    text = "[a](b.md#x) [c](https://d) `scripts/e.py` [f](../g) [h](b.md)"
    assert find_linked_files(text) == ("scripts/e.py", "b.md")
    assert find_linked_files("[a](b.md) `scripts/c.py`", "references") == ("scripts/c.py", "references/b.md")


@relaxed
@given(st.text(alphabet="[]()`<>!-~ \n\t#:/.ab\\"))
@example("](" * 50)
def test_no_text_breaks_the_search_and_every_link_is_where_it_says(text: str) -> None:
    lines = text.split("\n")
    for link in find_links(text):
        assert lines[link.line - 1][link.column - 1 :].startswith(link.destination)


@pytest.mark.parametrize(
    "piece", ["](", "[a](b ", "`", "``` `", "<!--", "[a](<", "[x]: ", "((", "`a` ", "~~~\n", "scripts/"]
)
def test_hostile_text_costs_work_in_proportion_to_its_length(piece: str) -> None:
    assert is_linear(lambda size: list(find_links(piece * size)), 2_000)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Extract the text with `pdftotext in.pdf out.txt`.", True),
        ("Use `pdftotext` for it.", True),
        ("```bash\nls\n```", True),
        ("```python\nimport pypdf\n```", True),
        ("```\n$ ffmpeg -i a.mp4 b.gif\n```", True),
        ("Then:\n\n    jq '.a' data.json\n", True),
        ("1. python3 scripts/a.py in.csv", True),
        ("Call `skill_run` with what the user says.", True),
        ("", False),
        ("Write short sentences. Set `title` and `max-width: 10px`.", False),
        ('```json\n{"a": 1}\n```', False),
        ("```\nDear Anna,\nthank you for the letter.\n```", False),
        ("Read `references/style.md`, then `SKILL.md`.", False),
        ("- An item\n\n    with a second paragraph of words\n", False),
    ],
)
def test_whether_a_text_has_anything_to_run(text: str, found: bool) -> None:
    assert has_commands(text) is found


@pytest.mark.parametrize("text", ["`" * 50_000, "    x\n" * 20_000, "a " * 50_000, "- " * 50_000, "<!--" * 20_000])
def test_hostile_texts_have_nothing_to_run(text: str) -> None:
    assert not has_commands(text)
    assert find_commands(text) == []
