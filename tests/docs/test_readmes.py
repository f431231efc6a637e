"""The two front pages say the same, each in its language."""

import re
from collections.abc import Iterator

from tests.docs.page import READMES, ROOT, blocks, links, steps

ENGLISH, CHINESE = (path.read_text("utf-8") for path in READMES)
_TEXT = re.compile(r'"[^"\n]*"')
_NUMBER = re.compile(r"(?<![\w.,])(?<! of )(?<! / )\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
_SECTION = re.compile(r"^### (.+?)$(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """The commands of a page without their comments, and without what they search for."""
    consoles = (block for block in blocks(text) if block.language == "console")
    return [_TEXT.sub('""', step.command.partition(" #")[0]).strip() for each in consoles for step in steps(each.text)]


def code(text: str) -> Iterator[str]:
    """The lines of Python of a page without comments and texts."""
    for block in blocks(text):
        if block.language == "python":
            yield from (_TEXT.sub('""', line.partition("#")[0]).rstrip() for line in block.text.splitlines())


def spans_in_tables(text: str) -> list[str]:
    """What stands in code spans of tables."""
    rows = (line for line in text.splitlines() if line.startswith("|"))
    return [span for row in rows for span in re.findall(r"`([^`]+)`", row)]


def test_both_front_pages_begin_with_the_demo_and_the_tests() -> None:
    assert commands(ENGLISH)[:2] == ["make demo", "make test"]
    assert commands(CHINESE) == commands(ENGLISH)


def test_both_front_pages_have_the_same_python() -> None:
    assert list(code(CHINESE)) == list(code(ENGLISH))


def test_both_front_pages_have_the_same_sources_and_commands() -> None:
    assert spans_in_tables(CHINESE) == spans_in_tables(ENGLISH)


def test_both_front_pages_link_to_the_same_pages() -> None:
    to = {path.name for path in READMES}
    assert {link for _, link in links(CHINESE)} - to == {link for _, link in links(ENGLISH)} - to


def test_both_front_pages_are_short() -> None:
    assert max(len(ENGLISH.splitlines()), len(CHINESE.splitlines())) <= 150


def figures(text: str) -> list[str]:
    """Figures of the comparison that the linked section of the benchmarks does not have."""
    sections = {
        anchor(title): body for title, body in _SECTION.findall((ROOT / "docs/benchmarks.md").read_text("utf-8"))
    }
    rows = [line for line in text.splitlines() if "docs/benchmarks.md#" in line and line.startswith("|")]
    missing: list[str] = []
    for row in rows:
        section = sections[row.partition("docs/benchmarks.md#")[2].partition(")")[0]]
        wrong = [number for number in _NUMBER.findall(row.partition(")")[2]) if not is_measured(number, section)]
        missing += [f"{number} in {row}" for number in wrong]
    assert rows
    return missing


def anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def is_measured(number: str, section: str) -> bool:
    """Whether a section has a number, as it is or rounded, or in milliseconds where the front page has seconds."""
    digits = len(number.partition(".")[2])
    measured = [float(found.replace(",", "")) for found in _NUMBER.findall(section)]
    return any(number in (f"{value:,.{digits}f}", f"{value / 1000:,.{digits}f}") for value in measured)


def test_figures_of_the_front_pages_are_those_of_the_linked_benchmarks() -> None:
    assert figures(ENGLISH) == figures(CHINESE) == []


def test_a_figure_that_was_not_measured_is_found() -> None:
    row = "| [calls](docs/benchmarks.md#calls-per-second) | 607.5 calls | |"
    assert figures(row) == [f"607.5 in {row}"]


def test_pages_that_use_a_host_show_first_how_it_is_started() -> None:
    pages = [*READMES, *sorted((ROOT / "docs" / "guides").glob("*.md"))]
    starts = {page.name: page.read_text("utf-8").partition("<!-- host") for page in pages}
    assert len([name for name, (_, mark, _) in starts.items() if mark]) > 5
    unsaid = [name for name, (before, mark, _) in starts.items() if mark and "openskills serve" not in before]
    assert not unsaid
