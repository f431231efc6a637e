"""`openskills invoke`: invoke a skill on a running host or in this process, and print its result."""

import json
import math
import secrets
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

import typer

from openskills.cli.output import CliProgress, Part, escape_line, escape_text, log_warnings, say_json, say_text, warn
from openskills.cli.parameters import HostUrl, Json, Text, argument, get_settings, option
from openskills.errors import DeadlineExceeded, HostUnavailable, InvalidArgument, MissingExtra, SkillError
from openskills.paths import to_printable
from openskills.settings import Settings
from openskills.skillkit.entry import InvalidJson, parse_json
from openskills.sync import run

if TYPE_CHECKING:
    from openskills.host.client.client import Client, StreamEvent
    from openskills.host.client.local import LocalHost
    from openskills.host.model import InvokeResult


OPTION = "--input"
MAX_INPUT_BYTES = 64 * 1024 * 1024
_COMPLETION_TIMEOUT = 2.0
_EXAMPLE = """use an object such as '{"text": "hello"}', @FILE or -"""


def read_input(given: str) -> Mapping[str, Any]:
    """Parse the value of `--input`: JSON, `@FILE`, or `-` for stdin. Raises `InvalidArgument`."""
    where, data = "", None
    if given == "-":
        where, data = "stdin: ", sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    elif given.startswith("@"):
        where = f"{given[1:]}: "
        try:
            with open(given[1:], "rb") as file:
                data = file.read(MAX_INPUT_BYTES + 1)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise InvalidArgument(OPTION, f"cannot read {given[1:]!r}: {why}") from None
    if data is not None and len(data) > MAX_INPUT_BYTES:
        raise InvalidArgument(OPTION, f"{where}larger than {MAX_INPUT_BYTES:,} bytes")
    try:
        value: object = parse_json(given if data is None else data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidArgument(OPTION, f"{where}not valid UTF-8 at byte {error.start:,}") from None
    except InvalidJson as error:
        raise InvalidArgument(OPTION, f"{where}not valid JSON ({error}); {_EXAMPLE}") from None
    if not isinstance(value, dict):
        raise InvalidArgument(OPTION, f"{where}expected a JSON object; {_EXAMPLE}")
    return cast("Mapping[str, Any]", value)


_MAX_DETAILS = 20
_MAX_DETAIL_LENGTH = 2_000


class LiveView:
    """Shows the output of a skill on stderr as it arrives, with a progress bar on a terminal."""

    def __init__(self) -> None:
        self._progress = CliProgress("")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.__exit__()

    def show(self, event: "StreamEvent") -> None:
        """Show one event; events without anything to show are ignored."""
        if event.kind in {"stdout", "stderr"}:
            text = event.data.get("text")
            if not isinstance(text, str):
                text = json.dumps(dict(event.data), ensure_ascii=False, default=str)
            # A skill may write its result to stdout; that is shown at the end.
            if event.kind == "stderr" or not _is_result(text):
                shown = escape_text(text.removesuffix("\r")).removesuffix("\n")
                warn((shown, "dim") if event.kind == "stderr" else shown)
        elif event.kind == "progress":
            done, total = _to_number(event.data.get("done")), _to_number(event.data.get("total"))
            self._progress.show()
            self._progress(str(event.data.get("message") or "")[:60], done or 0, total)
        elif event.kind == "artifact":
            where = event.data.get("path") or event.data.get("name") or ""
            warn(("artifact", "green"), f": {escape_line(str(where))}")
        elif event.kind == "cut":
            warn(("warning", "yellow"), f": {escape_line(str(event.data.get('reason') or 'some output was dropped'))}")


def show_result(result: "InvokeResult") -> int:
    """Print the data of a result to stdout and its status to stderr; return the exit code."""
    failure = result.outcome.failure
    took = (
        f"{result.skill_id} {result.version}".strip() + f" in {result.latency_ms:,.0f} ms, trace id {result.trace_id}"
    )
    if failure is None:
        say_text(format_json(result.outcome.data or {}))
        cut: tuple[Part, ...] = (("; the result was truncated", "yellow"),) if result.outcome.truncated else ()
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
    """Indented JSON without ASCII escapes; unprintable characters are escaped on a terminal."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return "\n".join(map(to_printable, text.split("\n"))) if sys.stdout.isatty() else text


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


@dataclass(frozen=True, slots=True)
class InvokeTarget:
    """Where skills are invoked: at a URL, at that of the settings, or `local`, in this process."""

    url: HostUrl = None
    timeout: Annotated[float | None, option("S", "Total timeout in seconds.")] = None
    local: Annotated[
        bool, typer.Option("--local", help="Run the skills of OPENSKILL_CLI_DIR in this process, without a host.")
    ] = False

    def __post_init__(self) -> None:
        if self.timeout is not None and not 0 < self.timeout < 1e7:
            raise InvalidArgument("--timeout", f"invalid number of seconds: {self.timeout:g}; use a value such as 30")
        if self.local and self.url:
            raise InvalidArgument("--local", "cannot be combined with --url; choose one")


@dataclass(frozen=True, slots=True)
class InvokeArguments:
    """The skill to invoke, its input, and how to show the result: at the end or `live`, as text or JSON."""

    skill_id: str
    input: Mapping[str, Any]
    trace_id: str | None = None
    idempotency_key: str | None = None
    live: bool = False
    as_json: bool = False


def is_live(stream: bool | None, *, as_json: bool) -> bool:
    """Whether to show output as it arrives; without `--stream` only text on a terminal."""
    return not as_json and sys.stderr.isatty() if stream is None else stream


def open_invoker(target: InvokeTarget, settings: Settings) -> "AbstractAsyncContextManager[Client | LocalHost]":
    """A client of the target. Raises `MissingExtra` for `local` when the extra `host` is not installed."""
    if target.local:
        try:
            from openskills.host.client.local import open_local_host
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("openskills"):
                raise
            raise MissingExtra("host", "invoking skills without a running host") from None
        return open_local_host(settings)
    from openskills.host.client.client import Client

    return Client(target.url, timeout=target.timeout, settings=settings)


def run_invocation(call: InvokeArguments, target: InvokeTarget, settings: Settings) -> int:
    """Invoke a skill, print the result, and return the exit code. As JSON, errors are printed and raised."""
    call = replace(call, trace_id=call.trace_id or secrets.token_hex(16))
    try:
        with log_warnings():
            result = run(_invoke_with_timeout(call, target, settings))
    except SkillError as error:
        if call.as_json:
            from openskills.host.model import failure_outcome, normalize_outcome

            outcome, trace_id = failure_outcome(error), call.trace_id or ""
            result = normalize_outcome(outcome, skill_id=call.skill_id, trace_id=trace_id, latency_ms=0.0, version="")
            failed = result.to_dict()
            say_text(json.dumps({"event": "result", "data": failed}), json=not call.live and failed)
        raise
    if not call.as_json:
        return show_result(result)
    if not call.live:
        say_json(result.to_dict())
    return 0 if result.success else 1


async def _invoke_with_timeout(call: InvokeArguments, target: InvokeTarget, settings: Settings) -> "InvokeResult":
    import asyncio

    # A client of a host applies the timeout itself, with a better message.
    try:
        async with asyncio.timeout(target.timeout if target.local else None):
            return await _invoke(call, target, settings)
    except TimeoutError:
        raise DeadlineExceeded(f"{call.skill_id} timed out after {target.timeout:g} s") from None


async def _invoke(call: InvokeArguments, target: InvokeTarget, settings: Settings) -> "InvokeResult":
    ids = {"trace_id": call.trace_id, "idempotency_key": call.idempotency_key}
    async with open_invoker(target, settings) as invoker:
        if not call.live:
            return await invoker.invoke(call.skill_id, call.input, **ids)
        with LiveView() as view:
            async with aclosing(invoker.stream(call.skill_id, call.input, **ids)) as events:
                async for event in events:
                    if call.as_json:
                        say_text(json.dumps(event.to_dict()))
                        sys.stdout.flush()
                    else:
                        view.show(event)
                    if event.result is not None:
                        return event.result
    raise HostUnavailable("the stream ended without a result; the skill may have run")


TraceId = Annotated[Text, option("ID", "The trace id to send; by default a new one.")]


def complete_hosted_skill(context: typer.Context, incomplete: str) -> list[str]:
    """Shell completion for ids of hosted skills: of `--url`, `--local`, or the host of the settings."""
    given = context.params

    async def list_ids() -> list[str]:
        target = InvokeTarget(given.get("url"), _COMPLETION_TIMEOUT, bool(given.get("local")))
        async with open_invoker(target, get_settings(context)) as host:
            return [skill.id for skill in await host.skills()]

    try:
        return [name for name in run(list_ids()) if name.startswith(incomplete)]
    except (SkillError, OSError):
        return []


def invoke(
    settings: Settings,
    skill: Annotated[
        str, argument("ID", "The id of a hosted skill, such as file_search.", autocompletion=complete_hosted_skill)
    ],
    target: InvokeTarget,
    given: Annotated[str, option("JSON|@FILE|-", "The input: JSON, a file, or - for stdin.", names="--input")] = "{}",
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream", help="Show the output of the skill as it arrives; the default on a terminal."
        ),
    ] = None,
    trace_id: TraceId = None,
    idempotency_key: Annotated[Text, option("KEY", "Run once, even if the request is repeated with this key.")] = None,
    as_json: Json = False,
) -> None:
    """Invoke a skill of a running host and print its data.

    Output of the skill goes to stderr, its data to stdout. --json prints the whole Normalized Skill Result; with
    --stream it prints one line of JSON for each event, the last of which is the result.

    Examples:
      openskills invoke echo --input '{"text": "hello"}'
      openskills invoke calculator --input @numbers.json --json
      echo '{"query": "openSkill"}' | openskills invoke file_search --input -
      openskills invoke text-tools.text --input '{"args": ["--help"]}'

    The last one is a script without a manifest. Its schema is derived; GET /skills/ID shows it.

    Exit codes: 0 the skill succeeded, 1 it failed or the host is unavailable, 2 wrong usage.
    """
    live = is_live(stream, as_json=as_json)
    call = InvokeArguments(skill, read_input(given), trace_id, idempotency_key, live, as_json)
    raise typer.Exit(run_invocation(call, target, settings))
