"""Which paths a pattern means. Pure; without regular expressions, so no pattern takes long."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from openskills.errors import ForbiddenPath, InvalidArgument

MOST_CHARACTERS = 1000
MOST_ALTERNATIVES = 64

_Item = TypeVar("_Item")


class Glob:
    """A pattern over relative paths: `*`, `?`, `[a-z]`, `[!a-z]`, `{md,txt}`, and `**` for any number of folders.

    A pattern without `/` is about names and fits in every folder, as with `grep --include`. Raises `InvalidArgument`
    for a pattern that cannot be, and `ForbiddenPath` for one that is absolute or climbs.
    """

    def __init__(self, pattern: str, *, field: str = "glob") -> None:
        if not pattern.strip() or "\0" in pattern:
            raise InvalidArgument(field, "is empty; leave it out to mean every file")
        if len(pattern) > MOST_CHARACTERS:
            raise InvalidArgument(field, f"has {len(pattern)} characters; {MOST_CHARACTERS} is the most")
        spread = list(_alternatives(pattern, field))
        self._alternatives = [_parts(one, field) for one in spread]

    def fits(self, path: str) -> bool:
        """Whether the pattern means this path."""
        parts = path.split("/")
        return any(_matches(parts, wanted, lambda part: part == "**", _name_fits) for wanted in self._alternatives)


def _parts(pattern: str, field: str) -> list[str]:
    if pattern.startswith("/"):
        raise ForbiddenPath(f"{field}: {pattern!r} is absolute; write it relative to the folder that is searched")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ForbiddenPath(f"{field}: {pattern!r} climbs out with '..'")
    return ["**", *parts] if len(parts) == 1 else parts


def _alternatives(pattern: str, field: str) -> Iterator[str]:
    """A pattern without `{a,b}` for each choice of one with them."""
    waiting, given = [pattern], 0
    while waiting:
        one = waiting.pop()
        opening = one.rfind("{")
        closing = one.find("}", opening)
        if opening < 0 or closing < 0:
            yield one
        else:
            # The last brace that opens holds no other, so this works from the inside out.
            middle = reversed(one[opening + 1 : closing].split(","))
            waiting += [one[:opening] + choice + one[closing + 1 :] for choice in middle]
        given += 1
        if given > 2 * MOST_ALTERNATIVES or len(waiting) > MOST_ALTERNATIVES:
            raise InvalidArgument(field, f"has more than {MOST_ALTERNATIVES} alternatives in braces")


def _name_fits(name: str, pattern: str) -> bool:
    return _matches(name, _tokens(pattern), lambda piece: piece == "*", _character_fits)


def _tokens(pattern: str) -> list[str]:
    """`a[b-d]*` as `a`, `[b-d]`, `*`. A bracket that is not closed is an ordinary character."""
    tokens: list[str] = []
    place = 0
    while place < len(pattern):
        closing = pattern.find("]", place + (3 if pattern[place + 1 : place + 2] in ("!", "^") else 2))
        end = closing + 1 if pattern[place] == "[" and closing > 0 else place + 1
        tokens.append(pattern[place:end])
        place = end
    return tokens


def _character_fits(character: str, token: str) -> bool:
    if len(token) == 1:
        return token in ("?", character)
    inner = token[1:-1]
    negated = inner[:1] in ("!", "^")
    return _in_class(character, inner[1:] if negated else inner) != negated


def _in_class(character: str, inner: str) -> bool:
    place = 0
    while place < len(inner):
        if inner[place + 1 : place + 2] == "-" and place + 2 < len(inner):
            if inner[place] <= character <= inner[place + 2]:
                return True
            place += 3
        else:
            if inner[place] == character:
                return True
            place += 1
    return False


def _matches(
    items: Sequence[str], wanted: Sequence[_Item], anything: Callable[[_Item], bool], fits: Callable[[str, _Item], bool]
) -> bool:
    """Whether a sequence fits a pattern in which some items stand for any number of things.

    Only the last of those is ever tried again, so this takes at most the product of the lengths.
    """
    at = want = 0
    star = -1
    resumed = 0
    while at < len(items):
        if want < len(wanted) and anything(wanted[want]):
            star, resumed = want, at
            want += 1
        elif want < len(wanted) and fits(items[at], wanted[want]):
            at += 1
            want += 1
        elif star >= 0:
            resumed += 1
            at, want = resumed, star + 1
        else:
            return False
    return all(anything(rest) for rest in wanted[want:])
