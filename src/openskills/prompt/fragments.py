"""Parts of a document by lines: `guide.md#L120`, `guide.md#L120-L180`, `guide.md#L1C4000`. Pure."""

import re
from typing import NamedTuple

_FRAGMENT = re.compile(
    r"(?P<path>.+)#L(?P<first>[1-9]\d{0,8})(?:C(?P<character>[1-9]\d{0,8}))?(?:-L?(?P<last>[1-9]\d{0,8}))?",
    re.ASCII | re.DOTALL,
)


class Lines(NamedTuple):
    """Some lines of a text, both ends included: from a character of the first one on; None is the end of the text."""

    first: int
    last: int | None = None
    character: int = 1


def parse_fragment(name: str) -> tuple[str, Lines | None]:
    """A path, and the lines that are meant; None for all of them."""
    match = _FRAGMENT.fullmatch(name)
    if match is None:
        return name, None
    last = int(match["last"]) if match["last"] else None
    return match["path"], Lines(int(match["first"]), last, int(match["character"] or 1))


def lines_of(text: str, lines: Lines) -> str:
    """These lines of a text; nothing when it has fewer."""
    return "".join(lines_in(text)[lines.first - 1 : lines.last])[lines.character - 1 :]


def lines_in(text: str) -> list[str]:
    """The lines of a text with their ends; only `\\n` ends a line, as for everybody who counts lines."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]
