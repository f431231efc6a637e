"""A token report as JSON for programs and as tables for people, in a pipe too: they are the answer."""

from collections.abc import Sequence

from openskills.bench.cost import TOOLS, Cost
from openskills.bench.token_report import TokenReport, Way
from openskills.cli.output import counted, plain, say, say_text
from openskills.prompt.shown import Layer

WORDS = {
    Way.PROGRESSIVE: "progressive disclosure",
    Way.BODIES: "all bodies in the prompt",
    Way.EVERYTHING: "all bodies and documents in it",
}
LAYERS = (Layer.OVERVIEW.value, Layer.GUIDANCE.value, TOOLS, Layer.BODY.value, Layer.DOCS.value, Layer.OTHER.value)


def report_json(report: TokenReport) -> dict[str, object]:
    """Everything, down to single requests."""
    return {
        "counted": {"by": report.counted, "exact": report.exact},
        "library": {
            "skills": report.skills,
            "unread": list(report.unread),
            "overview": report.overview,
            "bodies": report.bodies,
            "docs": report.docs,
        },
        "ways": {way: {**_cost_json(report.cost(way)), "saved": round(report.saved(way), 4)} for way in Way},
        "tasks": [
            {
                "name": task.name,
                "ways": {
                    way: {**_cost_json(task.cost(way)), "each": [_cost_json(cost) for cost in task.ways[way]]}
                    for way in Way
                },
            }
            for task in report.tasks
        ],
    }


def show_report(report: TokenReport, *, requests: bool = False) -> None:
    """The tables: all tasks together, by layer, by task, and with `requests` by request."""
    for line in _head(report):
        say(line)
    for title, rows in [_ways(report), _layers(report), _tasks(report), *([_requests(report)] if requests else [])]:
        say("")
        say((title, "bold"))
        say_text(aligned(rows))


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns: the first to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
    )


def _head(report: TokenReport) -> list[str]:
    how = f"tokens of {report.counted}" if report.exact else "estimated tokens (the extra tokens counts exactly)"
    sizes = f"list {report.overview:,}, bodies {report.bodies:,}, documents {report.docs:,}"
    return [f"{counted(report.skills, 'skill')}, in {how}: {sizes}"]


def _ways(report: TokenReport) -> tuple[str, list[list[str]]]:
    rows = [["", "requests", "tokens", "of them new", "per request", "saved by disclosure"]]
    for way in Way:
        cost = report.cost(way)
        saved = "" if way is Way.PROGRESSIVE else f"{report.saved(way):.1%}"
        numbers = [str(cost.requests), f"{cost.total:,}", f"{cost.new:,}", f"{cost.per_request:,.0f}", saved]
        rows.append([WORDS[way], *numbers])
    return f"{counted(len(report.tasks), 'task')} together", rows


def _layers(report: TokenReport) -> tuple[str, list[list[str]]]:
    rows = [["", *LAYERS]]
    rows += [[WORDS[way], *_layer_cells(report.cost(way))] for way in Way]
    return "By layer", rows


def _tasks(report: TokenReport) -> tuple[str, list[list[str]]]:
    rows = [["", "requests", *(f"{way}" for way in Way), "saved of bodies", "saved of both"]]
    for task in report.tasks:
        costs = [task.cost(way) for way in Way]
        saved = [f"{1 - costs[0].total / cost.total:.1%}" if cost.total else "" for cost in costs[1:]]
        numbers = "/".join(str(cost.requests) for cost in costs)
        rows.append([plain(task.name), numbers, *(f"{cost.total:,}" for cost in costs), *saved])
    return "By task", rows


def _requests(report: TokenReport) -> tuple[str, list[list[str]]]:
    rows = [["", "way", "request", "tokens", "new", *LAYERS]]
    for task in report.tasks:
        for way in Way:
            for number, cost in enumerate(task.ways[way], 1):
                cells = [way, str(number), f"{cost.total:,}", f"{cost.new:,}", *_layer_cells(cost)]
                rows.append([plain(task.name), *cells])
    return "By request", rows


def _layer_cells(cost: Cost) -> list[str]:
    # What stands in the extra message is text of skills as well; in a script history never loses anything.
    return [f"{cost.by_layer.get(layer, 0):,}" for layer in LAYERS]


def _cost_json(cost: Cost) -> dict[str, object]:
    return {
        "requests": cost.requests,
        "tokens": cost.total,
        "new": cost.new,
        "per_request": round(cost.per_request, 1),
        "layers": dict(cost.by_layer),
    }
