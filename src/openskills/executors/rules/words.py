"""A command line taken apart without a shell: one command, POSIX quoting, nothing that only a shell could do. Pure."""

import re

from openskills.errors import CommandDenied, InvalidArgument

MAX_COMMAND = 16 * 1024

_FORBIDDEN = {"\n": "a line break", "\r": "a carriage return", "`": "a backtick", "$(": "'$('"} | {
    mark: repr(mark) for mark in ";&|<>"
}
_ASSIGNMENT = re.compile(r"[ \t]*[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_PIECE = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^ \t'"\\]+)|([ \t]+)""", re.DOTALL)
_ESCAPED = re.compile(r'\\([$`"\\])')
_SPACE = 5


def words(command: str) -> tuple[str, ...]:
    """The words of one simple command. An empty word in quotes is a word.

    Raises `CommandDenied` for what needs a shell: `;`, `&`, `|`, `<`, `>`, backticks, `$(`, line breaks (in quotes,
    too: what is written and what is meant cannot be told apart by a reader) and a leading `NAME=value`. Raises
    `InvalidArgument` for nothing at all, an unfinished quote, a NUL byte, and more than 16 KiB.
    """
    if len(command.encode("utf-8", "surrogatepass")) > MAX_COMMAND:
        raise InvalidArgument("command", f"is longer than {MAX_COMMAND:,} bytes; put it into a script")
    if "\0" in command:
        raise InvalidArgument("command", "contains a NUL byte")
    for mark, name in _FORBIDDEN.items():
        if mark in command:
            advice = "run one command without a shell, or give its arguments as a list"
            raise CommandDenied(f"{name} is not possible under a command policy; {advice}", rule="shell")
    if match := _ASSIGNMENT.match(command):
        raise CommandDenied(f"{match[0].strip()!r} before a command needs a shell; use env", rule="shell")
    found = _split(command)
    if not found or not found[0]:
        raise InvalidArgument("command", "is empty; its first word is the program")
    return found


def _split(command: str) -> tuple[str, ...]:
    found: list[str] = []
    inside = False
    place = 0
    while place < len(command):
        match = _PIECE.match(command, place)
        if match is None:
            raise InvalidArgument("command", f"a quote or backslash at character {place + 1} is never closed")
        place = match.end()
        if match.lastindex == _SPACE:
            inside = False
            continue
        piece = _meaning(match)
        if inside:
            found[-1] += piece
        else:
            found.append(piece)
        inside = True
    return tuple(found)


def _meaning(match: re.Match[str]) -> str:
    if match[2] is not None:
        return _ESCAPED.sub(r"\1", match[2])
    return next(part for part in match.groups() if part is not None)
