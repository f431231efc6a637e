"""What a library as big as the real ones costs in each way: per request, per task, by layer."""

import token_report_library
from report import Bar, Target
from running_part import Part, Surroundings, plain_table
from token_report_made import NAMES, report_over

from openskills.cli.token_report import LAYERS, report_json
from openskills.runtime.token_report import DisclosureMode, TokenReport

SKILLS = 134
BOUNDS = {DisclosureMode.BODIES: 85, DisclosureMode.EVERYTHING: 90}
"""Percent."""

_ABOUT = """
The tasks of `openskills token-report` over {skills} synthetic skills with the sizes of real ones: a task without a
skill, nine tasks with one skill, from the shortest body to the longest, one question that needs three skills, and
three questions that need one each. Progressive disclosure takes {requests} requests, played with a real session and
real tool calls, without a model. Token counts are {counted}. With full injection no text has to be loaded, so that it
takes fewer requests; the additional requests of disclosure are included. Tool definitions count as a layer; full
injection needs those that run commands and read files, but no list of skills, no guidance and no tools that load
skills. "New" tokens are those that no prompt cache can contain.
"""


async def measure(at: Surroundings) -> Part:
    """One report; nothing here depends on time."""
    skills = at.scratch / "skills"
    count = SKILLS if at.extent.few > 1 else 12
    token_report_library.build(skills, count)
    at.say(f"playing tasks over {count} skills")
    report = await report_over(skills, at.scratch)
    return Part(
        "Progressive disclosure and full injection",
        _ABOUT.format(
            skills=count, requests=report.cost(DisclosureMode.PROGRESSIVE).requests, counted=_counted(report)
        ),
        [_target(report, way) for way in BOUNDS],
        "\n\n".join([_sizes(report), _ways(report), _layers(report), _tasks(report)]),
        [
            Bar(f"{NAMES[way]}", cost.per_request, way is DisclosureMode.PROGRESSIVE, f"{cost.per_request:,.0f}")
            for way, cost in ((way, report.cost(way)) for way in DisclosureMode)
        ],
        raw=report_json(report),
    )


def _counted(report: TokenReport) -> str:
    return f"exact, of {report.counted}" if report.exact else "estimated"


def _target(report: TokenReport, way: DisclosureMode) -> Target:
    promise = f"{report.skills} skills: tokens that disclosure saves compared with {NAMES[way]}"
    return Target(promise, report.savings(way) * 100, BOUNDS[way], unit="%")


def _sizes(report: TokenReport) -> str:
    parts = {"list of skills": report.overview, "all bodies": report.bodies, "all documents": report.docs}
    rows = [[name, f"{tokens:,}", f"{tokens / report.overview:.1f}x"] for name, tokens in parts.items()]
    return plain_table(["", "tokens", "vs. the list"], rows)


def _ways(report: TokenReport) -> str:
    head = ["all tasks", "requests", "tokens", "new", "per request", "vs. disclosure", "saved"]
    base = report.cost(DisclosureMode.PROGRESSIVE)
    rows: list[list[str]] = []
    for way in DisclosureMode:
        cost = report.cost(way)
        numbers = [str(cost.requests), f"{cost.total:,}", f"{cost.new:,}", f"{cost.per_request:,.0f}"]
        saved = "" if way is DisclosureMode.PROGRESSIVE else f"{report.savings(way):.1%}"
        rows.append([NAMES[way], *numbers, f"{cost.total / base.total:.1f}x", saved])
    return plain_table(head, rows)


def _layers(report: TokenReport) -> str:
    rows = [
        [NAMES[way], *(f"{cost.by_layer.get(layer, 0) / cost.requests:,.0f}" for layer in LAYERS)]
        for way, cost in ((way, report.cost(way)) for way in DisclosureMode)
    ]
    return plain_table(["per request, by layer", *LAYERS], rows)


def _tasks(report: TokenReport) -> str:
    rows = [
        [task.name, *(f"{cost.total:,} ({cost.requests})" for cost in (task.cost(way) for way in DisclosureMode))]
        for task in report.tasks
    ]
    return plain_table(["tokens (requests) of a task", *NAMES.values()], rows)
