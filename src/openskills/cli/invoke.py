"""Invoke.

The input of an invocation, as `--input` gives it: JSON, `@FILE`, or `-` for what is piped in.

What a hosted skill shows while it works, for the person at the shell; and what came of it.

One invocation for the shell: at a host or in this process, told live, as a result, or as JSON.

`openskills invoke`: a skill of a host, called from the shell.
"""

import json
import math
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Protocol, Self, cast

import typer

from openskills.cli.output import Part, escape_line, get_console, log_warnings, say_json, say_text, warn
from openskills.cli.skills import Json, get_settings
from openskills.errors import DeadlineExceeded, HostUnavailable, InvalidArgument, MissingExtra, SkillError
from openskills.paths import to_printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from openskills.host.client.client import HostedSkill, StreamEvent
    from openskills.host.model import InvokeResult
    from openskills.settings import Settings


OPTION = "--input"
MAX_INPUT_BYTES = 64 * 1024 * 1024
_EXAMPLE = """write an object, such as '{"text": "hello"}', @FILE or -"""


def read_input(given: str) -> Mapping[str, Any]:
    """The object that is meant. Raises `InvalidArgument` that says where it is no JSON, and what to write."""
    if given == "-":
        return _parse_object(
            _decode_text(sys.stdin.buffer.read(MAX_INPUT_BYTES + 1), "what was piped in"), "what was piped in"
        )
    if given.startswith("@"):
        return _parse_object(_decode_text(_read_file(given[1:]), given[1:]), given[1:])
    return _parse_object(given, "it")


def _read_file(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read(MAX_INPUT_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidArgument(OPTION, f"{name!r} cannot be read: {why}") from None


def _decode_text(data: bytes, where: str) -> str:
    if len(data) > MAX_INPUT_BYTES:
        raise InvalidArgument(OPTION, f"{where} is larger than {MAX_INPUT_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgument(OPTION, f"{where} is not UTF-8 at byte {error.start:,}") from None


def _parse_object(text: str, where: str) -> Mapping[str, Any]:
    try:
        value: object = json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_build_object)
    except json.JSONDecodeError as error:
        place = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise InvalidArgument(OPTION, f"{where} is no JSON ({place}); {_EXAMPLE}") from None
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidArgument(OPTION, f"{where} is no JSON ({why}); {_EXAMPLE}") from None
    if not isinstance(value, dict):
        raise InvalidArgument(OPTION, f"{where} is no object; {_EXAMPLE}")
    return cast("Mapping[str, Any]", value)


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("the same name twice in one object")
    return found


_MAX_DETAILS = 20
_MAX_DETAIL_LENGTH = 2_000


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
            text = _event_text(event.data)
            # A skill of the document writes its result there, which is shown at the end.
            if event.kind == "stderr" or not _is_result(text):
                self._lines(event.kind, text)
        elif event.kind == "progress":
            self._progress(event.data)
        elif event.kind == "artifact":
            where = event.data.get("path") or event.data.get("name") or ""
            warn(("made", "green"), f": {escape_line(str(where))}")
        elif event.kind == "cut":
            warn(("warning", "yellow"), f": {escape_line(str(event.data.get('reason') or 'some output was not kept'))}")

    @staticmethod
    def _lines(kind: str, text: str) -> None:
        # A host tells whole lines, without their ends.
        for line in text.removesuffix("\n").split("\n"):
            shown = "\t".join(map(to_printable, line.removesuffix("\r").split("\t")))
            warn((shown, "dim") if kind == "stderr" else shown)

    def _progress(self, data: Mapping[str, Any]) -> None:
        done, total = _to_number(data.get("done")), _to_number(data.get("total"))
        message = escape_line(str(data.get("message") or ""))[:60]
        if not sys.stderr.isatty():
            return
        if self._bar is None:
            self._bar = _create_bar()
        bar, task = self._bar
        bar.update(task, description=message, completed=done or 0, total=total)


def show_result(result: "InvokeResult") -> int:
    """Print what came of an invocation: data on stdout, how it ended on stderr. Gives the exit code."""
    failure = result.outcome.failure
    took = (
        f"{result.skill_id} {result.version}".strip() + f" in {result.latency_ms:,.0f} ms, trace id {result.trace_id}"
    )
    if failure is None:
        say_text(format_json(result.outcome.data or {}))
        cut: tuple[Part, ...] = (("; the answer was cut", "yellow"),) if result.outcome.truncated else ()
        warn(("done", "green"), f": {escape_line(took)}", *cut)
        return 0
    warn(("failed", "bold red"), f": {escape_line(failure.message)}")
    reason = failure.details.get("reason", "")
    warn(f"  {failure.code} {escape_line(str(reason))}".rstrip())
    for name, value in list(failure.details.items())[:_MAX_DETAILS]:
        if name not in {"reason", "retryable"} and value not in (None, "", [], {}):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            warn((f"  {escape_line(name)}: {escape_line(text[:_MAX_DETAIL_LENGTH])}", "dim"))
    warn((escape_line(took), "dim"))
    return 1


def format_json(value: object) -> str:
    """JSON for people: whole characters, and at a terminal nothing that would move the cursor."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return "\n".join(map(to_printable, text.split("\n"))) if sys.stdout.isatty() else text


def _create_bar() -> "tuple[Progress, TaskID]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    # Text without markup: the message is the skill's.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=get_console(sys.stderr), transient=True)
    bar.start()
    return bar, bar.add_task("", total=None)


def _event_text(data: Mapping[str, Any]) -> str:
    text = data.get("text")
    return text if isinstance(text, str) else json.dumps(dict(data), ensure_ascii=False, default=str)


def _is_result(text: str) -> bool:
    if not text.lstrip().startswith("{") or '"success"' not in text:
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _to_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return max(float(value), 0.0)


class InvokeOutputMode(Enum):
    """How an invocation is told: its result alone, live as well, as JSON, or as a line of JSON for each event."""

    RESULT = auto()
    LIVE = auto()
    JSON = auto()
    JSON_LINES = auto()


@dataclass(frozen=True, slots=True)
class InvokeTarget:
    """Where skills are invoked: at a URL, at that of the settings, or `local`, in this process."""

    url: str | None = None
    timeout: float | None = None
    local: bool = False

    def __post_init__(self) -> None:
        if self.timeout is not None and not 0 < self.timeout < 1e7:
            raise InvalidArgument("--timeout", f"{self.timeout:g} is no number of seconds; use something like 30")
        if self.local and self.url:
            raise InvalidArgument("--local", "is without a host; leave out --url")


@dataclass(frozen=True, slots=True)
class InvokeArguments:
    """What is to be invoked, and how."""

    skill_id: str
    input: Mapping[str, Any]
    trace_id: str | None = None
    idempotency_key: str | None = None
    output_mode: InvokeOutputMode = InvokeOutputMode.RESULT


class Invoker(Protocol):
    """What a client of a host and a host in this process have in common."""

    async def invoke(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002
        *,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> "InvokeResult":
        """The result."""
        ...

    def stream(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002
        *,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> "AsyncGenerator[StreamEvent]":
        """The events, the last with the result."""
        ...

    async def skills(self) -> "tuple[HostedSkill, ...]":
        """What there is."""
        ...


def select_output_mode(stream: bool | None, *, as_json: bool) -> InvokeOutputMode:
    """How to tell it, from the options; without `--stream` a terminal is told live, a pipe is not."""
    if as_json:
        return InvokeOutputMode.JSON_LINES if stream else InvokeOutputMode.JSON
    live = sys.stderr.isatty() if stream is None else stream
    return InvokeOutputMode.LIVE if live else InvokeOutputMode.RESULT


def open_invoker(place: InvokeTarget, settings: "Settings") -> AbstractAsyncContextManager[Invoker]:
    """Who invokes there. Raises `MissingExtra` for `local` when what a host needs is not installed."""
    if place.local:
        try:
            from openskills.host.client.local import open_local_host as local_host
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("openskills"):
                raise
            raise MissingExtra("host", "invoking skills without a running host") from None
        return local_host(settings)
    from openskills.host.client.client import Client

    return Client(place.url, timeout=place.timeout, settings=settings)


def run_invocation(wanted: InvokeArguments, place: InvokeTarget, settings: "Settings") -> int:
    """Invoke, print, and give the exit code. What kept it from being invoked is printed for programs, and raised."""
    from openskills.host.http import new_trace as minted
    from openskills.sync import run

    wanted = replace(wanted, trace_id=wanted.trace_id or minted().id)
    try:
        with log_warnings():
            result = run(_invoke_with_timeout(wanted, place, settings))
    except SkillError as error:
        if wanted.output_mode in {InvokeOutputMode.JSON, InvokeOutputMode.JSON_LINES}:
            _print_error(error, wanted)
        raise
    if wanted.output_mode is InvokeOutputMode.JSON:
        say_json(result.to_dict())
    if wanted.output_mode in {InvokeOutputMode.JSON, InvokeOutputMode.JSON_LINES}:
        return 0 if result.success else 1
    return show_result(result)


async def _invoke_with_timeout(wanted: InvokeArguments, place: InvokeTarget, settings: "Settings") -> "InvokeResult":
    import asyncio

    # A client watches over its time itself, and says more about what took so long.
    try:
        async with asyncio.timeout(place.timeout if place.local else None):
            return await _invoke(wanted, place, settings)
    except TimeoutError:
        raise DeadlineExceeded(f"{wanted.skill_id} took longer than {place.timeout:g} seconds, and was ended") from None


async def _invoke(wanted: InvokeArguments, place: InvokeTarget, settings: "Settings") -> "InvokeResult":
    ids = {"trace_id": wanted.trace_id, "idempotency_key": wanted.idempotency_key}
    async with open_invoker(place, settings) as invoker:
        if wanted.output_mode in {InvokeOutputMode.RESULT, InvokeOutputMode.JSON}:
            return await invoker.invoke(wanted.skill_id, wanted.input, **ids)
        with LiveView() as view:
            async with aclosing(invoker.stream(wanted.skill_id, wanted.input, **ids)) as events:
                async for event in events:
                    _print_event(event, wanted.output_mode, view)
                    if event.result is not None:
                        return event.result
    raise HostUnavailable("the stream ended before the result; the skill may have run")


def _print_event(event: "StreamEvent", manner: InvokeOutputMode, view: LiveView) -> None:
    if manner is InvokeOutputMode.JSON_LINES:
        say_text(json.dumps(event.to_dict()))
        # Whoever reads along wants it now.
        sys.stdout.flush()
    else:
        view.show(event)


def _print_error(error: SkillError, wanted: InvokeArguments) -> None:
    from openskills.host.model import failure_outcome as failed
    from openskills.host.model import normalize_outcome as normalised

    result = normalised(
        failed(error), skill_id=wanted.skill_id, trace_id=wanted.trace_id or "", latency_ms=0.0, version=""
    )
    if wanted.output_mode is InvokeOutputMode.JSON:
        say_json(result.to_dict())
    else:
        say_text(json.dumps({"event": "result", "data": result.to_dict()}))


Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="The host's address, instead of OPENSKILL_HTTP_BASE_URL.")
]
Local = Annotated[
    bool, typer.Option("--local", help="Without a host: run the skills of OPENSKILL_CLI_DIR in this process.")
]
TraceId = Annotated[str | None, typer.Option("--trace-id", metavar="ID", help="The trace id to send; else a new one.")]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="S", help="Give up after so many seconds in all.")]


def invoke(
    context: typer.Context,
    skill: Annotated[str, typer.Argument(metavar="ID", help="The id of a skill of the host, such as file_search.")],
    given: Annotated[
        str, typer.Option("--input", metavar="JSON|@FILE|-", help="The input: JSON, a file, or - for what is piped in.")
    ] = "{}",
    url: Url = None,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--no-stream", help="Show what the skill does meanwhile; done at a terminal anyway."),
    ] = None,
    trace_id: TraceId = None,
    timeout: Timeout = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option("--idempotency-key", metavar="KEY", help="Do it once, however often it is sent with this key."),
    ] = None,
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Invoke a skill of a running host, and print its data.

    Output of the skill goes to stderr while it works, its data to stdout. --json prints the whole Normalized Skill
    Result; together with --stream, one line of JSON for each event, the last of them the result.

    Examples:
      openskills invoke echo --input '{"text": "hello"}'
      openskills invoke calculator --input @numbers.json --json
      echo '{"query": "openSkill"}' | openskills invoke file_search --input -

    Exit codes: 0 when the skill succeeded, 1 when it failed or no host answers, 2 for wrong usage.
    """
    place = InvokeTarget(url, timeout, local)
    wanted = InvokeArguments(
        skill, read_input(given), trace_id, idempotency_key, select_output_mode(stream, as_json=as_json)
    )
    raise typer.Exit(run_invocation(wanted, place, get_settings(context)))
