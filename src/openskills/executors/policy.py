"""Command policy: which commands may run.

A policy is a convenience for its operator and guides a model; it is not a security boundary. Programs that run others
depending on their arguments (`python3 -c`, `find -exec`, `awk`, `sed`) are recognized by a short table, which cannot be
complete, and a script may do anything. What a command can reach is decided by its executor.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from openskills.arguments import check_arguments
from openskills.errors import CommandDenied, InvalidArgument
from openskills.executors.policy_programs import find_inline_code, has_language, is_multicall, is_wrapper
from openskills.executors.protocol import Workspace
from openskills.executors.spec import SKILLS, Command, EndReason, Limits, encode_text

MAX_COMMAND = 16 * 1024

_FORBIDDEN = {"\n": "a line break", "\r": "a carriage return", "`": "a backtick", "$(": "'$('"} | {
    mark: repr(mark) for mark in ";&|<>"
}
_ASSIGNMENT = re.compile(r"[ \t]*[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_PIECE = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^ \t'"\\]+)|([ \t]+)""", re.DOTALL)
_ESCAPED = re.compile(r'\\([$`"\\])')
_SPACE = 5


def parse_command_line(command: str) -> tuple[str, ...]:
    """Split one simple command into words with POSIX quoting. An empty quoted word counts.

    Raises `CommandDenied` for anything that needs a shell: `;`, `&`, `|`, `<`, `>`, backticks, `$(`, line breaks (even
    in quotes, to keep the check simple to understand) and a leading `NAME=value`. Raises `InvalidArgument` for an empty
    command, an unfinished quote, a NUL byte, and more than 16 KiB.
    """
    if len(command.encode("utf-8", "surrogatepass")) > MAX_COMMAND:
        raise InvalidArgument("command", f"longer than {MAX_COMMAND:,} bytes; put it into a script")
    if "\0" in command:
        raise InvalidArgument("command", "contains a NUL byte")
    for mark, name in _FORBIDDEN.items():
        if mark in command:
            advice = "run one command without a shell, or pass its arguments as a list"
            raise CommandDenied(f"{name} is not allowed under a command policy; {advice}", rule="shell")
    if match := _ASSIGNMENT.match(command):
        raise CommandDenied(f"{match[0].strip()!r} before a command needs a shell; use env instead", rule="shell")
    found = _split_words(command)
    if not found or not found[0]:
        raise InvalidArgument("command", "empty; the first word is the program")
    return found


def _split_words(command: str) -> tuple[str, ...]:
    found: list[str] = []
    inside = False
    place = 0
    while place < len(command):
        match = _PIECE.match(command, place)
        if match is None:
            raise InvalidArgument("command", f"unclosed quote or backslash at character {place + 1}")
        place = match.end()
        if match.lastindex == _SPACE:
            inside = False
            continue
        if match[2] is not None:
            piece = _ESCAPED.sub(r"\1", match[2])
        else:
            piece = next(part for part in match.groups() if part is not None)
        if inside:
            found[-1] += piece
        else:
            found.append(piece)
        inside = True
    return tuple(found)


MAX_ARGUMENT = 128 * 1024 - 1
"""Bytes of one argument, the kernel's limit."""
MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ResolvedProgram:
    """The file that would be run, as an absolute path that commands see.

    `real` is the file after resolving all links, "" if there are none. `same` are the requested entries that lead to
    the same file. `run_by` are the interpreters of a script in the workspace.
    """

    file: str
    real: str = ""
    same: tuple[str, ...] = ()
    run_by: tuple["ResolvedProgram", ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The program's names. A multi-call binary (busybox) only has the name that it is called by."""
        real = _get_basename(self.real)
        return frozenset({_get_basename(self.file), *([real] if real and not is_multicall(real) else [])})


ProgramResolver: TypeAlias = Callable[[str], ResolvedProgram | None]
"""Which file the executor would run for a program; None if it does not exist."""


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """Where a command would run: the workspace root as commands see it, the skill, and the working directory.

    `resolve` looks up programs. `cwd` is relative to the workspace; None if unknown. `skill_files` are the files of
    skills that no command has changed, relative to the workspace.
    """

    root: str
    resolve: ProgramResolver = lambda _: None
    skill: str | None = None
    cwd: str | None = None
    skill_files: Collection[str] = ()

    @property
    def home(self) -> str:
        """The directory that paths in the lists are relative to: the skill's root, or the workspace."""
        return f"{self.root}/{SKILLS}/{self.skill}" if self.skill is not None else self.root

    def is_in_workspace(self, program: ResolvedProgram) -> bool:
        """Whether a file is in the workspace: part of a skill, or created by a command."""
        return program.file.startswith(f"{self.root}/") or program.real.startswith(f"{self.root}/")

    def is_command_writable(self, program: ResolvedProgram) -> bool:
        """Whether a file is where commands can write, so that it may be anything."""
        real = program.real or program.file
        return real.startswith(f"{self.root}/") and not self.is_skill_file(real)

    def is_skill_file(self, path: str) -> bool:
        """Whether a path, absolute or relative to the command's directory, is a file that a skill's author wrote."""
        if not path.startswith("/") and self.cwd is None:
            return False
        whole = path if path.startswith("/") else f"{self.root}/{self.cwd}/{path}"
        place = [part for part in whole.removeprefix(f"{self.root}/").split("/") if part not in ("", ".")]
        below = whole.startswith(f"{self.root}/") and ".." not in place
        return below and "/".join(place) in self.skill_files


@check_arguments
@dataclass(frozen=True, slots=True)
class CommandPolicy:
    """Lists of commands. Without lists everything is allowed, and text is passed to bash.

    A list allows one command at a time, without a shell. The file that would run is checked. A plain name in
    `allow` (`python3`) means the machine's program, never a file with that name in a skill or from a command. An entry
    with a slash (`scripts/run.sh`, `.venv/bin/tool`) is a file below the skill's root, or an absolute path.

    `deny` takes precedence; its plain names match every program with that name, in any directory and in any case. It
    also covers links to a denied file and scripts that a denied program runs. Programs that run others (shells, `env`,
    `xargs`, `timeout` …) are denied unless `allow` lists them, and so are scripts for them that a command wrote.
    Without `allow`, code in arguments (`python3 -c`; `awk` and `sed` unless `-f` names a file of the skill) and options
    that start programs (`find -exec`) are denied too, as far as the table in `policy_programs` knows them. An `allow`
    of `()` allows nothing; None means no list.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    @classmethod
    @check_arguments
    def of(cls, allow: Iterable[str] | None, deny: Iterable[str] = ()) -> "CommandPolicy":
        """A policy from user-written lists: strips whitespace and `./`, and removes duplicates."""
        return cls(None if allow is None else _normalize_entries(allow), _normalize_entries(deny))

    @property
    def has_lists(self) -> bool:
        """Whether there is any list."""
        return self.allow is not None or bool(self.deny)

    def resolve_argv(self, command: str | Sequence[str], where: PolicyContext) -> tuple[str, ...]:
        """The words to execute for a command. Under a policy, the first one is the file that was checked.

        Raises `CommandDenied` with the rule and the allowed commands, `InvalidArgument` for an invalid command.
        """
        if not self.has_lists and isinstance(command, str) and command.strip():
            return _check_argv(("bash", "-c", command))
        if not self.has_lists:
            return _check_argv(() if isinstance(command, str) else tuple(command))
        found = _check_argv(parse_command_line(command) if isinstance(command, str) else tuple(command))
        return (self._check_program(found[0], found[1:], where), *found[1:])

    def describe(self) -> str:
        """One sentence for the model, or an empty string without lists."""
        if not self.has_lists:
            return ""
        text = "One command without a shell"
        if self.allow is not None:
            text += f"; allowed: {_format_entries(self.allow)}"
        if self.deny:
            text += f"; denied: {_format_entries(self.deny)}"
        return text + "."

    def resolve_denied(self, where: PolicyContext) -> tuple[str, ...]:
        """The entries of `deny` as in `ResolvedProgram.same`: plain names and absolute paths."""
        return tuple(_resolve_entry(entry, where) if "/" in entry else entry for entry in self.deny)

    def _check_program(self, program: str, arguments: Sequence[str], where: PolicyContext) -> str:
        if ".." in program.split("/"):
            raise self._build_denial(program, "contains '..'", "path")
        found = where.resolve(program)
        if found is not None:
            found = replace(found, file=_normalize_path(found.file))
        denied = self._find_denied(program, found, where)
        if denied is not None:
            by = "" if denied == program else f"leads to {denied}, which "
            raise self._build_denial(program, f"{by}is a denied command", "deny")
        if self._find_allow_entry(program, found, where) is None:
            if is_wrapper(_get_basename(program)) or (self.allow is None and _is_indirect_wrapper(found, where)):
                raise self._build_denial(program, "runs other commands and must be allowed by name", "wrapper")
            if self.allow is not None:
                why = "is not an allowed command"
                if "/" not in program and program in self.allow and found is not None:
                    inside = found.file.removeprefix(f"{where.home}/")
                    why = f"would run {inside}, not the machine's program; allow {inside!r} if intended"
                raise self._build_denial(program, why, "allow")
            if found is not None and not where.is_skill_file(found.real or found.file):
                names = (_get_basename(program), *found.names)
                if (by := find_inline_code(names, arguments, where.is_skill_file)) is not None:
                    why = f"with {by} runs code that the policy cannot check; run a script, or allow it by name"
                    raise self._build_denial(program, why, "inline")
        if found is None:
            raise InvalidArgument("command", f"program {program!r} not found")
        return found.file

    def _find_denied(self, program: str, found: ResolvedProgram | None, where: PolicyContext) -> str | None:
        denied = {entry.casefold() for entry in self.resolve_denied(where)}
        if _get_basename(program).casefold() in denied:
            return program
        for one in (found, *found.run_by) if found is not None else ():
            same = () if is_multicall(_get_basename(one.real)) else one.same
            if not denied.isdisjoint(name.casefold() for name in (*one.names, one.file, *same)):
                return program if one is found else one.file
        return None

    def _find_allow_entry(self, program: str, found: ResolvedProgram | None, where: PolicyContext) -> str | None:
        for entry in self.allow or ():
            if "/" in entry:
                if found is not None and found.file == _resolve_entry(entry, where):
                    return entry
            elif program == entry and (found is None or not where.is_in_workspace(found)):
                return entry
        return None

    def _build_denial(self, program: str, why: str, rule: str) -> CommandDenied:
        allowed = "" if self.allow is None else f"; allowed: {_format_entries(self.allow)}"
        return CommandDenied(f"{program!r} {why}{allowed}", rule=rule, allowed=list(self.allow or ())[:MAX_SHOWN])


def _check_argv(argv: tuple[str, ...]) -> tuple[str, ...]:
    if not argv or not argv[0].strip():
        raise InvalidArgument("command", "empty; the first word is the program")
    for place, argument in enumerate(argv):
        if len(encode_text(argument, "command", f"argument {place} ")) > MAX_ARGUMENT:
            raise InvalidArgument("command", f"argument {place} is longer than {MAX_ARGUMENT:,} bytes; use a file")
    return argv


def _normalize_entries(entries: Iterable[str]) -> tuple[str, ...]:
    cleaned = (_normalize_path(entry.strip()) for entry in entries)
    return tuple(dict.fromkeys(entry for entry in cleaned if entry))


def _normalize_path(path: str) -> str:
    """Remove empty and `.` parts of a path; `./x` stays a path."""
    if "/" not in path:
        return path
    parts = [part for part in path.split("/") if part not in ("", ".")]
    start = "/" if path.startswith("/") else "" if len(parts) > 1 else "./"
    return start + "/".join(parts) if parts else ""


def _resolve_entry(entry: str, where: PolicyContext) -> str:
    return entry if entry.startswith("/") else f"{where.home}/{entry.removeprefix('./')}"


def _is_indirect_wrapper(found: ResolvedProgram | None, where: PolicyContext) -> bool:
    """Whether a program runs others although its name does not say so."""
    if found is None:
        return False
    # A skill's own script was written by its author; one that a command wrote is just another command line.
    run_by = found.run_by if where.is_command_writable(found) else ()
    if any(map(where.is_command_writable, run_by)) or any(has_language(name) for one in run_by for name in one.names):
        return True
    return any(is_wrapper(name) for one in (found, *run_by) for name in one.names)


def _format_entries(entries: Sequence[str]) -> str:
    more = f" (+{len(entries) - MAX_SHOWN} more)" if len(entries) > MAX_SHOWN else ""
    return ", ".join(entries[:MAX_SHOWN]) + more if entries else "nothing"


def _get_basename(path: str) -> str:
    return path.rsplit("/", 1)[-1]


# Prints NUL-terminated fields: the file, the file behind all links, the other arguments that are the same file, and an
# empty one; then the beginning of a file in the workspace. The shell and the two programs are never taken from the
# workspace, where commands can write.
_LOOKUP_SCRIPT = r"""
set -f; IFS=:; own=; found=
for place in $PATH; do
  case $place in "$WORKSPACE_DIR"/*) ;; *) own=$own:$place ;; esac
done
real() { real=$(PATH=${own#:} readlink -fn "$1" && echo x) && real=${real%x}; }
real "$WORKSPACE_DIR" && root=$real || exit 1
case $1 in
*/*) found=$1 ;;
*) for place in $PATH; do [ -f "$place/$1" ] && [ -x "$place/$1" ] && { found=$place/$1; break; }; done ;;
esac
[ -f "$found" ] && [ -x "$found" ] || exit 1
case $found in /*) ;; *) found=$PWD/$found ;; esac
case $found in "$root"/*) found=$WORKSPACE_DIR${found#"$root"} ;; esac
real "$found" || exit 1
case $real in "$root"/*) real=$WORKSPACE_DIR${real#"$root"} ;; esac
printf '%s\0%s\0' "$found" "$real"
shift
for entry in "$@"; do
  case $entry in
  */*) [ "$found" -ef "$entry" ] && printf '%s\0' "$entry" ;;
  *) for place in $PATH; do [ "$found" -ef "$place/$entry" ] && { printf '%s\0' "$entry"; break; }; done ;;
  esac
done
printf '\0'
case $real in "$WORKSPACE_DIR"/*) PATH=${own#:} head -c 256 "$found" ;; esac
"""
_LIMITS = Limits(timeout=10.0, output_bytes=64 * 1024)
_MAX_DEPTH = 5
"""More nested interpreters than the kernel follows."""


async def find_program(
    workspace: Workspace, wanted: str | tuple[str, ...], command: Command, others: Sequence[str] = ()
) -> ResolvedProgram | None:
    """The program that would be run, and which of `others` (names and absolute paths) are the same file.

    It is looked up in the command's own directory and environment, where `PATH` has the right meaning.
    """
    found = parse_command_line(wanted) if isinstance(wanted, str) else wanted
    if not found or not found[0]:
        return None
    bare = replace(command, env={}, secrets={}, stdin=b"", input_open=False, terminal=None, network=(), warm=None)
    return await _lookup_program(workspace, replace(bare, limits=_LIMITS), found[0], tuple(others), _MAX_DEPTH)


async def _lookup_program(
    workspace: Workspace, command: Command, name: str, others: tuple[str, ...], deeper: int
) -> ResolvedProgram | None:
    process = await workspace.start(replace(command, argv=("/bin/sh", "-c", _LOOKUP_SCRIPT, "sh", name, *others)))
    ended = await process.wait()
    if ended.exit_code != 0 or ended.ending is not EndReason.EXITED or ended.stdout.cut:
        return None
    said, _, head = ended.stdout.bytes().partition(b"\0\0")
    file, real, *same = (field.decode("utf-8", "surrogateescape") for field in said.split(b"\0"))
    run_by: list[ResolvedProgram] = []
    for interpreter in parse_shebang(head) if deeper else ():
        found = await _lookup_program(workspace, command, interpreter, others, deeper - 1)
        if found is not None:
            run_by += [found, *found.run_by]
    return ResolvedProgram(file, real, tuple(same), tuple(run_by))


def parse_shebang(head: bytes) -> tuple[str, ...]:
    """The interpreter in a file's first line: that of `#!/bin/sh`, and `python3` for `#!/usr/bin/env python3`."""
    line = head.split(b"\n", 1)[0]
    if not line.startswith(b"#!"):
        return ()
    first, *rest = line[2:].decode("utf-8", "surrogateescape").split(maxsplit=1) or [""]
    if not first:
        return ()
    if first.rsplit("/", 1)[-1] != "env" or not rest:
        return (first,)
    named = rest[0].split()
    # With options, env may run anything, so env itself is the interpreter.
    return (named[0],) if len(named) == 1 and named[0][0] != "-" and "=" not in named[0] else (first,)
