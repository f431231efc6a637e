"""Whether a script for sed starts a program: GNU's `e`, alone or as a flag of `s`. Pure."""

import re

_BETWEEN = re.compile(r"[\s;{}!,]*")
_NUMBER = re.compile(r"\d+(?:~\d+)?|\$|[+~]\d+")
_REGEX_FLAGS = re.compile(r"[IM]*")
_SUBSTITUTE_FLAGS = re.compile(r"[gpiImM0-9]*")
_WORD = re.compile(r"[ \t]*[^\s;}]*")
_LINE = re.compile(r"(?:\\.|[^\n\\])*\\?", re.DOTALL)
_CLASS = re.compile(r"\[([:.=]).*?\1\]", re.DOTALL)

_ALONE = frozenset("dDgGhHnNpPxz=F")
_WITH_WORD = frozenset("btTlqQL:v")
_WITH_LINE = frozenset("aicrRwW#")


class _Unreadable(Exception):
    """No script that sed would run."""


def starts_something(script: str) -> bool:
    """Whether there is such an `e` in it; true as well for what cannot be read."""
    # Versions differ in whether `[/]` ends an expression between slashes. It must be harmless for each that takes it.
    answers = [_starts(script, brackets=brackets) for brackets in (True, False)]
    return True in answers or answers == [None, None]


def _starts(script: str, *, brackets: bool) -> bool | None:
    """The same for one way to read it; None when it cannot be read that way."""
    place = 0
    try:
        while (place := _at_order(script, place, brackets)) < len(script):
            order, place = script[place], place + 1
            if order in _WITH_LINE:
                place = _past(_LINE, script, place)
            elif order in _WITH_WORD:
                place = _past(_WORD, script, place)
            elif order in ("s", "y"):
                place = _after_replacing(script, place, brackets and order == "s")
            elif order not in _ALONE:
                return True if order == "e" else None
            if script[place : place + 1] == "e":
                return True
    except _Unreadable:
        return None
    return False


def _at_order(script: str, place: int, brackets: bool) -> int:
    """Where the next order is: past what stands between two, and past addresses."""
    while True:
        place = _past(_BETWEEN, script, place)
        number = _NUMBER.match(script, place)
        if number is not None:
            place = number.end()
        elif script[place : place + 1] in ("/", "\\"):
            place += script[place] == "\\"
            place = _past(_REGEX_FLAGS, script, _after(script, place + 1, _mark(script, place), brackets))
        else:
            return place


def _after_replacing(script: str, place: int, brackets: bool) -> int:
    """Past `/from/to/` and the flags that do no harm."""
    mark = _mark(script, place)
    place = _after(script, place + 1, mark, brackets)
    place = _past(_SUBSTITUTE_FLAGS, script, _after(script, place, mark, brackets=False))
    return _past(_LINE, script, place) if script[place : place + 1] == "w" else place


def _mark(script: str, place: int) -> str:
    mark = script[place : place + 1]
    if mark in ("", "\\", "\n"):
        raise _Unreadable
    return mark


def _after(script: str, place: int, mark: str, brackets: bool) -> int:
    """Past the next sign that ends a part."""
    while place < len(script):
        if script[place] == mark:
            return place + 1
        if script[place] == "\\":
            place += 2
        elif brackets and script[place] == "[":
            place = _after_bracket(script, place + 1)
        else:
            place += 1
    raise _Unreadable


def _after_bracket(script: str, place: int) -> int:
    """Past `[a-z[:digit:]]`."""
    place += script[place : place + 1] == "^"
    place += script[place : place + 1] == "]"
    while place < len(script) and script[place] != "]":
        named = _CLASS.match(script, place)
        place = named.end() if named else place + 1
    return place + 1


def _past(pattern: re.Pattern[str], script: str, place: int) -> int:
    match = pattern.match(script, place)
    return match.end() if match else place
