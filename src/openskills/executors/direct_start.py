"""Start a simple shell command without the shell, where that makes no difference except for speed.

Unlike the policy's parser, which rejects what a policy does not allow, this parser only inspects: it returns None
whenever a shell could do anything other than start one program with these words.
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
    """One word. If it is not literal, it contains a variable, glob, brace or tilde that the shell would expand."""

    text: str
    is_literal: bool = True


def parse_simple_command(command: str) -> tuple[ShellWord, ...] | None:
    """The words of a simple command, or None for anything that is or may be more than one program with arguments.

    That includes operators, redirections, substitutions, parentheses, comments, leading variable assignments, control
    characters, unfinished quotes, and text that a builtin might evaluate (`test -v 'a[$(id)]'`).
    """
    if len(command) > MAX_COMMAND or _CONTROL.search(command):
        return None
    found = _split_words(command)
    if not found or not found[0].text or _ASSIGNMENT.match(found[0].text):
        return None
    # A quoted substitution is only text until something like `test -v` or `printf -v` evaluates it as arithmetic.
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
        if (double := match["double"]) is not None:
            word = ShellWord(_IN_QUOTES.sub(r"\1", double), "$" not in re.sub(r"\\.", "", double))
        else:
            parts = (match["single"], match["escaped"], match["plain"], match[0])
            word = ShellWord(next(part for part in parts if part is not None), match["expanded"] is None)
        if inside:
            before = found.pop()
            word = ShellWord(before.text + word.text, before.is_literal and word.is_literal)
        found.append(word)
        inside = True
    return found


_SHELL = ("bash", "-c")
# Bash builtins and keywords, which run without looking for a program.
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
# Builtins that behave exactly like the system's programs, when called without arguments.
_AS_PROGRAMS: dict[tuple[str, ...], tuple[str, ...]] = {("true",): ("/usr/bin/true",), ("false",): ("/usr/bin/false",)}
# Options of bash itself, and job numbers.
_NOT_PROGRAMS = ("-", "+", "%")


def strip_shell(argv: Sequence[str]) -> tuple[str, ...]:
    """The words with which `bash -c text` would start a program and nothing else; empty where it would do more.

    Whether the program exists is not checked: if it cannot be started, the shell is used and reports the error.
    """
    if len(argv) != len(_SHELL) + 1 or tuple(argv[:2]) != _SHELL:
        return ()
    found = parse_simple_command(argv[2])
    if found is None or not all(word.is_literal for word in found):
        return ()
    words = tuple(word.text for word in found)
    if words[0] in _BUILTINS or words[0].startswith(_NOT_PROGRAMS):
        return _AS_PROGRAMS.get(words, ())
    return words


def to_direct_launch(launch: LaunchRequest) -> LaunchRequest | None:
    """The launch request without its shell (with `PWD`, which the shell would set); None if it needs the shell."""
    words = strip_shell(launch.argv)
    return replace(launch, argv=words, env={**launch.env, "PWD": str(launch.cwd)}) if words else None


async def start_directly(
    start: Callable[[LaunchRequest], Awaitable[SupervisedProcess]], launch: LaunchRequest
) -> SupervisedProcess:
    """Start a command without its shell if possible. If the program cannot be started, run the shell, which reports
    why."""
    direct = to_direct_launch(launch)
    if direct is not None:
        with suppress(InvalidArgument, SpawnError):
            return await start(direct)
    return await start(launch)
