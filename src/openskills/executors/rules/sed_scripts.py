"""Whether a script for sed starts a program: GNU's `e`, alone or as a flag of `s`. Pure."""

import re

_ADDRESS = re.compile(
    r"""\s*(?:\d+(?:~\d+)?|\$|[+~]\d+|/(?:\\.|\[\^?\]?[^\]]*\]|[^\\/\[])*/[IM]*|\\(?P<mark>.)(?:\\.|(?!(?P=mark)).)*(?P=mark)[IM]*)"""
    r"""\s*,?""",
    re.DOTALL,
)
_BETWEEN = re.compile(r"[\s;{}!]*")
_ALONE = frozenset("dDgGhHnNpPxz=F")
_REST_OF_LINE = frozenset("aicrRwW#")
_REST_OF_ORDER = frozenset("btTlqQL:v")
_TO_THE_END = re.compile(r"[^;}\n]*")
_LINE = re.compile(r"(?:\\.|[^\n\\])*", re.DOTALL)
_FLAGS = re.compile(r"[gpiImM0-9]*")


def starts_something(script: str) -> bool:
    """Whether there is an `e` in it; true as well for what cannot be read, so that nobody has to guess."""
    place = 0
    while (place := _before_order(script, place)) < len(script):
        order, place = script[place], place + 1
        if order in _ALONE:
            continue
        if order in _REST_OF_LINE:
            place = _end(_LINE, script, place)
        elif order in _REST_OF_ORDER:
            place = _end(_TO_THE_END, script, place)
        elif order in "sy":
            after = _after_parts(script, place)
            if after is None:
                return True
            place = _end(_FLAGS, script, after) if order == "s" else after
            if order == "s" and script[place : place + 1] == "w":
                place = _end(_LINE, script, place)
            elif script[place : place + 1] not in ("", ";", "}", "\n", " ", "\t", "#"):
                return True
        else:
            return True
    return False


def _before_order(script: str, place: int) -> int:
    """Past what may stand between two orders, and past addresses."""
    while True:
        after = _end(_BETWEEN, script, place)
        match = _ADDRESS.match(script, after)
        if match is None:
            return after
        place = match.end()


def _after_parts(script: str, place: int) -> int | None:
    """Past `/from/to/`, whatever sign stands for the slash; None when it does not end."""
    mark = script[place : place + 1]
    if not mark or mark in "\\\n":
        return None
    place += 1
    for _ in range(2):
        while script[place : place + 1] != mark:
            if place >= len(script):
                return None
            place = _after_one(script, place)
        place += 1
    return place


def _after_one(script: str, place: int) -> int:
    return place + (2 if script[place] == "\\" else 1)


def _end(pattern: re.Pattern[str], script: str, place: int) -> int:
    match = pattern.match(script, place)
    return match.end() if match else place
