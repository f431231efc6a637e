"""Parts of a document by lines: `guide.md#L120` and `guide.md#L120-L180`. Pure."""

import re

_FRAGMENT = re.compile(r"(?P<path>.+)#L(?P<first>[1-9]\d{0,8})(?:-L?(?P<last>[1-9]\d{0,8}))?", re.ASCII | re.DOTALL)


def parse_fragment(name: str) -> tuple[str, tuple[int, int | None] | None]:
    """A path, and the first and last line that are meant; None for the whole, a last line of None for its end."""
    match = _FRAGMENT.fullmatch(name)
    if match is None:
        return name, None
    return match["path"], (int(match["first"]), int(match["last"]) if match["last"] else None)


def lines_of(text: str, lines: tuple[int, int | None]) -> str:
    """These lines of a text, both ends included; nothing when it has fewer."""
    first, last = lines
    return "".join(lines_in(text)[first - 1 : last])


def lines_in(text: str) -> list[str]:
    """The lines of a text with their ends; only `\\n` ends a line, as for everybody who counts lines."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]
