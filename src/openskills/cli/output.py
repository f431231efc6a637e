"""Lines, tables, progress.

What the commands print: styled lines for people at a terminal, plain ones in a pipe, JSON for programs.

Text from skills is somebody else's: it goes through `plain` before it reaches a terminal.

Rows of text: columns that fit the terminal for people, lines with tabs in a pipe.

A sign of life on stderr while a scan or a download takes longer than a moment.

What the library says while a command of this program runs, for the person at the shell.

Commands that start quickly: typer checks parameters with pydantic, whose import costs more than all the rest.
"""

import json
import logging
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeAlias

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from openskills.paths import to_printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


Part: TypeAlias = str | tuple[str, str]
"""A piece of a line: text, or text with the name of a style."""


def escape_line(text: str) -> str:
    """Foreign text on one line: runs of white space are one blank, what cannot be seen is escaped."""
    return to_printable(" ".join(text.split()))


def say(*parts: Part) -> None:
    """One line of the answer, on stdout."""
    _print_line(sys.stdout, parts)


def warn(*parts: Part) -> None:
    """One line beside the answer, on stderr."""
    _print_line(sys.stderr, parts)


def say_text(text: str) -> None:
    """Text of the answer exactly as it is, with a newline after it; the caller has made it safe."""
    sys.stdout.write(text + "\n")


def say_json(value: object) -> None:
    """The answer for a program. Everything beyond ASCII is escaped, so no encoding and no terminal can spoil it."""
    say_text(json.dumps(value, indent=2))


def get_console(stream: TextIO) -> "Console":
    """The rich console of a stream that is a terminal."""
    return _error_console() if stream is sys.stderr else _answer_console()


def pluralize(number: int, noun: str) -> str:
    """`1 skill`, `2 skills`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _print_line(stream: TextIO, parts: tuple[Part, ...]) -> None:
    if not stream.isatty():
        stream.write("".join(part if isinstance(part, str) else part[0] for part in parts) + "\n")
        return
    from rich.text import Text

    # Never as markup: a description may say `[red]`. The terminal wraps, so that a path can be copied whole.
    get_console(stream).print(Text.assemble(*parts), soft_wrap=True, highlight=False)


@cache
def _answer_console() -> "Console":
    from rich.console import Console

    return Console(emoji=False, markup=False, highlight=False)


@cache
def _error_console() -> "Console":
    from rich.console import Console

    return Console(stderr=True, emoji=False, markup=False, highlight=False)


_GAP = 2
_MIN_WIDE_WIDTH = 20
"""What a wide column keeps even on a narrow terminal."""

_MAX_WIDTH = 40
"""What any other column takes at most."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column with its heading; a wide one gets the room that the others leave."""

    title: str
    style: str = ""
    wide: bool = False


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print `rows`, whose cells must be safe to print. No row, no heading."""
    if not sys.stdout.isatty():
        for row in rows:
            say_text("\t".join(row))
    elif rows:
        _show_columns(columns, rows)


def _show_columns(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.cells import set_cell_size

    shown = [number for number in range(len(columns)) if any(row[number] for row in rows)]
    widths = _compute_widths(columns, rows, get_console(sys.stdout).width, shown)
    say((_gap().join(set_cell_size(columns[n].title, widths[n]) for n in shown).rstrip(), "bold underline"))
    for row in rows:
        cells = [(_fit(row[n], widths[n], last=n == shown[-1]), columns[n].style) for n in shown]
        parts: list[Part] = [part for cell in cells for part in (_gap(), cell)]
        say(*parts[1:])


def _compute_widths(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int, shown: list[int]
) -> dict[int, int]:
    from rich.cells import cell_len

    needed = {n: max(cell_len(columns[n].title), *(cell_len(row[n]) for row in rows)) for n in shown}
    widths = {n: needed[n] if columns[n].wide else min(needed[n], _MAX_WIDTH) for n in shown}
    others = sum(width for n, width in widths.items() if not columns[n].wide)
    left = room - others - _GAP * (len(shown) - 1)
    return {n: min(width, max(left, _MIN_WIDE_WIDTH)) if columns[n].wide else width for n, width in widths.items()}


def _fit(text: str, width: int, *, last: bool) -> str:
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    return text if last else set_cell_size(text, width)


def _gap() -> str:
    return " " * _GAP


PROGRESS_DELAY = 0.5
"""Seconds before anything is shown."""


class CliProgress:
    """The `Progress` of the command line, in a `with` statement around the work.

    At a terminal a bar appears after a moment and is gone when the work is done. In a pipe nothing is ever shown. May
    be called from any thread.
    """

    def __init__(self, what: str) -> None:
        self._state: tuple[str, int, int | None] = (what, 0, None)
        self._bar: tuple[Progress, TaskID] | None = None
        self._lock = threading.Lock()
        self._done = False
        self._timer = threading.Timer(PROGRESS_DELAY, self._show_bar)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._timer.start()
        return self

    def __call__(self, what: str, done: int, total: int | None) -> None:
        with self._lock:
            self._state = (what, done, total)
            self._update()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._done = True
            if self._bar is not None:
                self._bar[0].stop()

    def _show_bar(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        # Text without markup: `what` may hold the name of a file that somebody else chose.
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        with self._lock:
            if self._done:
                return
            bar = Progress(*columns, console=get_console(sys.stderr), transient=True)
            self._bar = (bar, bar.add_task("", total=None))
            self._update()
            bar.start()

    def _update(self) -> None:
        if self._bar is not None:
            (bar, task), (what, done, total) = self._bar, self._state
            # Without a whole the bar only moves; the number says how far the work has come.
            count = f" {done:,}" if total is None and done else ""
            bar.update(task, description=escape_line(what) + count, completed=done, total=total)


LIBRARY = "openskills"


class _StderrHandler(logging.Handler):
    """One line for each record, without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        warn((record.levelname.lower(), "yellow"), f": {escape_line(record.getMessage())}")


@contextmanager
def log_warnings() -> Generator[None]:
    """As long as the block lasts, warnings of the library go to stderr: by itself it prints nothing."""
    logger, handler = logging.getLogger(LIBRARY), _StderrHandler(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


Parameter: TypeAlias = TyperArgument | TyperOption


class QuickCommand(TyperCommand):
    """A command that takes text and defaults as they are; only what must be converted is given to typer's checker."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, as every command does."""
        install_quick_checkers(self.get_params(ctx))
        return super().parse_args(ctx, args)


class QuickGroup(TyperGroup):
    """The same for the options before a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments up to the command, as every group does."""
        install_quick_checkers(self.get_params(ctx))
        return super().parse_args(ctx, args)


def install_quick_checkers(parameters: Sequence[object]) -> None:
    """Put a quick checker before that of each parameter. A version of typer without the hook has nothing to save."""
    for parameter in parameters:
        checker = getattr(parameter, "get_runtime_param", None)
        if isinstance(parameter, Parameter) and checker is not None:
            quick = _QuickChecker(checker, parameter.type_descriptor.annotation)
            vars(parameter)["get_runtime_param"] = quick.get_checker


class _QuickChecker:
    """Stands where typer expects a checker, and asks for the real one only when it is needed."""

    def __init__(self, checker: Callable[[], Any], annotation: Any) -> None:
        self._checker = checker
        self._annotation = annotation

    def get_checker(self) -> "_QuickChecker":
        return self

    def coerce(self, value: Any, param: Parameter, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if self._annotation is str:
            return value
        if self._annotation == list[str]:
            return list[str](value)
        if isinstance(self._annotation, type) and isinstance(value, self._annotation):
            return value
        return self._checker().coerce(value, param=param, ctx=ctx)
