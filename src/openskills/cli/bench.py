"""Bench.

`openskills bench`: what skills cost a model, and the benchmarks of a checkout.

A token report as JSON for programs and as tables for people, in a pipe too: they are the answer.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openskills.bench.token_report import TOOLS, Cost, DisclosureMode, TokenReport
from openskills.cli.output import (
    CliProgress,
    Column,
    QuickCommand,
    QuickGroup,
    escape_line,
    pluralize,
    say,
    say_json,
    say_text,
    show_table,
    warn,
)
from openskills.cli.skills import Json, Trust, exit_if_unreachable, get_settings, open_catalog, report_sources
from openskills.errors import InvalidArgument
from openskills.prompt.blocks import PromptLayer

if TYPE_CHECKING:
    from openskills.bench.checkout import Checkout
    from openskills.bench.tasks import BenchTask
    from openskills.bench.token_report import ReportCounter


_SCRIPT = "script"
_MAX_BYTES = 16 * 1024 * 1024
REPORT = "token-report"
_SCRIPT_OPTIONS = ("--quick", "--tiny", "--only", "--write", "--accept")
"""Options that the scripts of a checkout have, and the report has not."""
_ABOUT = "What your skills cost a model, with progressive disclosure and with everything in the prompt"


class BenchGroup(QuickGroup):
    """Whatever is no command of its own is the name of a script, which gets everything that follows."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command for these arguments, and what is left of them for it."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            return _SCRIPT, self.commands[_SCRIPT], args
        return super().resolve_command(ctx, args)


class ReportCommand(QuickCommand):
    """The report, which a script of nearly the same name is taken for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, as every command does. Raises `InvalidArgument` for an option of the script."""
        for word in args:
            option = word.partition("=")[0]
            if option in _SCRIPT_OPTIONS:
                raise InvalidArgument(
                    option,
                    f"{REPORT} measures skills of yours and has no such option; the benchmark of a checkout of the "
                    f"project has it: openskills bench {REPORT.replace('-', '_')} {option}",
                )
        return super().parse_args(ctx, args)


app = typer.Typer(cls=BenchGroup, invoke_without_command=True)


@app.callback(invoke_without_command=True)
def bench(context: typer.Context, as_json: Json = False) -> None:
    """Measure what skills cost a model, and run the benchmarks of a checkout.

    Without a name the benchmarks are listed. All but token-report are scripts of a checkout of this project, found from
    the current directory upwards or beside the package; options after the name are theirs. Their names may be written
    with dashes or underscores, but token-report is the report on skills of yours, and token_report the benchmark of a
    checkout; request-building is another name of context.

    Examples:
      openskills bench
      openskills bench token-report --skills skills/
      openskills bench prompt-cache --quick
      openskills bench token_report --quick
      openskills bench discovery --help

    In a pipe each benchmark is one line: its name and what it measures, with a tab between.
    """
    if context.invoked_subcommand is not None:
        return
    found = {REPORT: _ABOUT}
    checkout = _find_checkout()
    for benchmark in checkout.benchmarks if checkout else ():
        found.setdefault(benchmark.name, benchmark.about)
    if as_json:
        say_json({"benchmarks": [{"name": name, "about": about} for name, about in found.items()]})
        return
    columns = (Column("name", "bold cyan"), Column("measures", wide=True))
    show_table(columns, [(escape_line(name), escape_line(about)) for name, about in found.items()])
    if checkout is None:
        warn("the others are in a checkout of the project; run this there")


@app.command(REPORT, cls=ReportCommand)
def token_report(
    context: typer.Context,
    skills: Annotated[
        list[str] | None,
        typer.Option(
            "--skills",
            metavar="PATH",
            help="Whose cost is meant: a directory or any other source; may be given again.",
            show_default="the standard places and SKILLS_ROOT",
        ),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option("--tasks", metavar="FILE", help="Tasks as JSON.", show_default="some for the skills there are"),
    ] = None,
    encoding: Annotated[
        str, typer.Option("--encoding", metavar="NAME", help="The tokenizer, if the extra tokens is installed.")
    ] = "o200k_base",
    estimated: Annotated[bool, typer.Option("--estimate", help="Estimate, even where counting is possible.")] = False,
    requests: Annotated[bool, typer.Option("--requests", help="Show every request of every task.")] = False,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Say what skills cost a model: progressive disclosure against everything in the prompt.

    The same scripted tasks are played three times: skills are loaded when they are needed; all bodies are in the system
    message; all bodies and documents are. No model is asked. Tokens are exact with the extra tokens, else estimated.
    The benchmark of a checkout, over a synthetic library, with --quick and --write, is: openskills bench token_report.

    Examples:
      openskills bench token-report --skills skills/
      openskills bench token-report --skills skills/ --tasks tasks.json --requests
      openskills bench token-report --json
    """
    from openskills.bench.tasks import default_tasks as usual_tasks
    from openskills.bench.tasks import read_library
    from openskills.bench.token_report import token_report as made
    from openskills.sync import run

    settings = get_settings(context)
    counting = _select_counter(encoding, estimated)
    catalog = open_catalog(skills or (), settings, trusted=trust, asking=not as_json)
    report_sources(catalog.snapshot)
    exit_if_unreachable(catalog.snapshot)
    if not catalog.skills:
        raise InvalidArgument("--skills", "there is no skill that a model may see; `openskills list` says why")
    with CliProgress("reading skills") as progress:
        library = read_library(catalog.skills)
        script = _read_tasks(tasks) if tasks else usual_tasks(library.skills)
        report = run(made(catalog, library, script, counting, settings, progress))
    if as_json:
        say_json(report_json(report))
    else:
        show_report(report, requests=requests)
    for name in report.unread:
        warn(f"{escape_line(name)} could not be read and is not counted")


@app.command(
    _SCRIPT,
    cls=QuickCommand,
    hidden=True,
    # Whatever follows the name is for the script, --help too.
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
def script(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    options: Annotated[list[str] | None, typer.Argument(metavar="OPTION")] = None,
) -> None:
    """Run a script of a checkout."""
    from openskills.bench.checkout import build_command as command_of
    from openskills.subprocesses import exec_program as become

    checkout = _find_checkout()
    if checkout is None:
        raise InvalidArgument(
            "name",
            f"{name!r} is a script of a checkout of the project, and neither the current directory nor this package is "
            f"in one; get it, or use {REPORT}, which needs none",
        )
    command = command_of(checkout.find(name), options or [])
    sys.stdout.flush()
    sys.stderr.flush()
    become(command)


def _find_checkout() -> "Checkout | None":
    from openskills.bench.checkout import find_checkout

    return find_checkout(Path.cwd())


def _select_counter(encoding: str, estimated: bool) -> "ReportCounter":
    from openskills.bench.token_report import best_counter as best_counting
    from openskills.bench.token_report import estimate_counter as estimating

    return estimating() if estimated else best_counting(encoding)


def _read_tasks(path: str) -> "tuple[BenchTask, ...]":
    from openskills.bench.tasks import parse_tasks

    try:
        with open(path, "rb") as file:
            text = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidArgument("--tasks", f"{path} cannot be read: {error.strerror or error}") from None
    if len(text) > _MAX_BYTES:
        raise InvalidArgument("--tasks", f"{path} has more than {_MAX_BYTES:,} bytes")
    return parse_tasks(text)


WORDS = {
    DisclosureMode.PROGRESSIVE: "progressive disclosure",
    DisclosureMode.BODIES: "all bodies in the prompt",
    DisclosureMode.EVERYTHING: "all bodies and documents in it",
}
LAYERS = (
    PromptLayer.OVERVIEW.value,
    PromptLayer.GUIDANCE.value,
    TOOLS,
    PromptLayer.BODY.value,
    PromptLayer.DOCS.value,
    PromptLayer.OTHER.value,
)


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
    """The tables: all tasks together, by layer, by task, and with `requests` by request."""
    for line in _format_head(report):
        say(line)
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
    """Rows in columns: the first to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
    )


def _format_head(report: TokenReport) -> list[str]:
    how = f"tokens of {report.counted}" if report.exact else "estimated tokens (the extra tokens counts exactly)"
    sizes = f"list {report.overview:,}, bodies {report.bodies:,}, documents {report.docs:,}"
    return [f"{pluralize(report.skills, 'skill')}, in {how}: {sizes}"]


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
