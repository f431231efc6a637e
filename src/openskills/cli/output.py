"""Output of the commands: styled lines and tables on a terminal, plain lines and tabs in a pipe, JSON, progress bars
and questions.

Text from skills is untrusted: pass it through `escape_line` before printing it.
"""

import logging
import os
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from json import dumps
from typing import TYPE_CHECKING, Self, TextIO, TypeAlias

from openskills.paths import to_printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


Part: TypeAlias = str | tuple[str, str]
"""A part of a line: text, or a tuple of text and style."""


def escape_line(text: str) -> str:
    """Untrusted text on one line: white space is collapsed, unprintable characters are escaped."""
    return to_printable(" ".join(text.split()))


def say(*parts: Part, json: object = False) -> None:
    """Print a line to stdout, or `json` instead if it is not false: `say("done", json=as_json and {...})`."""
    if json is not False:
        say_json(json)
    else:
        _print_line(sys.stdout, parts)


def warn(*parts: Part) -> None:
    """Print a line to stderr."""
    _print_line(sys.stderr, parts)


_KEPT = "\n\t\u200c\u200d"
"""Characters that text of several lines keeps: ends of lines, tabs, and the joiners in words and emoji."""


def escape_text(text: str) -> str:
    """Untrusted text of several lines: other unprintable characters are escaped."""
    return "".join(char if char in _KEPT else to_printable(char) for char in text.replace("\r\n", "\n"))


def say_text(text: str, *, json: object = False) -> None:
    """Write text and a newline to stdout without styling; the caller must have escaped it. `json` is as for `say`."""
    if json is not False:
        say_json(json)
    else:
        sys.stdout.write(text + "\n")


def say_json(value: object) -> None:
    """Print a value as JSON, in ASCII, so that it does not depend on the encoding of the terminal."""
    sys.stdout.write(dumps(value, indent=2) + "\n")


def get_console(stream: TextIO) -> "Console":
    """The rich console of a stream that is a terminal."""
    return _create_console(stderr=stream is sys.stderr)


def can_ask() -> bool:
    """Whether the user can see a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> bool | None:
    """Ask on the terminal; True for yes, None without a terminal or at the end of input, False for anything else."""
    if not can_ask():
        return None
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    return answer.strip().lower() in {"y", "yes"} if answer else None


async def read_reply(prompt: str) -> str | None:
    """Read the next line, ignoring input that was typed before the prompt. None at the end of input."""
    import asyncio
    import termios

    descriptor = sys.stdin.fileno()
    with suppress(termios.error):
        termios.tcflush(descriptor, termios.TCIFLUSH)
    sys.stderr.write(prompt)
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        loop.remove_reader(descriptor)
        data = b""
        # A terminal that was closed raises an error.
        with suppress(OSError):
            data = os.read(descriptor, 4096)
        if not line.done():
            line.set_result(data)

    # Not in a thread, which would still read the next message after the run was stopped.
    loop.add_reader(descriptor, read)
    try:
        data = await line
    finally:
        loop.remove_reader(descriptor)
    return data.decode("utf-8", "replace") if data else None


def pluralize(number: int, noun: str) -> str:
    """`1 skill`, `2 skills`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _print_line(stream: TextIO, parts: tuple[Part, ...]) -> None:
    if not stream.isatty():
        stream.write("".join(part if isinstance(part, str) else part[0] for part in parts) + "\n")
        return
    from rich.text import Text

    # Never as markup: a description may contain `[red]`. Soft wrapping lets users copy a whole path.
    get_console(stream).print(Text.assemble(*parts), soft_wrap=True, highlight=False)


@cache
def _create_console(*, stderr: bool) -> "Console":
    from rich.console import Console

    return Console(stderr=stderr, emoji=False, markup=False, highlight=False)


_GAP = "  "
_MIN_WIDE_WIDTH = 20
"""The width of a wide column on a narrow terminal."""

_MAX_WIDTH = 40
"""The maximum width of any other column."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; a wide one gets the space that the others leave."""

    title: str
    style: str = ""
    wide: bool = False


Cell: TypeAlias = str | int | datetime
CellPair: TypeAlias = tuple[Cell | None, Cell | None]
"""A cell of a table on a terminal, and in a pipe. None leaves it out there."""
Row: TypeAlias = Sequence[Cell | CellPair]


def show_table(columns: Sequence[Column | str], rows: Sequence[Row], empty: str = "", json: object = False) -> None:
    """Print `rows`, escaped, or `json` instead if it is not false. A column may be just its title.

    Numbers and times are formatted for people on a terminal, and for programs in a pipe. When there are no rows,
    nothing is printed to stdout, and `empty` to stderr.
    """
    is_terminal = sys.stdout.isatty()
    if json is not False:
        say_json(json)
    elif not rows:
        if empty:
            warn(empty)
    elif is_terminal:
        cells = [[_format_cell(cell) for cell in _select_cells(row, 0)] for row in rows]
        _show_columns([Column(one) if isinstance(one, str) else one for one in columns], cells)
    else:
        for row in rows:
            times = (cell.isoformat() if isinstance(cell, datetime) else str(cell) for cell in _select_cells(row, 1))
            say_text("\t".join(map(escape_line, times)))


def _select_cells(row: Row, side: int) -> list[Cell]:
    cells = (cell[side] if isinstance(cell, tuple) else cell for cell in row)
    return [cell for cell in cells if cell is not None]


def _format_cell(cell: Cell) -> str:
    if isinstance(cell, datetime):
        return cell.astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{cell:,}" if isinstance(cell, int) else escape_line(cell)


def _show_columns(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.cells import cell_len, set_cell_size

    shown = [number for number in range(len(columns)) if any(row[number] for row in rows)]
    needed = {n: max(cell_len(columns[n].title), *(cell_len(row[n]) for row in rows)) for n in shown}
    widths = {n: needed[n] if columns[n].wide else min(needed[n], _MAX_WIDTH) for n in shown}
    others = sum(width for n, width in widths.items() if not columns[n].wide)
    left = max(get_console(sys.stdout).width - others - len(_GAP) * (len(shown) - 1), _MIN_WIDE_WIDTH)
    widths = {n: min(width, left) if columns[n].wide else width for n, width in widths.items()}
    say((_GAP.join(set_cell_size(columns[n].title, widths[n]) for n in shown).rstrip(), "bold underline"))
    for row in rows:
        cells = [(_fit(row[n], widths[n], last=n == shown[-1]), columns[n].style) for n in shown]
        parts: list[Part] = [part for cell in cells for part in (_GAP, cell)]
        say(*parts[1:])


def _fit(text: str, width: int, *, last: bool) -> str:
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    return text if last else set_cell_size(text, width)


PROGRESS_DELAY = 0.5
"""Seconds before a progress bar appears."""


class CliProgress:
    """A progress bar on stderr, for use in a `with` statement; may be called from any thread.

    On a terminal the bar appears after `PROGRESS_DELAY` and is removed at the end. In a pipe nothing is shown.
    """

    def __init__(self, what: str) -> None:
        self._state: tuple[str, float, float | None] = (what, 0, None)
        self._bar: tuple[Progress, TaskID] | None = None
        self._lock = threading.Lock()
        self._done = False
        self._timer = threading.Timer(PROGRESS_DELAY, self.show)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._timer.start()
        return self

    def __call__(self, what: str, done: float, total: float | None) -> None:
        with self._lock:
            self._state = (what, done, total)
            self._update()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._done = True
            if self._bar is not None:
                self._bar[0].stop()

    def show(self) -> None:
        """Show the bar now, if stderr is a terminal."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        # Without markup: `what` may contain the name of an untrusted file.
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        with self._lock:
            if self._done or self._bar is not None or not sys.stderr.isatty():
                return
            bar = Progress(*columns, console=get_console(sys.stderr), transient=True)
            self._bar = (bar, bar.add_task("", total=None))
            self._update()
            bar.start()

    def _update(self) -> None:
        if self._bar is not None:
            (bar, task), (what, done, total) = self._bar, self._state
            count = f" {done:,.12g}/{total:,.12g}" if total is not None else f" {done:,.12g}" if done else ""
            bar.update(task, description=escape_line(what) + count, completed=done, total=total)


class _StderrHandler(logging.Handler):
    """Prints one line for each record, without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        warn((record.levelname.lower(), "yellow"), f": {escape_line(record.getMessage())}")


@contextmanager
def log_warnings() -> Generator[None]:
    """Print warnings that the library logs to stderr, within a `with` block."""
    logger, handler = logging.getLogger("openskills"), _StderrHandler(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
