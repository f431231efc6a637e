"""A sign of life on stderr while a scan or a download takes longer than a moment."""

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

from openskills.cli.output import console_of, plain

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

MOMENT = 0.5
"""Seconds before anything is shown."""


class Waiting:
    """The `Progress` of the command line, in a `with` statement around the work.

    At a terminal a bar appears after a moment and is gone when the work is done. In a pipe nothing is ever shown. May
    be called from any thread.
    """

    def __init__(self, what: str) -> None:
        self._state: tuple[str, int, int | None] = (what, 0, None)
        self._bar: tuple[Progress, TaskID] | None = None
        self._lock = threading.Lock()
        self._done = False
        self._timer = threading.Timer(MOMENT, self._appear)
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

    def _appear(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        # Text without markup: `what` may hold the name of a file that somebody else chose.
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        with self._lock:
            if self._done:
                return
            bar = Progress(*columns, console=console_of(sys.stderr), transient=True)
            self._bar = (bar, bar.add_task("", total=None))
            self._update()
            bar.start()

    def _update(self) -> None:
        if self._bar is not None:
            (bar, task), (what, done, total) = self._bar, self._state
            # Without a whole the bar only moves; the number says how far the work has come.
            count = f" {done:,}" if total is None and done else ""
            bar.update(task, description=plain(what) + count, completed=done, total=total)
