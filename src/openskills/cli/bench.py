"""`openskills bench`: the token report about skills, and the benchmark scripts of a checkout."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openskills.cli.output import (
    CliProgress,
    Column,
    QuickCommand,
    QuickGroup,
    escape_line,
    say_json,
    show_table,
    warn,
)
from openskills.cli.skills import Json, Trust, exit_if_unreachable, get_settings, open_catalog, report_sources
from openskills.errors import InvalidArgument

if TYPE_CHECKING:
    from openskills.bench.checkout import Checkout
    from openskills.bench.tasks import BenchTask


_SCRIPT = "script"
_MAX_BYTES = 16 * 1024 * 1024
REPORT = "token-report"
_SCRIPT_OPTIONS = ("--quick", "--tiny", "--only", "--write", "--accept")
"""Options of the benchmark scripts that the token report does not have."""
_ABOUT = "Tokens that your skills cost, with progressive disclosure and with everything in the prompt"


class BenchGroup(QuickGroup):
    """Treats an unknown command as the name of a benchmark script, which gets all remaining arguments."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See `TyperGroup.resolve_command`."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            return _SCRIPT, self.commands[_SCRIPT], args
        return super().resolve_command(ctx, args)


class ReportCommand(QuickCommand):
    """The token report; suggests the benchmark script `token_report` for options of that script."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `TyperCommand.parse_args`. Raises `InvalidArgument` for an option of the benchmark script."""
        for word in args:
            option = word.partition("=")[0]
            if option in _SCRIPT_OPTIONS:
                other = f"openskills bench {REPORT.replace('-', '_')} {option}"
                raise InvalidArgument(
                    option, f"not an option of {REPORT}; did you mean the benchmark script of a checkout: {other}?"
                )
        return super().parse_args(ctx, args)


app = typer.Typer(cls=BenchGroup, invoke_without_command=True)


@app.callback(invoke_without_command=True)
def bench(context: typer.Context, as_json: Json = False) -> None:
    """Measure how many tokens skills cost, and run the benchmarks of a checkout.

    Without a name, list the benchmarks. All but token-report are scripts of a checkout of this project, found from the
    current directory upwards or beside the package; options after the name are passed to the script. Dashes and
    underscores in names are the same, except that token-report is the report about your skills and token_report is the
    benchmark of a checkout; request-building is an alias of context.

    Examples:
      openskills bench
      openskills bench token-report --skills skills/
      openskills bench prompt-cache --quick
      openskills bench token_report --quick
      openskills bench discovery --help

    In a pipe each benchmark is one line: its name and what it measures, separated by a tab.
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
        warn("the other benchmarks need a checkout of the project; run this command there")


@app.command(REPORT, cls=ReportCommand)
def token_report(
    context: typer.Context,
    skills: Annotated[
        list[str] | None,
        typer.Option(
            "--skills",
            metavar="PATH",
            help="The skills to measure: a directory or any other source; may be repeated.",
            show_default="the standard directories and SKILLS_ROOT",
        ),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option("--tasks", metavar="FILE", help="Tasks as JSON.", show_default="generated for the skills"),
    ] = None,
    encoding: Annotated[
        str, typer.Option("--encoding", metavar="NAME", help="The tokenizer; needs the extra `tokens`.")
    ] = "o200k_base",
    estimated: Annotated[
        bool, typer.Option("--estimate", help="Estimate tokens even when they can be counted.")
    ] = False,
    requests: Annotated[bool, typer.Option("--requests", help="Show every request of every task.")] = False,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Compare the tokens of progressive disclosure with those of everything in the prompt.

    The same scripted tasks run three times: with skills loaded on demand, with all bodies in the system message, and
    with all bodies and documents. No model is called. Tokens are exact with the extra `tokens`, otherwise estimated.
    The benchmark over a synthetic library, with --quick and --write, is: openskills bench token_report.

    Examples:
      openskills bench token-report --skills skills/
      openskills bench token-report --skills skills/ --tasks tasks.json --requests
      openskills bench token-report --json
    """
    from openskills.bench import token_report as reports
    from openskills.bench.tasks import default_tasks, read_library
    from openskills.cli.bench_report import report_json, show_report
    from openskills.sync import run

    settings = get_settings(context)
    counter = reports.estimate_counter() if estimated else reports.best_counter(encoding)
    catalog = open_catalog(skills or (), settings, trusted=trust, asking=not as_json)
    report_sources(catalog.snapshot)
    exit_if_unreachable(catalog.snapshot)
    if not catalog.skills:
        raise InvalidArgument("--skills", "no skill is visible to models; `openskills list` shows why")
    with CliProgress("reading skills") as progress:
        library = read_library(catalog.skills)
        script = _read_tasks(tasks) if tasks else default_tasks(library.skills)
        report = run(reports.token_report(catalog, library, script, counter, settings, progress))
    if as_json:
        say_json(report_json(report))
    else:
        show_report(report, requests=requests)
    for name in report.unread:
        warn(f"cannot read {escape_line(name)}; it is not counted")


@app.command(
    _SCRIPT,
    cls=QuickCommand,
    hidden=True,
    # Everything after the name is passed to the script, including --help.
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
def script(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    options: Annotated[list[str] | None, typer.Argument(metavar="OPTION")] = None,
) -> None:
    """Run a benchmark script of a checkout."""
    from openskills.bench.checkout import build_command
    from openskills.subprocesses import exec_program

    checkout = _find_checkout()
    if checkout is None:
        raise InvalidArgument(
            "name",
            f"benchmark {name!r} needs a checkout of the project, but neither the current directory nor this package is"
            f" in one; run it in a checkout, or use {REPORT}",
        )
    command = build_command(checkout.find(name), options or [])
    sys.stdout.flush()
    sys.stderr.flush()
    exec_program(command)


def _find_checkout() -> "Checkout | None":
    from openskills.bench.checkout import find_checkout

    return find_checkout(Path.cwd())


def _read_tasks(path: str) -> "tuple[BenchTask, ...]":
    from openskills.bench.tasks import parse_tasks

    try:
        with open(path, "rb") as file:
            text = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidArgument("--tasks", f"cannot read {path}: {error.strerror or error}") from None
    if len(text) > _MAX_BYTES:
        raise InvalidArgument("--tasks", f"{path} is larger than {_MAX_BYTES:,} bytes")
    return parse_tasks(text)
