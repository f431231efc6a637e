"""`{a,b}` in a pattern: the patterns that it stands for. Pure."""

from collections.abc import Iterator
from itertools import pairwise

from openskills.errors import InvalidArgument

MAX_ALTERNATIVES = 64


def alternatives(pattern: str, *, field: str) -> list[str]:
    """Every pattern that the braces of this one stand for, in order; itself when it has none.

    A backslash takes the next character's meaning, brackets hide braces, `{a}` and `{}` are literal as in a shell.
    Raises `InvalidArgument` when there are more than 64.
    """
    found: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        group = _first_group(current)
        if group is None:
            found.append(current)
        else:
            start, end, commas = group
            edges = [start, *commas, end]
            middles = [current[left + 1 : right] for left, right in pairwise(edges)]
            waiting.extend(current[:start] + middle + current[end + 1 :] for middle in reversed(middles))
        if len(found) + len(waiting) > MAX_ALTERNATIVES:
            raise InvalidArgument(field, f"{pattern!r} stands for more than {MAX_ALTERNATIVES} patterns; write fewer")
    return found


def _first_group(pattern: str) -> tuple[int, int, list[int]] | None:
    """Where the first group with a comma begins and ends, and its own commas."""
    opened: list[tuple[int, list[int]]] = []
    outermost: tuple[int, int, list[int]] | None = None
    for place, char in _plain(pattern):
        if char == "{":
            opened.append((place, []))
        elif char == "," and opened:
            opened[-1][1].append(place)
        elif char == "}" and opened:
            start, commas = opened.pop()
            if commas and (outermost is None or start < outermost[0]):
                outermost = (start, place, commas)
    return outermost


def _plain(pattern: str) -> Iterator[tuple[int, str]]:
    """The characters that can mean something to braces, with their places."""
    place, in_class = 0, False
    while place < len(pattern):
        char = pattern[place]
        if in_class:
            in_class = char != "]"
        elif char == "\\":
            place += 1
        elif char == "[" and "]" in pattern[place + 2 :]:
            in_class = True
            place += 1  # the first character of a class is never its end
        else:
            yield place, char
        place += 1
