"""Output of the commands: styled lines and tables on a terminal, plain lines and tabs in a pipe, JSON, progress bars.

Text from skills is untrusted: pass it through `escape_line` before printing it. `QuickCommand` and `QuickGroup` keep
typer from importing pydantic for parameters that need no conversion.
"""

import inspect
import json
import logging
import re
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeAlias

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from openskills.paths import to_printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


Part: TypeAlias = str | tuple[str, str]
"""A part of a line: text, or a tuple of text and style."""


def escape_line(text: str) -> str:
    """Untrusted text on one line: white space is collapsed, unprintable characters are escaped."""
    return to_printable(" ".join(text.split()))


def say(*parts: Part) -> None:
    """Print a line to stdout."""
    _print_line(sys.stdout, parts)


def warn(*parts: Part) -> None:
    """Print a line to stderr."""
    _print_line(sys.stderr, parts)


def say_text(text: str) -> None:
    """Write text and a newline to stdout without styling; the caller must have escaped it."""
    sys.stdout.write(text + "\n")


def say_json(value: object) -> None:
    """Print a value as JSON, in ASCII, so that it does not depend on the encoding of the terminal."""
    say_text(json.dumps(value, indent=2))


def get_console(stream: TextIO) -> "Console":
    """The rich console of a stream that is a terminal."""
    return _create_console(stderr=stream is sys.stderr)


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


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print `rows`, whose cells must already be escaped; prints nothing when there are none."""
    if not sys.stdout.isatty():
        for row in rows:
            say_text("\t".join(row))
    elif rows:
        _show_columns(columns, rows)


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

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._done = True
            if self._bar is not None:
                self._bar[0].stop()

    def _show_bar(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        # Without markup: `what` may contain the name of an untrusted file.
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
            # Without a total the bar only pulses, so show the count.
            count = f" {done:,}" if total is None and done else ""
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


Parameter: TypeAlias = TyperArgument | TyperOption


class QuickCommand(TyperCommand):
    """A command with plain help, which passes text and defaults to typer's validator only if they need converting."""

    usage_end = ""
    """What follows the arguments in the usage line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `TyperCommand.parse_args`."""
        install_quick_checkers(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Any) -> str:
        """See `TyperCommand.get_help`."""
        return format_help(self, ctx, {})


class QuickGroup(TyperGroup):
    """`QuickCommand` for groups of commands."""

    usage_end = "COMMAND [ARGS]..."

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `TyperGroup.parse_args`."""
        install_quick_checkers(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Any) -> str:
        """See `TyperGroup.get_help`."""
        return format_help(self, ctx, self.commands)


_MAX_HELP_WIDTH = 100
_MAX_TERM_WIDTH = 26
"""The width of the column with options in a help text; the description of a longer one begins on the next line."""


def format_help(command: Any, ctx: Any, subcommands: Mapping[str, Any]) -> str:
    """The help of a command, wrapped for the terminal. Indented lines of its text, such as examples, stay lines."""
    width = min(shutil.get_terminal_size().columns, _MAX_HELP_WIDTH)
    parameters = [one for one in command.get_params(ctx) if not one.hidden]
    arguments = [one for one in parameters if isinstance(one, TyperArgument)]
    options = [one for one in parameters if not isinstance(one, TyperArgument)]
    usage = " ".join(["Usage:", ctx.command_path, "[OPTIONS]", *map(_format_usage, arguments), command.usage_end])
    blocks = ["\n".join(textwrap.wrap(usage, width, subsequent_indent=" " * 7, break_on_hyphens=False))]
    blocks += [_wrap_paragraph(text, width) for text in inspect.cleandoc(command.help or "").split("\n\n")]
    lines = {name: inspect.cleandoc(one.help or "").partition("\n\n")[0] for name, one in subcommands.items()}
    for title, rows in (
        ("Arguments", [(str(one.metavar), _describe_parameter(one)) for one in arguments]),
        ("Options", [(_format_option(one), _describe_parameter(one)) for one in options]),
        ("Commands", [(name, " ".join(text.split())) for name, text in lines.items()]),
    ):
        if rows:
            blocks.append(f"{title}:\n" + "\n".join(_format_definitions(rows, width)))
    return "\n\n".join(blocks)


def _wrap_paragraph(text: str, width: int) -> str:
    wrapped: list[str] = []
    for line in re.sub(r"\n(?! )", " ", text).split("\n"):
        wrapped += textwrap.wrap(line, width, subsequent_indent=" " * 6 if line[:1] == " " else "")
    return "\n".join(wrapped)


def _format_definitions(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    column = max([len(term) for term, _ in rows if len(term) <= _MAX_TERM_WIDTH], default=0) + 4
    for term, text in rows:
        lines = textwrap.wrap(text, width, initial_indent=" " * column, subsequent_indent=" " * column) or [""]
        if len(term) + 4 > column:
            yield f"  {term}"
        else:
            lines[0] = f"  {term}".ljust(column) + lines[0][column:]
        yield from lines


def _format_usage(argument: TyperArgument) -> str:
    name = str(argument.metavar) if argument.required else f"[{argument.metavar}]"
    return f"{name}..." if argument.nargs == -1 else name


def _format_option(option: Any) -> str:
    names = sorted(
        [*option.opts, *option.secondary_opts], key=lambda name: (name.startswith("--"), option.opts != [name])
    )
    value = "" if option.is_flag else f" {option.metavar or 'N'}"
    return ", ".join(names) + value


def _describe_parameter(one: Any) -> str:
    text = one.help or ""
    if one.multiple:
        text += " May be repeated."
    default = one.show_default if isinstance(one.show_default, str) else one.default
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    is_shown = one.show_default and default not in (None, "", (), []) and not isinstance(default, bool)
    return f"{text} [default: {shown}]" if is_shown and not callable(default) else text


def install_quick_checkers(parameters: Sequence[object]) -> None:
    """Wrap the validator of each parameter in a `_QuickChecker`, if this version of typer has the hook."""
    for parameter in parameters:
        checker = getattr(parameter, "get_runtime_param", None)
        if isinstance(parameter, Parameter) and checker is not None:
            quick = _QuickChecker(checker, parameter.type_descriptor.annotation)
            vars(parameter)["get_runtime_param"] = quick.get_checker


class _QuickChecker:
    """A validator that creates typer's own, which imports pydantic, only when it is needed."""

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
