"""`openskills runs`: what a skill host was asked for, and what came of it."""

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.listing import Json
from openskills.cli.output import plain, say, say_json, warn
from openskills.cli.quick import QuickCommand, QuickGroup
from openskills.cli.skills import settings_of
from openskills.cli.table import Column, show_table
from openskills.errors import InvalidArgument
from openskills.settings import seconds

if TYPE_CHECKING:
    from openskills.host.books.history import History
    from openskills.host.books.run_record import RunRecord
    from openskills.settings import Settings

app = typer.Typer(cls=QuickGroup, no_args_is_help=True, help="See what a skill host has done.")


@app.command("list", cls=QuickCommand)
def list_runs(
    context: typer.Context,
    skill: Annotated[str | None, typer.Option("--skill", metavar="ID", help="Only those of one skill.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only those of the last 90s, 15m, 24h, 7d.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """List invocations, the latest first.

    Examples:
      openskills runs list
      openskills runs list --skill calculator --failed --since 1h

    In a pipe each is one line: id, when it began (UTC), skill, runner, who, code, milliseconds, trace id and the
    message of a failure, with tabs between.
    """
    from openskills.sync import run

    earliest = None if since is None else time.time() - seconds(since, "--since")
    history = _history(settings_of(context))
    found = run(history.list(skill=skill, failed=failed, since=earliest, limit=limit))
    if as_json:
        say_json({"runs": [record.plain() for record in found]})
        return
    _show(found)
    if not found:
        warn("there are no such runs")


@app.command("show", cls=QuickCommand)
def show(
    context: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a run, or how it begins.")],
    as_json: Json = False,
) -> None:
    """Print everything that is known of one invocation.

    Example:
      openskills runs show run_019a8c3b4d5e
    """
    from openskills.sync import run

    found = run(_history(settings_of(context)).show(run_id)).plain()
    if as_json:
        say_json(found)
        return
    for name, value in found.items():
        say((f"{name}: ", "bold"), plain(str(value)))


def _history(settings: "Settings") -> "History":
    from openskills.host.books.history import History

    if settings.host_history is None:
        raise InvalidArgument("OPENSKILL_HOST_HISTORY", "is `off`, so there is no history to look at")
    return History(settings.host_history)


def _show(found: "Sequence[RunRecord]") -> None:
    columns = (
        Column("run", "bold cyan"),
        Column("began"),
        Column("skill"),
        Column("runner"),
        Column("who"),
        Column("code"),
        Column("ms"),
        Column("trace"),
        Column("message", wide=True),
    )
    show_table(columns, [_cells(record, short=sys.stdout.isatty()) for record in found])


def _cells(record: "RunRecord", *, short: bool) -> tuple[str, ...]:
    began = datetime.fromtimestamp(record.began, UTC)
    shown = began.astimezone().strftime("%m-%d %H:%M:%S") if short else began.isoformat(timespec="milliseconds")
    texts = (record.skill_id, record.runner_type, record.who)
    return (
        record.id,
        shown,
        *map(plain, texts),
        str(record.code),
        f"{record.latency_ms:.1f}",
        "" if short else plain(record.trace_id),
        plain(record.message),
    )
