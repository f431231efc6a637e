"""Which commands may be run. Pure.

A policy is a convenience for its operator and keeps a model on a path; it is not a boundary. Programs that run others
when their arguments say so (`python3 -c`, `find -exec`, `awk`, `git -c`) are known by a table, and no table is
complete; a script may do anything. What a command can reach is decided by its executor.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from openskills.errors import CommandDenied, InvalidArgument
from openskills.executors.layout import RESERVED, SKILLS
from openskills.executors.rules.inline_code import has_language, runs_by_arguments
from openskills.executors.rules.words import words
from openskills.executors.rules.wrappers import is_many, runs_others

MAX_ARGUMENT = 128 * 1024 - 1
"""Bytes of one argument; the kernel takes no longer one."""
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Program:
    """A file that would be run, as an absolute path that commands see, and what it really is.

    `real` is the file behind all links, "" when there are none. `same` are those of the entries that were asked about
    which lead to the same file. `run_by` are the programs that run it, when it is a script in the workspace.
    """

    file: str
    real: str = ""
    same: tuple[str, ...] = ()
    run_by: tuple["Program", ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """What it is called. A program that is many in one (busybox) is whatever it is called as."""
        real = _base(self.real)
        return frozenset({_base(self.file), *([real] if real and not is_many(real) else [])})


Resolve: TypeAlias = Callable[[str], Program | None]
"""Which file the executor would run for a program; None: there is none."""


def _no_program(name: str) -> Program | None:
    del name
    return None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a command would be run: the workspace as it sees it, the skill, what its programs are, and the directory.

    `cwd` is relative to the workspace; None when it is not known.
    """

    root: str
    resolve: Resolve = _no_program
    skill: str | None = None
    cwd: str | None = None

    @property
    def home(self) -> str:
        """What paths in the lists are relative to: the skill's root, or the workspace."""
        return f"{self.root}/{SKILLS}/{self.skill}" if self.skill is not None else self.root

    def is_brought(self, program: Program) -> bool:
        """Whether a file lies in the workspace: a skill brought it, or a command made it."""
        return program.file.startswith(f"{self.root}/") or program.real.startswith(f"{self.root}/")

    def is_made(self, program: Program) -> bool:
        """Whether a file lies where commands can write: it may be anything, under any name."""
        real = program.real or program.file
        return real.startswith(f"{self.root}/") and not self.is_authored(real)

    def is_authored(self, path: str) -> bool:
        """Whether a path, relative to the directory of the command or absolute, is that of a file of a skill.

        No command can write there: it is what the skill's author wrote.
        """
        if not path.startswith("/") and self.cwd is None:
            return False
        whole = path if path.startswith("/") else f"{self.root}/{self.cwd}/{path}"
        place = [part for part in whole.removeprefix(f"{self.root}/").split("/") if part not in ("", ".")]
        below = whole.startswith(f"{self.root}/") and ".." not in place
        return below and place[0] == SKILLS and len(place) > 2 and place[2] not in RESERVED


@dataclass(frozen=True, slots=True)
class CommandPolicy:
    """Lists of commands. Without any, everything is allowed and text is given to bash.

    With one there is no shell, and one command at a time. It is judged by the file that would be run. A plain name in
    `allow` (`python3`) is the program of the machine, never a file of that name that a skill brings or a command made.
    An entry with a slash (`scripts/run.sh`, `.venv/bin/tool`) is that file below the skill's root, or an absolute path.
    `deny` wins; its plain names match every program of that name, wherever it lies, in small and capital letters.
    What leads to the same file, and a script that a denied program runs, is denied as well. Programs that run others
    (shells, `env`, `xargs`, `timeout` …) are denied unless `allow` has them, and so is a script for one of them that is
    no part of the skill but was written by a command. Without an `allow`, so is code in arguments (`python3 -c`, `awk`
    unless its program is a file of the skill) and what starts programs by arguments (`find -exec`), as far as the table
    in `starters` knows it. An `allow` of `()` allows nothing; None is no list.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    @classmethod
    def of(cls, allow: Iterable[str] | None, deny: Iterable[str] = ()) -> "CommandPolicy":
        """A policy from lists as people write them: blanks around entries, `./` before them and repetitions go."""
        return cls(None if allow is None else _tidy(allow), _tidy(deny))

    @property
    def restricts(self) -> bool:
        """Whether there is any list."""
        return self.allow is not None or bool(self.deny)

    def argv(self, command: str | Sequence[str], where: Surroundings) -> tuple[str, ...]:
        """What is to be executed for a command. Under a policy its first item is the file that was judged.

        Raises `CommandDenied` with the rule and what would be allowed, `InvalidArgument` for what cannot be a command.
        """
        if not self.restricts and isinstance(command, str) and command.strip():
            return _checked(("bash", "-c", command))
        if not self.restricts:
            return _checked(() if isinstance(command, str) else tuple(command))
        found = _checked(words(command) if isinstance(command, str) else tuple(command))
        return (self._judged(found[0], found[1:], where), *found[1:])

    def summary(self) -> str:
        """One sentence for the model that is to write commands, or nothing when there is no list."""
        if not self.restricts:
            return ""
        text = "One command without a shell"
        if self.allow is not None:
            text += f"; allowed: {_shown(self.allow)}"
        if self.deny:
            text += f"; denied: {_shown(self.deny)}"
        return text + "."

    def denied(self, where: Surroundings) -> tuple[str, ...]:
        """The entries of `deny` as `Program.same` has them: plain names, and absolute paths."""
        return tuple(_absolute(entry, where) if "/" in entry else entry for entry in self.deny)

    def _judged(self, program: str, arguments: Sequence[str], where: Surroundings) -> str:
        if ".." in program.split("/"):
            raise self._denied(program, "has '..' in it", "path")
        found = where.resolve(program)
        if found is not None:
            found = replace(found, file=_plain(found.file))
        denied = self._denied_of(program, found, where)
        if denied is not None:
            by = "" if denied == program else f"leads to {denied}, which "
            raise self._denied(program, f"{by}is on the list of denied commands", "deny")
        if self._entry(program, found, where) is None:
            if runs_others(_base(program)) or (self.allow is None and _leads_to_others(found, where)):
                raise self._denied(program, "runs other commands, so a policy must allow it by name", "wrapper")
            if self.allow is not None:
                raise self._denied(program, _why_not(program, found, where, self.allow), "allow")
            if (by := _runs_by_arguments(program, arguments, found, where)) is not None:
                why = f"with {by} runs what no list of commands can judge; run a script, or have it allowed by name"
                raise self._denied(program, why, "inline")
        if found is None:
            raise InvalidArgument("command", f"there is no program {program!r} here")
        return found.file

    def _denied_of(self, program: str, found: Program | None, where: Surroundings) -> str | None:
        """What of a command is denied: itself, or the first of those that run it."""
        denied = {entry.casefold() for entry in self.denied(where)}
        if _base(program).casefold() in denied:
            return program
        for one in (found, *found.run_by) if found is not None else ():
            same = () if is_many(_base(one.real)) else one.same
            if not denied.isdisjoint(name.casefold() for name in (*one.names, one.file, *same)):
                return program if one is found else one.file
        return None

    def _entry(self, program: str, found: Program | None, where: Surroundings) -> str | None:
        """The entry that allows this file."""
        for entry in self.allow or ():
            if "/" in entry:
                if found is not None and found.file == _absolute(entry, where):
                    return entry
            elif program == entry and (found is None or not where.is_brought(found)):
                return entry
        return None

    def _denied(self, program: str, why: str, rule: str) -> CommandDenied:
        allowed = "" if self.allow is None else f"; allowed: {_shown(self.allow)}"
        return CommandDenied(f"{program!r} {why}{allowed}", rule=rule, allowed=list(self.allow or ())[:SHOWN])


def _checked(argv: tuple[str, ...]) -> tuple[str, ...]:
    if not argv or not argv[0].strip():
        raise InvalidArgument("command", "is empty; its first word is the program")
    for place, argument in enumerate(argv):
        if "\0" in argument:
            raise InvalidArgument("command", f"argument {place} contains a NUL byte")
        try:
            size = len(argument.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            raise InvalidArgument("command", f"argument {place} contains half a character (a lone surrogate)") from None
        if size > MAX_ARGUMENT:
            raise InvalidArgument("command", f"argument {place} is longer than {MAX_ARGUMENT:,} bytes; use a file")
    return argv


def _tidy(entries: Iterable[str]) -> tuple[str, ...]:
    cleaned = (_plain(entry.strip()) for entry in entries)
    return tuple(dict.fromkeys(entry for entry in cleaned if entry))


def _plain(path: str) -> str:
    """A path without empty and `.` parts; `./x` stays a path."""
    if "/" not in path:
        return path
    parts = [part for part in path.split("/") if part not in ("", ".")]
    start = "/" if path.startswith("/") else "" if len(parts) > 1 else "./"
    return start + "/".join(parts) if parts else ""


def _absolute(entry: str, where: Surroundings) -> str:
    return entry if entry.startswith("/") else f"{where.home}/{entry.removeprefix('./')}"


def _leads_to_others(found: Program | None, where: Surroundings) -> bool:
    """Whether a program runs others under a name that does not say so."""
    if found is None:
        return False
    # A skill's own script is what its author wrote; one that a command wrote is a command line by another name.
    run_by = found.run_by if where.is_made(found) else ()
    if any(map(where.is_made, run_by)) or any(has_language(name) for one in run_by for name in one.names):
        return True
    return any(runs_others(name) for one in (found, *run_by) for name in one.names)


def _runs_by_arguments(
    program: str, arguments: Sequence[str], found: Program | None, where: Surroundings
) -> str | None:
    """What in the arguments of a program runs something else. A file of the skill is no program of that name."""
    if found is None or where.is_authored(found.real or found.file):
        return None
    return runs_by_arguments((_base(program), *found.names), arguments, where.is_authored)


def _why_not(program: str, found: Program | None, where: Surroundings, allow: Sequence[str]) -> str:
    if "/" not in program and program in allow and found is not None:
        inside = found.file.removeprefix(f"{where.home}/")
        return f"would run {inside}, which is not the machine's; allow {inside!r} if that is meant"
    return "is not on the list of allowed commands"


def _shown(entries: Sequence[str]) -> str:
    more = f" (+{len(entries) - SHOWN} more)" if len(entries) > SHOWN else ""
    return ", ".join(entries[:SHOWN]) + more if entries else "nothing"


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]
