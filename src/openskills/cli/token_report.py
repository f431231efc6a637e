"""`openskills token-report`: what skills cost a model, as tables or JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import CliProgress, escape_line, pluralize, say, say_json, say_text, warn
from openskills.cli.parameters import Json, SourceOptions, Text, option
from openskills.cli.skills import exit_if_unreachable, open_sources, report_sources
from openskills.errors import InvalidArgument
from openskills.settings import Settings
from openskills.sync import run

if TYPE_CHECKING:
    from openskills.runtime.token_report import Cost, ScriptedTask, TokenReport

_MAX_BYTES = 16 * 1024 * 1024
MODES = {
    "progressive": "progressive disclosure",
    "bodies": "all bodies in the prompt",
    "bodies and docs": "all bodies and documents in it",
}
"""Descriptions of the values of `DisclosureMode`."""
LAYERS = ("overview", "guidance", "tools", "body", "docs", "other")


def token_report(
    settings: Settings,
    sources: SourceOptions,
    tasks: Annotated[Text, option("FILE", "Tasks as JSON.", show_default="generated for the skills")] = None,
    encoding: Annotated[str, option("NAME", "The tokenizer; needs the extra `tokens`.")] = "o200k_base",
    estimated: Annotated[
        bool, typer.Option("--estimate", help="Estimate tokens even when they can be counted.")
    ] = False,
    requests: Annotated[bool, typer.Option("--requests", help="Show every request of every task.")] = False,
    as_json: Json = False,
) -> None:
    """Compare the tokens of progressive disclosure with a prompt that contains everything.

    The same scripted tasks run three times: with skills loaded on demand, with all bodies in the system message, and
    with all bodies and documents. No model is called. Tokens are exact with the extra `tokens`, otherwise estimated.

    Examples:
      openskills token-report skills/
      openskills token-report skills/ --tasks tasks.json --requests
      openskills token-report --json
    """
    from openskills.runtime import token_report as reports

    catalog = open_sources(settings, sources, asking=not as_json)
    report_sources(catalog.snapshot)
    exit_if_unreachable(catalog.snapshot)
    if not catalog.skills:
        raise InvalidArgument("--skills", "no skill is visible to models; `openskills list` shows why")
    script = _read_tasks(tasks) if tasks else ()
    with CliProgress("reading skills") as progress:
        wanted = None if estimated else encoding
        measured = reports.measure_tokens(catalog, tasks=script, encoding=wanted, settings=settings, progress=progress)
        report = run(measured)
    if as_json:
        say_json(report_json(report))
    else:
        _show_report(report, requests=requests)
    for name in report.unread:
        warn(f"cannot read {escape_line(name)}; it is not counted")


def _read_tasks(path: str) -> "tuple[ScriptedTask, ...]":
    from openskills.runtime.token_report import parse_tasks

    try:
        with open(path, "rb") as file:
            text = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidArgument("--tasks", f"cannot read {path}: {error.strerror or error}") from None
    if len(text) > _MAX_BYTES:
        raise InvalidArgument("--tasks", f"{path} is larger than {_MAX_BYTES:,} bytes")
    return parse_tasks(text)


def report_json(report: "TokenReport") -> dict[str, object]:
    """The report as JSON, including every request."""
    modes = list(report.tasks[0].modes)
    return {
        "counted": {"by": report.counted, "exact": report.exact},
        "library": {
            "skills": report.skills,
            "unread": list(report.unread),
            "overview": report.overview,
            "bodies": report.bodies,
            "docs": report.docs,
        },
        "ways": {mode: {**_cost_json(report.cost(mode)), "saved": round(report.savings(mode), 4)} for mode in modes},
        "tasks": [
            {
                "name": task.name,
                "ways": {
                    mode: {**_cost_json(task.cost(mode)), "each": [_cost_json(cost) for cost in costs]}
                    for mode, costs in task.modes.items()
                },
            }
            for task in report.tasks
        ],
    }


def _cost_json(cost: "Cost") -> dict[str, object]:
    return {
        "requests": cost.requests,
        "tokens": cost.total,
        "new": cost.new,
        "per_request": round(cost.per_request, 1),
        "layers": dict(cost.by_layer),
    }


def _show_report(report: "TokenReport", *, requests: bool) -> None:
    """Print the tables: all tasks, by layer, by task, and with `requests` by request."""
    how = f"tokens of {report.counted}" if report.exact else "estimated tokens (install the extra `tokens` to count)"
    sizes = f"list {report.overview:,}, bodies {report.bodies:,}, documents {report.docs:,}"
    say(f"{pluralize(report.skills, 'skill')}, in {how}: {sizes}")
    modes = list(report.tasks[0].modes)
    totals = [["", "requests", "tokens", "of them new", "per request", "saved by disclosure"]]
    layers = [["", *LAYERS]]
    for mode in modes:
        cost = report.cost(mode)
        saved = "" if mode is modes[0] else f"{report.savings(mode):.1%}"
        numbers = [str(cost.requests), f"{cost.total:,}", f"{cost.new:,}", f"{cost.per_request:,.0f}", saved]
        totals.append([MODES[mode], *numbers])
        layers.append([MODES[mode], *_layer_cells(cost)])
    by_task = [["", "requests", *modes, "saved of bodies", "saved of both"]]
    by_request = [["", "way", "request", "tokens", "new", *LAYERS]]
    for task in report.tasks:
        costs = [task.cost(mode) for mode in modes]
        saved_tokens = [f"{1 - costs[0].total / cost.total:.1%}" if cost.total else "" for cost in costs[1:]]
        numbers = "/".join(str(cost.requests) for cost in costs)
        by_task.append([escape_line(task.name), numbers, *(f"{cost.total:,}" for cost in costs), *saved_tokens])
        for mode in modes:
            for number, cost in enumerate(task.modes[mode], 1):
                cells = [mode, str(number), f"{cost.total:,}", f"{cost.new:,}", *_layer_cells(cost)]
                by_request.append([escape_line(task.name), *cells])
    tables = {f"{pluralize(len(report.tasks), 'task')} together": totals, "By layer": layers, "By task": by_task}
    for title, rows in (tables | ({"By request": by_request} if requests else {})).items():
        say("")
        say((title, "bold"))
        say_text(align_columns(rows))


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Align rows in columns: the first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
    )


def _layer_cells(cost: "Cost") -> list[str]:
    return [f"{cost.by_layer.get(layer, 0):,}" for layer in LAYERS]
