"""Which commands may be run. Pure.

A policy is a convenience for its operator and keeps a model on a path; it is not a boundary. Many programs run others
when their arguments say so (`find -exec`, `awk`, `git -c`), and arguments are not looked at. What a command can reach
is decided by its executor.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from openskills.errors import CommandDenied, InvalidArgument
from openskills.executors.layout import SKILLS
from openskills.executors.rules.words import words
from openskills.executors.rules.wrappers import runs_others

MAX_ARGUMENT = 128 * 1024 - 1
"""Bytes of one argument; the kernel takes no longer one."""
SHOWN = 20

Resolve: TypeAlias = Callable[[str], str | None]
"""Which file the executor would run for a program, as an absolute path that its commands see; None: there is none."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a command would be run: the workspace as it sees it, the skill, and what its programs are."""

    root: str
    resolve: Resolve
    skill: str | None = None

    @property
    def home(self) -> str:
        """What paths in the lists are relative to: the skill's root, or the workspace."""
        return f"{self.root}/{SKILLS}/{self.skill}" if self.skill is not None else self.root

    def is_brought(self, file: str) -> bool:
        """Whether a file lies in the workspace: a skill brought it, or a command made it."""
        return file.startswith(f"{self.root}/")


@dataclass(frozen=True, slots=True)
class CommandPolicy:
    """Lists of commands. Without any, everything is allowed and text is given to bash.

    With one there is no shell, and one command at a time. It is judged by the file that would be run. A plain name in
    `allow` (`python3`) is the program of the machine, never a file of that name that a skill brings or a command made.
    An entry with a slash (`scripts/run.sh`, `.venv/bin/tool`) is that file below the skill's root, or an absolute path.
    `deny` wins; its plain names match every program of that name, wherever it lies, in small and capital letters.
    Programs that run others (shells, `env`, `xargs`, `timeout` …) are denied unless `allow` has them. An `allow` of
    `()` allows nothing; None is no list.
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
        return (self._judged(found[0], where), *found[1:])

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

    def _judged(self, program: str, where: Surroundings) -> str:
        if ".." in program.split("/"):
            raise self._denied(program, "has '..' in it", "path")
        found = where.resolve(program)
        file = None if found is None else _plain(found)
        names = {_base(program), _base(file or program)}
        if any(_is_denied(entry, names, file, where) for entry in self.deny):
            raise self._denied(program, "is on the list of denied commands", "deny")
        entry = self._entry(program, file, where)
        if entry is None and any(map(runs_others, names)):
            raise self._denied(program, "runs other commands, so a policy must allow it by name", "wrapper")
        if entry is None and self.allow is not None:
            raise self._denied(program, _why_not(program, file, where, self.allow), "allow")
        if file is None:
            raise InvalidArgument("command", f"there is no program {program!r} here")
        return file

    def _entry(self, program: str, file: str | None, where: Surroundings) -> str | None:
        """The entry that allows this file."""
        for entry in self.allow or ():
            if "/" in entry:
                if file == _absolute(entry, where):
                    return entry
            elif program == entry and (file is None or not where.is_brought(file)):
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


def _is_denied(entry: str, names: Iterable[str], file: str | None, where: Surroundings) -> bool:
    if "/" in entry:
        return file is not None and file.casefold() == _absolute(entry, where).casefold()
    return entry.casefold() in {name.casefold() for name in names}


def _why_not(program: str, file: str | None, where: Surroundings, allow: Sequence[str]) -> str:
    if "/" not in program and program in allow and file is not None:
        inside = file.removeprefix(f"{where.home}/")
        return f"would run {inside}, which is not the machine's; allow {inside!r} if that is meant"
    return "is not on the list of allowed commands"


def _shown(entries: Sequence[str]) -> str:
    more = f" (+{len(entries) - SHOWN} more)" if len(entries) > SHOWN else ""
    return ", ".join(entries[:SHOWN]) + more if entries else "nothing"


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]
