"""`openskills bench`: what skills cost a model, and the benchmarks of a checkout."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openskills.cli.listing import Json, Trust, leave_if_unreachable, report_places
from openskills.cli.output import plain, say_json, warn
from openskills.cli.progress import Waiting
from openskills.cli.quick import QuickCommand, QuickGroup
from openskills.cli.skills import open_catalog, settings_of
from openskills.cli.table import Column, show_table
from openskills.errors import InvalidArgument

if TYPE_CHECKING:
    from openskills.bench.checkout import Checkout
    from openskills.bench.counting import Counting
    from openskills.bench.tasks import Task

_SCRIPT = "script"
_MOST_BYTES = 16 * 1024 * 1024
REPORT = "token-report"
_THEIRS = ("--quick", "--tiny", "--only", "--write", "--accept")
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
            if option in _THEIRS:
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
    checkout = _checkout()
    for benchmark in checkout.benchmarks if checkout else ():
        found.setdefault(benchmark.name, benchmark.about)
    if as_json:
        say_json({"benchmarks": [{"name": name, "about": about} for name, about in found.items()]})
        return
    columns = (Column("name", "bold cyan"), Column("measures", wide=True))
    show_table(columns, [(plain(name), plain(about)) for name, about in found.items()])
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
    from openskills.bench.library import read_library
    from openskills.bench.tasks import usual_tasks
    from openskills.bench.token_report import token_report as made
    from openskills.cli.bench_view import report_json, show_report
    from openskills.sync import run

    settings = settings_of(context)
    counting = _counting(encoding, estimated)
    catalog = open_catalog(skills or (), settings, trusted=trust, asking=not as_json)
    report_places(catalog.snapshot)
    leave_if_unreachable(catalog.snapshot)
    if not catalog.skills:
        raise InvalidArgument("--skills", "there is no skill that a model may see; `openskills list` says why")
    with Waiting("reading skills") as progress:
        library = read_library(catalog.skills)
        script = _tasks(tasks) if tasks else usual_tasks(library.skills)
        report = run(made(catalog, library, script, counting, settings, progress))
    if as_json:
        say_json(report_json(report))
    else:
        show_report(report, requests=requests)
    for name in report.unread:
        warn(f"{plain(name)} could not be read and is not counted")


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
    from openskills.bench.checkout import command_of
    from openskills.child import become

    checkout = _checkout()
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


def _checkout() -> "Checkout | None":
    from openskills.bench.checkout import find_checkout

    return find_checkout(Path.cwd())


def _counting(encoding: str, estimated: bool) -> "Counting":
    from openskills.bench.counting import best_counting, estimating

    return estimating() if estimated else best_counting(encoding)


def _tasks(path: str) -> "tuple[Task, ...]":
    from openskills.bench.task_file import parse_tasks

    try:
        with open(path, "rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InvalidArgument("--tasks", f"{path} cannot be read: {error.strerror or error}") from None
    if len(text) > _MOST_BYTES:
        raise InvalidArgument("--tasks", f"{path} has more than {_MOST_BYTES:,} bytes")
    return parse_tasks(text)
