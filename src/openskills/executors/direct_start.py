"""Skip a shell that does nothing.

One simple command in the words that a shell would see, when that can be said for certain. Pure.

Unlike `words`, which refuses what a policy does not want, this only looks: it answers None whenever a
shell could do anything else than start one program with these words.

Text for a shell that needs none: the program can be started right away, which saves starting the shell. Pure.

Starting a command of a shell without the shell, where that makes no difference but to the time.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from openskills.errors import InvalidArgument
from openskills.executors.supervisor import LaunchRequest, SpawnError, SupervisedProcess

MAX_COMMAND = 16 * 1024

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = rf"\$(?:{_NAME}|\{{{_NAME}\}})"
_PIECE = re.compile(
    rf"""'(?P<single>[^']*)'
    |"(?P<double>(?:[^"\\$`]|\\.|{_VARIABLE})*)"
    |\\(?P<escaped>.)
    |(?P<expanded>{_VARIABLE}|[*?\[\]{{}}~!\#]+)
    |(?P<plain>[^\ \t'"\\$`;&|<>()*?\[\]{{}}~!\#]+)
    |(?P<blank>[\ \t]+)""",
    re.VERBOSE,
)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_ASSIGNMENT = re.compile(rf"{_NAME}(?:\[.*\])?\+?=")
_IN_QUOTES = re.compile(r'\\([$`"\\])')


@dataclass(frozen=True, slots=True)
class ShellWord:
    """One word. What is not `literal` may become something else: a variable, a glob, braces or a tilde is in it."""

    text: str
    is_literal: bool = True


def parse_simple_command(command: str) -> tuple[ShellWord, ...] | None:
    """The words, or None for everything that is, or may be, more than one program with arguments.

    That is: operators, redirections, substitutions, parentheses, comments, a variable set before the command, control
    characters, unfinished quotes, and text that a builtin might evaluate (`test -v 'a[$(id)]'`).
    """
    if len(command) > MAX_COMMAND or _CONTROL.search(command):
        return None
    found = _split_words(command)
    if not found or not found[0].text or _ASSIGNMENT.match(found[0].text):
        return None
    # A quoted substitution is only text, until something like `test -v` or `printf -v` reads it as arithmetic.
    if any("$(" in word.text or "`" in word.text for word in found):
        return None
    return tuple(found)


def _split_words(command: str) -> list[ShellWord] | None:
    found: list[ShellWord] = []
    inside = False
    place = 0
    while place < len(command):
        match = _PIECE.match(command, place)
        if match is None or (not inside and match[0].startswith("#")):
            return None
        place = match.end()
        if match["blank"] is not None:
            inside = False
            continue
        word = _word_from_match(match)
        if inside:
            before = found.pop()
            word = ShellWord(before.text + word.text, before.is_literal and word.is_literal)
        found.append(word)
        inside = True
    return found


def _word_from_match(match: re.Match[str]) -> ShellWord:
    double = match["double"]
    if double is not None:
        return ShellWord(_IN_QUOTES.sub(r"\1", double), "$" not in re.sub(r"\\.", "", double))
    text = next(part for part in (match["single"], match["escaped"], match["plain"], match[0]) if part is not None)
    return ShellWord(text, match["expanded"] is None)


_SHELL = ("bash", "-c")
# What bash does itself, without looking for a program of that name.
_BUILTINS = frozenset(
    {
        *(".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete"),
        *("compopt", "continue", "declare", "dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export"),
        *("false", "fc", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "local", "logout"),
        *("mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift"),
        *("shopt", "source", "suspend", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask"),
        *("unalias", "unset", "wait", "!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else"),
        *("esac", "fi", "for", "function", "if", "in", "select", "then", "time", "until", "while"),
    }
)
# These do the same as programs of the system, as long as nobody asks them for help.
_AS_PROGRAMS: dict[tuple[str, ...], tuple[str, ...]] = {("true",): ("/usr/bin/true",), ("false",): ("/usr/bin/false",)}
# An option of bash itself, or the number of a job.
_NO_PROGRAM = ("-", "+", "%")


def strip_shell(argv: Sequence[str]) -> tuple[str, ...]:
    """The words with which `bash -c text` would start a program and do nothing else; nothing where it would do more.

    Whether there is such a program is not known here. When it cannot be started, it is the shell's to say so.
    """
    if len(argv) != len(_SHELL) + 1 or tuple(argv[:2]) != _SHELL:
        return ()
    found = parse_simple_command(argv[2])
    if found is None or not all(word.is_literal for word in found):
        return ()
    words = tuple(word.text for word in found)
    if words[0] in _BUILTINS or words[0].startswith(_NO_PROGRAM):
        return _AS_PROGRAMS.get(words, ())
    return words


def to_direct_launch(launch: LaunchRequest) -> LaunchRequest | None:
    """The same without its shell, which would have said where it is; None when only the shell can do it."""
    words = strip_shell(launch.argv)
    return replace(launch, argv=words, env={**launch.env, "PWD": str(launch.cwd)}) if words else None


async def start_directly(
    start: Callable[[LaunchRequest], Awaitable[SupervisedProcess]], launch: LaunchRequest
) -> SupervisedProcess:
    """Start a command. A program that cannot be started has not begun, and is left to the shell to complain about."""
    direct = to_direct_launch(launch)
    if direct is not None:
        with suppress(InvalidArgument, SpawnError):
            return await start(direct)
    return await start(launch)
