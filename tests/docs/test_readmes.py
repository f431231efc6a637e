"""The two front pages say the same, each in its language."""

import re
from collections.abc import Iterator

from tests.docs.page import READMES, blocks, links, steps

ENGLISH, CHINESE = (path.read_text("utf-8") for path in READMES)
_TEXT = re.compile(r'"[^"\n]*"')


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
