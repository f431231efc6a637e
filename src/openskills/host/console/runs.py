"""The screen Runs: history with filters and charts, one run with its log, phases and files, and two runs compared."""

import asyncio
import csv
import hashlib
import io
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from urllib.parse import parse_qs, quote, urlencode

from markupsafe import Markup

from openskills.errors import InvalidArgument
from openskills.executors.escape_codes import strip_escapes
from openskills.executors.files.mime import SNIFF_BYTES, detect_mime_type, is_text
from openskills.host.auth import Principal
from openskills.host.commands import COMMAND_KIND
from openskills.host.console.pages import (
    MAX_CHARACTERS,
    SECURITY_HEADERS,
    PageRequest,
    build_page,
    format_duration,
    format_size,
    render_markdown,
)
from openskills.host.console.skill import format_json
from openskills.host.history import UNFINISHED, RunFilter, RunRecord, RunStatistics
from openskills.host.http import Headers, HttpResponse, SseEvent, build_file_headers
from openskills.host.model import PHASES
from openskills.host.routes import find_owner, read_run_filter, run_again, send_workspace_file, stream_events
from openskills.host.runs import RunDetails, RunState, format_log

PAGE_SIZE = 50
RANGES = {"1h": 3600.0, "24h": 86400.0, "7d": 7 * 86400.0, "30d": 30 * 86400.0}
"""The periods of the charts, by their names in the address."""
_BUCKETS = 48
_POLL_SECONDS, _PAUSE_SECONDS = 1.0, 0.2
"""How often the list is read: calls of other workers, and those that are not runs, are not announced."""
_REFRESH_RUNNING, _REFRESH_IDLE = 3.0, 15.0
_LOG_EVENTS = 5_000
_LOG_CHARACTERS = 100_000
_PREVIEW_BYTES = 512 * 1024
_MAX_ROWS, _MAX_COLUMNS = 200, 50
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"})
_FRAMED = frozenset({"text/html", "image/svg+xml"})
_STATES = {"succeeded": "good", "failed": "bad", "cancelled": "warn", "interrupted": "warn", "running": "live"}
_FRAME_POLICY = "default-src 'none'; img-src data:; sandbox; frame-ancestors 'self'"


async def show_runs(request: PageRequest) -> HttpResponse:
    """The history, newest first, with charts of the same runs."""
    wanted, found = await _load_records(request)
    return request.render("runs.html", await _build_list(request, wanted, found), block="results")


async def stream_runs(request: PageRequest) -> None:
    """The list as HTML whenever it changes, after `Last-Event-ID` or `?after=`.

    The id of an event stands for what the list contains, so that a browser that comes back gets the list as it is now,
    and nothing if it has not changed.
    """
    # Before the stream starts: afterwards an error could not be sent.
    await _load_records(request)
    after = request.exchange.header(b"last-event-id") or request.query.get("after", "")
    await stream_events(request.exchange, request.host, _follow_list(request, after))


async def _follow_list(request: PageRequest, last: str) -> AsyncGenerator[SseEvent]:
    sent = time.monotonic()
    while request.principal is not None and request.host.authenticator.is_valid(request.principal):
        wanted, found = await _load_records(request)
        mark, now = _compute_mark(found), time.monotonic()
        # Times and durations that the page shows change without events.
        is_running = any(one.state in ("queued", "running") for one in found)
        if mark != last or now - sent >= (_REFRESH_RUNNING if is_running else _REFRESH_IDLE):
            html = request.render_text("runs_results.html", await _build_list(request, wanted, found))
            yield SseEvent("", html.encode("utf-8", "replace"), mark)
            last, sent = mark, now
        await request.host.runs.wait_for_change(_POLL_SECONDS)
        # A command that prints much changes very often.
        await asyncio.sleep(_PAUSE_SECONDS)


def _compute_mark(found: Sequence[RunRecord]) -> str:
    shown = [(one.id, one.state, one.message) for one in found]
    return hashlib.sha256(repr(shown).encode("utf-8", "replace")).hexdigest()[:16]


async def _load_records(request: PageRequest) -> tuple[RunFilter, Sequence[RunRecord]]:
    """The filter of a request, and the runs of the page and one more. Raises `InvalidArgument`."""
    wanted = read_run_filter(request.query, find_owner(request.caller))
    period = request.query.get("range", "24h")
    if period not in RANGES:
        raise InvalidArgument("range", f"{period[:50]!r} is not one of {', '.join(RANGES)}")
    await request.host.history.recover()
    return wanted, await request.host.runs.list(wanted, limit=PAGE_SIZE + 1)


async def _build_list(request: PageRequest, wanted: RunFilter, found: Sequence[RunRecord]) -> dict[str, Any]:
    """What the template of the list needs."""
    parts = request.host
    period = request.query.get("range", "24h")
    now = time.time()
    series = await parts.runs.series(wanted, since=now - RANGES[period], until=now, buckets=_BUCKETS)
    names = ("skill", "state", "who", "text", "since", "range")
    given = {name: request.query[name] for name in names if request.query.get(name)}
    more = found[PAGE_SIZE - 1].id if len(found) > PAGE_SIZE else ""
    live = urlencode({**given, "after": _compute_mark(found)})
    return {
        "records": found[:PAGE_SIZE],
        "given": {**dict.fromkeys(names, ""), **given},
        "is_filtered": bool(given.keys() - {"range"}),
        "more": f"/console/runs?{urlencode({**given, 'before': more})}" if more else "",
        "before": wanted.before,
        "live": "" if wanted.before else f"/console/runs/live?{live}",
        "states": (*RunState, UNFINISHED),
        "tags": _STATES,
        "period": period,
        "ranges": [(name, f"/console/runs?{urlencode({**given, 'range': name})}") for name in RANGES],
        "series": series,
        "totals": _add_up(series),
        "calls": draw_calls(series, request.translate("Calls and errors")),
        "latency": draw_latency(series, request.translate("95th percentile")),
        "skills": sorted({entry.id for entry in parts.registry.list_entries() if request.caller.can_see(entry.id)}),
    }


def _add_up(series: Sequence[Any]) -> dict[str, Any]:
    calls, errors = sum(one.calls for one in series), sum(one.errors for one in series)
    # Percentiles cannot be added: the median of all intervals, weighted by their calls, is close enough for a tile.
    busy = sorted((one.p50_ms, one.calls) for one in series if one.p50_ms is not None)
    seen, middle = 0, None
    for value, count in busy:
        seen += count
        if middle is None and 2 * seen >= calls:
            middle = value
    highest = max((one.p95_ms for one in series if one.p95_ms is not None), default=None)
    return {"calls": calls, "errors": errors, "p50_ms": middle, "p95_ms": highest}


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as its page shows it."""

    details: RunDetails
    document: Mapping[str, Any]
    result: Mapping[str, Any] | None
    request: Mapping[str, Any] | None

    @property
    def is_command(self) -> bool:
        return self.document["kind"] == COMMAND_KIND

    @property
    def data(self) -> Mapping[str, Any]:
        """The data of the result; of a failed command those in its error."""
        result = self.result or {}
        if result.get("error") is not None and self.is_command:
            return result["error"].get("details") or {}
        return result.get("data") or {}

    @property
    def is_unfinished(self) -> bool:
        return self.document["state"] in ("queued", "running")

    @property
    def began(self) -> float:
        return datetime.fromisoformat(self.document["created"]).timestamp()


async def load_run(request: PageRequest, run_id: str) -> RunView:
    """A run that the caller may see. Raises `UnknownRun`."""
    await request.host.history.recover()
    found = await request.host.runs.describe(run_id, principal=find_owner(request.caller))
    run = found.run
    missing = dict.fromkeys(("latency_ms", "memory_bytes", "isolation", "message", "phases"))
    document = {**missing, **found.to_dict(), "result": None, "request": None}
    result = json.loads(run.result) if run is not None and run.result is not None else None
    if result is None and found.record is not None and found.record.output is not None:
        result = parse_object(found.record.output)
    return RunView(found, document, result, found.read_request())


def parse_object(text: str | bytes) -> dict[str, Any] | None:
    """A JSON object; None for anything else, such as a body that was cut."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


async def show_run(request: PageRequest) -> HttpResponse:
    """One run; its log goes on where scripts are allowed."""
    view = await load_run(request, request.params["run_id"])
    log, cut = "", False
    if view.details.run is not None:
        log = format_log(await request.host.runs.read_events(view.details.id, limit=_LOG_EVENTS))
        log, cut = strip_escapes(log[-_LOG_CHARACTERS:].encode("utf-8", "replace")), len(log) > _LOG_CHARACTERS
    asked, phases = view.request or {}, view.document.get("phases")
    labels = {name: request.translate(name) for name in phases or ()}
    can_write = request.caller.has_role("run") and _is_owner(view, request.caller)
    context = {
        "run": view,
        "document": view.document,
        "tags": _STATES,
        "log": log,
        "is_cut": cut,
        "command": format_command(asked.get("command")),
        "has_terminal": asked.get("tty") is True,
        "takes_input": view.is_unfinished and can_write and (asked.get("interactive") or asked.get("tty")),
        "can_cancel": view.is_unfinished and request.caller.has_role("run") and view.details.run is not None,
        "can_repeat": view.request is not None and request.caller.has_role("run"),
        "variables": list(asked.get("env") or ()) if view.is_command else [],
        "waterfall": draw_waterfall(phases, labels, request.translate("Where the time goes")) if phases else None,
        "files": _list_files(view) if _is_owner(view, request.caller) else [],
        "input": format_json(asked.get("input")) if not view.is_command else "",
        "output": format_json((view.result or {}).get("data")) if not view.is_command else "",
        "error": (view.result or {}).get("error")
        or ({"message": view.document.get("message")} if view.document.get("message") else None),
        "prefill": _find_form(view),
    }
    return request.render("run.html", context)


def _is_owner(view: RunView, principal: Principal) -> bool:
    return view.document["who"] == principal.name


def format_command(command: object) -> str:
    """A command line, or a list of words, as text."""
    return " ".join(map(str, cast("list[object]", command))) if isinstance(command, list) else str(command or "")


def _find_form(view: RunView) -> str:
    """Where the same run can be started with changes."""
    skill = quote(str(view.document["skill_id"]), safe="")
    place = "skill" if view.is_command else "hosted"
    return f"/console/try/{place}/{skill}?{urlencode({'run': view.details.id})}"


def _list_files(view: RunView) -> list[dict[str, Any]]:
    listed = cast("list[dict[str, Any]] | None", view.data.get("output_files") if view.is_command else None)
    return [one for one in listed or [] if isinstance(one.get("name"), str)]


async def show_log(request: PageRequest) -> HttpResponse:
    """The whole log as plain text, for reading and saving."""
    view = await load_run(request, request.params["run_id"])
    events = await request.host.runs.read_events(view.details.id, limit=100_000)
    log = strip_escapes(format_log(events).encode("utf-8", "replace"))
    return build_page(request.exchange, log, kind="text/plain; charset=utf-8")


async def compare_runs(request: PageRequest) -> HttpResponse:
    """Two runs side by side: the parameter `run` twice."""
    query = parse_qs(request.exchange.scope["query_string"].decode("latin-1"))
    # Ids begin with the time: the older run comes first.
    chosen = sorted(query.get("run", []))
    if len(chosen) != 2:
        raise InvalidArgument("run", request.translate("choose exactly two runs to compare"))
    await request.host.history.recover()
    compared = await request.host.runs.compare(*chosen, principal=find_owner(request.caller))
    views = [await load_run(request, one) for one in chosen]
    rows = [
        {
            "field": _COMPARED[one["field"]],
            "a": _describe(one["field"], one["a"]),
            "b": _describe(one["field"], one["b"]),
        }
        for one in compared["differences"]
        if one["field"] in _COMPARED
    ]
    context = {
        "views": views,
        "rows": rows,
        "phases": _compare_phases(views),
        "requests": [format_json(view.request) for view in views],
        "results": [format_json((view.result or {}).get("data") or (view.result or {}).get("error")) for view in views],
        "log": [strip_escapes(line.encode("utf-8", "replace")) for line in compared["log"]],
        "tags": _STATES,
    }
    return request.render("compare.html", context)


_COMPARED = {
    "skill_id": "Skill",
    "version": "Version",
    "kind": "Kind",
    "who": "Key",
    "code": "Status code",
    "message": "Error",
    "latency_ms": "Time",
    "isolation": "Isolation",
    "memory_bytes": "Memory",
    "bytes_in": "Size of the input",
    "bytes_out": "Size of the output",
}
"""The fields of a comparison that are shown as rows, with their names."""


def _describe(field: str, value: Any) -> str:
    if value is None or value == "":
        return "–"
    if field == "latency_ms":
        return format_duration(value / 1000)
    return format_size(value) if field in ("memory_bytes", "bytes_in", "bytes_out") else str(value)


def _compare_phases(views: Sequence[RunView]) -> list[tuple[str, float | None, float | None]]:
    first, second = (cast("dict[str, float]", view.document.get("phases") or {}) for view in views)
    return [(name, first.get(name), second.get(name)) for name in dict.fromkeys([*first, *second])]


async def cancel_run(request: PageRequest) -> HttpResponse:
    run_id = request.params["run_id"]
    await request.host.runs.cancel(run_id, principal=find_owner(request.caller))
    return request.redirect(f"/console/runs/{run_id}")


async def repeat_run(request: PageRequest) -> HttpResponse:
    run = await run_again(request.host, request.caller, request.params["run_id"], request.exchange.trace)
    return request.redirect(f"/console/runs/{run.id}")


@dataclass(frozen=True, slots=True)
class FilePreview:
    """A file of a workspace as its page shows it. `kind` is `image`, `table`, `markdown`, `text`, `frame` or empty."""

    path: str
    size: int
    mime_type: str
    kind: str
    text: str = ""
    markdown: Markup | None = None
    rows: tuple[tuple[str, ...], ...] = ()
    is_cut: bool = False


def _build_file_headers(path: str, kind: str, wanted: str) -> Headers:
    """The headers of a file as an image, in a frame, or, if it is neither, as a download."""
    shown = {"content-type": kind, **SECURITY_HEADERS}
    if wanted == "frame" and kind in _FRAMED:
        # An origin of its own, without scripts, forms and requests.
        shown |= {"content-type": f"{kind}; charset=utf-8", "content-security-policy": _FRAME_POLICY}
        shown["x-frame-options"] = "SAMEORIGIN"
    elif wanted != "image" or kind not in _IMAGES:
        return build_file_headers(path, kind)
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in shown.items()]


async def show_file(request: PageRequest) -> HttpResponse | None:
    """A file of a workspace: a preview, or with `as=` the bytes for an image, a frame, or a download."""
    place = (request.caller, request.params["workspace"], request.params["path"])
    commands, wanted = request.host.commands, request.query.get("as", "")
    if wanted:
        async with commands.open_file(*place) as reading:
            path = reading.info.path
            await send_workspace_file(request.exchange, reading, lambda kind: _build_file_headers(path, kind, wanted))
        return None
    info, data = await commands.read_file(*place, limit=_PREVIEW_BYTES)
    path, size = info.path, info.size
    kind = detect_mime_type(path, data[:SNIFF_BYTES])
    preview = await asyncio.to_thread(_build_preview, path, size, kind, data)
    base = f"/console/workspaces/{quote(request.params['workspace'], safe='')}/files/{quote(path)}"
    context = {
        "preview": preview,
        "base": base,
        "workspace": request.params["workspace"],
        "is_framed": request.query.get("frame") == "yes" and kind in _FRAMED,
        "back": request.query.get("run", ""),
    }
    return request.render("file.html", context)


def _build_preview(path: str, size: int, mime_type: str, data: bytes) -> FilePreview:
    is_cut = size > len(data)
    if mime_type in _IMAGES:
        return FilePreview(path, size, mime_type, "image")
    if not is_text(data, cut=is_cut):
        return FilePreview(path, size, mime_type, "")
    text = data.decode("utf-8", "replace")
    if mime_type in ("text/csv", "text/tab-separated-values"):
        rows, left = _read_table(text, "\t" if mime_type.startswith("text/tab") else ",")
        return FilePreview(path, size, mime_type, "table", rows=rows, is_cut=is_cut or left)
    if mime_type == "text/markdown":
        is_cut = is_cut or len(text) > MAX_CHARACTERS
        return FilePreview(path, size, mime_type, "markdown", text, render_markdown(text), is_cut=is_cut)
    return FilePreview(path, size, mime_type, "frame" if mime_type in _FRAMED else "text", text, is_cut=is_cut)


def _read_table(text: str, separator: str) -> tuple[tuple[tuple[str, ...], ...], bool]:
    """The first rows and columns, and whether there are more."""
    found, more = list[tuple[str, ...]](), False
    try:
        for row in csv.reader(io.StringIO(text), delimiter=separator):
            if len(found) >= _MAX_ROWS:
                return tuple(found), True
            more = more or len(row) > _MAX_COLUMNS
            found.append(tuple(row[:_MAX_COLUMNS]))
    except csv.Error:
        return tuple((line,) for line in text.splitlines()[:_MAX_ROWS]), True
    return tuple(found), more


PAGES = (
    ("GET", "/console/runs", show_runs),
    ("GET", "/console/runs/compare", compare_runs),
    ("GET", "/console/runs/live", stream_runs),
    ("GET", "/console/runs/{run_id}", show_run),
    ("GET", "/console/runs/{run_id}/log", show_log),
    ("POST", "/console/runs/{run_id}/cancel", cancel_run, "run"),
    ("POST", "/console/runs/{run_id}/again", repeat_run, "run"),
    ("GET", "/console/workspaces/{workspace}/files/{path:path}", show_file),
)


_WIDTH, _ROW, _LABEL, _VALUE = 640.0, 26, 84.0, 84.0
_SPAN, _HEIGHT, _LEFT, _BOTTOM, _TOP = 480.0, 132.0, 60.0, 20.0, 8.0
_TICKS = (2, 4, 10)


def _draw_element(kind: str, *content: str, **attributes: object) -> Markup:
    """An element of SVG; everything but `Markup` is escaped. Names of attributes have `_` for `-`."""
    given = [
        Markup(' {}="{}"').format(name.strip("_").replace("_", "-"), f"{value:.1f}" if type(value) is float else value)
        for name, value in attributes.items()
    ]
    return Markup("<{0}{1}>{2}</{0}>").format(kind, Markup("").join(given), Markup("").join(content))


def draw_waterfall(phases: Mapping[str, float], labels: Mapping[str, str], title: str) -> Markup:
    """A row for each phase, with its milliseconds; `labels` are the names of the phases in the language of the page."""
    known = [(name, labels.get(name, name), phases[name]) for name in PHASES if name in phases]
    scale = (_WIDTH - _LABEL - _VALUE) / (sum(spent for *_, spent in known) or 1.0)
    left, rows = _LABEL, list[Markup]()
    for place, (name, label, spent) in enumerate(known):
        width, top = max(spent * scale, 2.0), place * _ROW
        rows += [
            _draw_element("text", label, x=0, y=top + 16),
            _draw_element("rect", class_=f"phase {name}", x=left, y=top + 5, width=width, height=14, rx=3),
            _draw_element("text", format_duration(spent / 1000), class_="value", x=left + width + 8, y=top + 16),
        ]
        left += spent * scale
    text = ", ".join(f"{label} {format_duration(spent / 1000)}" for _, label, spent in known)
    return _draw_picture("waterfall", int(_WIDTH), len(known) * _ROW + 4, f"{title}: {text}", rows)


def _draw_picture(kind: str, width: int, height: int, label: str, content: Sequence[Markup]) -> Markup:
    return _draw_element("svg", *content, class_=kind, viewBox=f"0 0 {width} {height}", role="img", aria_label=label)


def draw_calls(series: Sequence[RunStatistics], title: str) -> Markup:
    """Bars of calls over time, with the failed ones in another colour."""
    top = _round_up(max((one.calls for one in series), default=0))
    step = (_SPAN - _LEFT) / max(len(series), 1)
    bars = [
        _draw_element(
            "g",
            _draw_element("title", f"{_format_time(one.began)}: {one.calls} / {one.errors}"),
            _draw_bar("calls", place, step, one.calls - one.errors, top, below=one.errors),
            _draw_bar("errors", place, step, one.errors, top),
        )
        for place, one in enumerate(series)
        if one.calls
    ]
    calls, errors = sum(one.calls for one in series), sum(one.errors for one in series)
    return _draw_chart(series, f"{title}: {calls:,} / {errors:,}", [f"{top:g}", f"{top / 2:g}"], bars)


def draw_latency(series: Sequence[RunStatistics], title: str) -> Markup:
    """Lines of the median and the 95th percentile over time; intervals without calls are left out."""
    highest = max((one.p95_ms or 0.0 for one in series), default=0.0)
    top = _round_up(highest)
    lines = [
        _draw_element("path", class_=kind, d=_draw_line([getattr(one, f"{kind}_ms") for one in series], top))
        for kind in ("p95", "p50")
    ]
    labels = [format_duration(top / 1000), format_duration(top / 2000)]
    return _draw_chart(series, f"{title}: {format_duration(highest / 1000)}", labels, lines)


def _draw_bar(kind: str, place: int, step: float, value: float, top: float, *, below: float = 0.0) -> Markup:
    """A bar; `below` is what is stacked under it."""
    height = _HEIGHT - _TOP - _BOTTOM
    size = height * value / top
    y = _TOP + height * (1 - below / top) - size
    x, width = _LEFT + place * step + 0.5, max(step - 1.5, 1.0)
    return _draw_element("rect", class_=kind, x=x, y=y, width=width, height=size)


def _draw_line(values: Sequence[float | None], top: float) -> str:
    step, height = (_SPAN - _LEFT) / max(len(values), 1), _HEIGHT - _TOP - _BOTTOM
    drawn, is_open = list[str](), False
    for place, value in enumerate(values):
        if value is None:
            is_open = False
            continue
        x, y = _LEFT + (place + 0.5) * step, _TOP + height * (1 - value / top)
        # A point without neighbours is a short line, so that it can be seen.
        drawn.append(f"L{x:.1f} {y:.1f}" if is_open else f"M{x - 3:.1f} {y:.1f}L{x + 3:.1f} {y:.1f}")
        is_open = True
    return "".join(drawn)


def _draw_chart(
    series: Sequence[RunStatistics], label: str, levels: Sequence[str], content: Sequence[Markup]
) -> Markup:
    base = _HEIGHT - _BOTTOM
    grid: list[Markup] = []
    for y, level in zip((_TOP, (_TOP + base) / 2), levels, strict=True):
        grid.append(_draw_element("line", class_="grid", x1=_LEFT, x2=_SPAN, y1=y, y2=y))
        grid.append(_draw_element("text", level, class_="axis", x=_LEFT - 6, y=y + 4))
    axis = _draw_element("line", class_="base", x1=_LEFT, x2=_SPAN, y1=base, y2=base)
    middle = len(series) // 2
    step = (_SPAN - _LEFT) / max(len(series), 1)
    marks = [(0, "start", _LEFT), (middle, "middle", _LEFT + (middle + 0.5) * step), (len(series) - 1, "end", _SPAN)]
    times = [
        _draw_element("text", _format_time(series[place].began), class_=f"time {anchor}", x=x, y=_HEIGHT - 5)
        for place, anchor, x in (marks if len(series) > 2 else ())
    ]
    return _draw_picture("chart", int(_SPAN), int(_HEIGHT), label, [*grid, *content, axis, *times])


def _round_up(value: float) -> float:
    """The next of 2, 4, 10, 20, 40, 100, … that is not smaller."""
    power = 1.0
    while power * 10 < value:
        power *= 10
    return next((power * tick for tick in _TICKS if power * tick >= value), power * 20)


def _format_time(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%m-%d %H:%M")
