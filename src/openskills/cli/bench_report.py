"""The token report of `openskills bench`, as JSON and as tables."""

from collections.abc import Sequence

from openskills.bench.token_report import TOOLS, Cost, DisclosureMode, TokenReport
from openskills.cli.output import escape_line, pluralize, say, say_text
from openskills.prompt.blocks import PromptLayer

WORDS = {
    DisclosureMode.PROGRESSIVE: "progressive disclosure",
    DisclosureMode.BODIES: "all bodies in the prompt",
    DisclosureMode.EVERYTHING: "all bodies and documents",
}
_TEXT_LAYERS = (PromptLayer.BODY, PromptLayer.DOCS, PromptLayer.OTHER)
LAYERS = (PromptLayer.OVERVIEW.value, PromptLayer.GUIDANCE.value, TOOLS, *(layer.value for layer in _TEXT_LAYERS))


def report_json(report: TokenReport) -> dict[str, object]:
    """The report as JSON, including every request."""
    return {
        "counted": {"by": report.counted, "exact": report.exact},
        "library": {
            "skills": report.skills,
            "unread": list(report.unread),
            "overview": report.overview,
            "bodies": report.bodies,
            "docs": report.docs,
        },
        "ways": {
            way: {**_cost_json(report.cost(way)), "saved": round(report.savings(way), 4)} for way in DisclosureMode
        },
        "tasks": [
            {
                "name": task.name,
                "ways": {
                    way: {**_cost_json(task.cost(way)), "each": [_cost_json(cost) for cost in task.ways[way]]}
                    for way in DisclosureMode
                },
            }
            for task in report.tasks
        ],
    }


def show_report(report: TokenReport, *, requests: bool = False) -> None:
    """Print the tables: all tasks, by layer, by task, and with `requests` by request."""
    how = f"tokens of {report.counted}" if report.exact else "estimated tokens (install the extra `tokens` to count)"
    sizes = f"list {report.overview:,}, bodies {report.bodies:,}, documents {report.docs:,}"
    say(f"{pluralize(report.skills, 'skill')}, in {how}: {sizes}")
    for title, rows in [
        _format_ways(report),
        _format_layers(report),
        _format_tasks(report),
        *([_format_requests(report)] if requests else []),
    ]:
        say("")
        say((title, "bold"))
        say_text(align_columns(rows))


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Align rows in columns: the first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
    )


def _format_ways(report: TokenReport) -> tuple[str, list[list[str]]]:
    rows = [["", "requests", "tokens", "of them new", "per request", "saved by disclosure"]]
    for way in DisclosureMode:
        cost = report.cost(way)
        saved = "" if way is DisclosureMode.PROGRESSIVE else f"{report.savings(way):.1%}"
        numbers = [str(cost.requests), f"{cost.total:,}", f"{cost.new:,}", f"{cost.per_request:,.0f}", saved]
        rows.append([WORDS[way], *numbers])
    return f"{pluralize(len(report.tasks), 'task')} together", rows


def _format_layers(report: TokenReport) -> tuple[str, list[list[str]]]:
    rows = [["", *LAYERS]]
    rows += [[WORDS[way], *_layer_cells(report.cost(way))] for way in DisclosureMode]
    return "By layer", rows


def _format_tasks(report: TokenReport) -> tuple[str, list[list[str]]]:
    rows = [["", "requests", *(f"{way}" for way in DisclosureMode), "saved of bodies", "saved of both"]]
    for task in report.tasks:
        costs = [task.cost(way) for way in DisclosureMode]
        saved = [f"{1 - costs[0].total / cost.total:.1%}" if cost.total else "" for cost in costs[1:]]
        numbers = "/".join(str(cost.requests) for cost in costs)
        rows.append([escape_line(task.name), numbers, *(f"{cost.total:,}" for cost in costs), *saved])
    return "By task", rows


def _format_requests(report: TokenReport) -> tuple[str, list[list[str]]]:
    rows = [["", "way", "request", "tokens", "new", *LAYERS]]
    for task in report.tasks:
        for way in DisclosureMode:
            for number, cost in enumerate(task.ways[way], 1):
                cells = [way, str(number), f"{cost.total:,}", f"{cost.new:,}", *_layer_cells(cost)]
                rows.append([escape_line(task.name), *cells])
    return "By request", rows


def _layer_cells(cost: Cost) -> list[str]:
    return [f"{cost.by_layer.get(layer, 0):,}" for layer in LAYERS]


def _cost_json(cost: Cost) -> dict[str, object]:
    return {
        "requests": cost.requests,
        "tokens": cost.total,
        "new": cost.new,
        "per_request": round(cost.per_request, 1),
        "layers": dict(cost.by_layer),
    }
