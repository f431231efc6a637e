"""What a hosted skill shows while it works, for the person at the shell; and what came of it."""

import json
import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from openskills.cli.output import Part, console_of, plain, say_text, warn
from openskills.paths import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from openskills.host.calling.stream_events import StreamEvent
    from openskills.host.result import InvokeResult

_MOST_DETAILS = 20
_LONGEST = 2_000


class LiveView:
    """Lines of the skill as they come, on stderr, those of its own stderr dim; a bar where it says how far it is.

    In a pipe there is no bar and no colour.
    """

    def __init__(self) -> None:
        self._bar: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar[0].stop()

    def show(self, event: "StreamEvent") -> None:
        """Show one event. Those that have nothing for a person are passed over."""
        if event.kind in {"stdout", "stderr"}:
            text = _said(event.data)
            # A skill of the document writes its result there, which is shown at the end.
            if event.kind == "stderr" or not _is_result(text):
                self._lines(event.kind, text)
        elif event.kind == "progress":
            self._progress(event.data)
        elif event.kind == "artifact":
            where = event.data.get("path") or event.data.get("name") or ""
            warn(("made", "green"), f": {plain(str(where))}")
        elif event.kind == "cut":
            warn(("warning", "yellow"), f": {plain(str(event.data.get('reason') or 'some output was not kept'))}")

    @staticmethod
    def _lines(kind: str, text: str) -> None:
        # A host tells whole lines, without their ends.
        for line in text.removesuffix("\n").split("\n"):
            shown = "\t".join(map(printable, line.removesuffix("\r").split("\t")))
            warn((shown, "dim") if kind == "stderr" else shown)

    def _progress(self, data: Mapping[str, Any]) -> None:
        done, total = _number(data.get("done")), _number(data.get("total"))
        message = plain(str(data.get("message") or ""))[:60]
        if not sys.stderr.isatty():
            return
        if self._bar is None:
            self._bar = _bar()
        bar, task = self._bar
        bar.update(task, description=message, completed=done or 0, total=total)


def show_result(result: "InvokeResult") -> int:
    """Print what came of an invocation: data on stdout, how it ended on stderr. Gives the exit code."""
    failure = result.outcome.failure
    took = (
        f"{result.skill_id} {result.version}".strip() + f" in {result.latency_ms:,.0f} ms, trace id {result.trace_id}"
    )
    if failure is None:
        say_text(pretty(result.outcome.data or {}))
        cut: tuple[Part, ...] = (("; the answer was cut", "yellow"),) if result.outcome.truncated else ()
        warn(("done", "green"), f": {plain(took)}", *cut)
        return 0
    warn(("failed", "bold red"), f": {plain(failure.message)}")
    reason = failure.details.get("reason", "")
    warn(f"  {failure.code} {plain(str(reason))}".rstrip())
    for name, value in list(failure.details.items())[:_MOST_DETAILS]:
        if name not in {"reason", "retryable"} and value not in (None, "", [], {}):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            warn((f"  {plain(name)}: {plain(text[:_LONGEST])}", "dim"))
    warn((plain(took), "dim"))
    return 1


def pretty(value: object) -> str:
    """JSON for people: whole characters, and at a terminal nothing that would move the cursor."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return "\n".join(map(printable, text.split("\n"))) if sys.stdout.isatty() else text


def _bar() -> "tuple[Progress, TaskID]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    # Text without markup: the message is the skill's.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console_of(sys.stderr), transient=True)
    bar.start()
    return bar, bar.add_task("", total=None)


def _said(data: Mapping[str, Any]) -> str:
    text = data.get("text")
    return text if isinstance(text, str) else json.dumps(dict(data), ensure_ascii=False, default=str)


def _is_result(text: str) -> bool:
    if not text.lstrip().startswith("{") or '"success"' not in text:
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return max(float(value), 0.0)
