"""What a skill's `allowed-tools` pre-approves. Pure.

A pre-approval takes the question away, so in doubt there is none: `Bash(git:*)` covers one `git` with any arguments,
and nothing in which a shell could do more than that.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from openskills.executors.layout import RESERVED
from openskills.executors.rules.simple_command import Word, simple_command
from openskills.skillmd.tools import read_tools
from openskills.tools.starred import fits

COMMAND_TOOLS = frozenset({"bash", "shell", "skill_run", "skill_exec"})
"""Tools that run commands; whoever writes one of them in `allowed-tools` means all of them. In any case."""

_ENTRY = re.compile(r"([^\s()]+)(?:\((.*)\))?", re.DOTALL)
_QUOTES = frozenset("'\"\\")


@dataclass(frozen=True, slots=True)
class Allowed:
    """One entry. `only` is what stands in its parentheses; without them, and with `*` there, it is everything."""

    tool: str
    only: str | None = None


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a command has to look like: these words, and with `rest` anything after them. Words may have `*` in them."""

    words: tuple[str, ...]
    rest: bool
    wild: bool


def entries(allowed_tools: Iterable[str]) -> tuple[Allowed, ...]:
    """The entries of `allowed-tools`. One that cannot be read (`Bash(git`) means nothing and is left out."""
    found: list[Allowed] = []
    for text in read_tools(list(allowed_tools)):
        match = _ENTRY.fullmatch(text)
        if match is not None:
            only = None if match[2] is None else match[2].strip()
            found.append(Allowed(match[1], None if only == "*" else only))
    return tuple(found)


def for_commands(allowed_tools: Iterable[str]) -> tuple[str, ...]:
    """Those entries that are about running commands, as they were written."""
    written = read_tools(list(allowed_tools))
    return tuple(
        text for text in written if any(_is_tool(entry.tool, "skill_run", runs=True) for entry in entries([text]))
    )


def is_preapproved(
    allowed_tools: Sequence[str],
    tool: str,
    command: str | None = None,
    *,
    at_home: bool = True,
    variables: bool = False,
) -> bool:
    """Whether a skill's `allowed-tools` pre-approves a call of a tool; for a tool that runs commands, of this command.

    `at_home`: the command runs in the skill's own folder; elsewhere an entry that names a file
    (`Bash(python scripts/*.py:*)`) means another one. `variables`: the call sets some, which is as good as `NAME=value`
    before the command. Both matter to entries with parentheses only; a plain `Bash` pre-approves every command.
    """
    runs = tool.casefold() in COMMAND_TOOLS
    same = [entry for entry in entries(allowed_tools) if _is_tool(entry.tool, tool, runs=runs)]
    if any(entry.only is None for entry in same):
        return True
    if not runs or command is None or variables:
        return False
    words = simple_command(command)
    return words is not None and any(_covers(entry.only or "", words, at_home=at_home) for entry in same)


def _is_tool(entry: str, tool: str, *, runs: bool) -> bool:
    if entry.endswith("*"):
        return tool.startswith(entry[:-1])
    return entry == tool or (runs and entry.casefold() in COMMAND_TOOLS)


def _covers(only: str, words: Sequence[Word], *, at_home: bool) -> bool:
    shape = _shape(only)
    if shape is None or len(words) < len(shape.words) or (len(words) > len(shape.words) and not shape.rest):
        return False
    if not at_home and _names_a_file(shape):
        return False
    return all(
        word.literal and (_matches(wanted, word.text) if shape.wild else wanted == word.text)
        for wanted, word in zip(shape.words, words, strict=False)
    )


def _shape(only: str) -> _Shape | None:
    """From `git`, `git:*`, `git commit *`, `python scripts/*.py:*`. Words in quotes have no wildcards."""
    text, rest = only, False
    for end in (":*", " *"):
        if text.endswith(end):
            text, rest = text[: -len(end)], True
            break
    if not _QUOTES.isdisjoint(text):
        quoted = simple_command(text)
        return None if quoted is None else _Shape(tuple(word.text for word in quoted), rest, wild=False)
    words = tuple(text.split())
    return _Shape(words, rest, wild=True) if words else None


def _names_a_file(shape: _Shape) -> bool:
    """Whether what it means depends on the directory: `scripts/run.sh`, `python run.py`; not `git log`."""
    first, *others = shape.words
    return any("/" in word and not word.startswith("/") for word in (first, *others)) or any(
        "." in word and "/" not in word for word in others
    )


def _matches(wanted: str, text: str) -> bool:
    """Whether a word is the wanted one. `*` is anything within one part of a path, and a lone `*` any one word.

    It never leads to another place: not up, not into hidden directories, not into those of a skill that commands write.
    """
    if wanted == "*" or "*" not in wanted:
        return wanted in ("*", text)
    wanted_parts, parts = wanted.split("/"), text.split("/")
    if len(wanted_parts) != len(parts) or (parts[0] in RESERVED and parts[0] != wanted_parts[0]):
        return False
    return all(_part_matches(*pair) for pair in zip(wanted_parts, parts, strict=True))


def _part_matches(wanted: str, part: str) -> bool:
    if wanted == part:
        return True
    if part in ("", ".", "..") or (part.startswith(".") and not wanted.startswith(".")):
        return False
    return fits(wanted, part)
