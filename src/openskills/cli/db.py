"""`openskills db`: check, migrate and copy the databases of a host."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import CliProgress, Column, Row, say, show_table, warn
from openskills.cli.parameters import Json, Text, argument
from openskills.errors import InvalidArgument
from openskills.settings import Settings, parse_database

if TYPE_CHECKING:
    from openskills.host.transfer import ComponentState
    from openskills.postgres import PostgresUrl

db_app = typer.Typer(no_args_is_help=True, help="Check, migrate and copy the databases of a host.")

Url = Annotated[
    Text, argument("URL", "postgresql://... or sqlite:////FILE of the host; by default the configured one.")
]


@db_app.command("check")
def check(settings: Settings, url: Url = None, as_json: Json = False) -> None:
    """Show whether the databases can be reached, which versions their tables have, and how many rows.

    Examples:
      openskills db check
      openskills db check postgresql://host@db.example.org/openskills

    In a pipe each table is one line of tab-separated fields: database, table, rows, version, known version.

    Exit codes: 0 up to date, 1 not reachable, or `openskills db migrate` is needed.
    """
    from openskills.host.transfer import check_database

    with CliProgress("reading the databases"):
        states = check_database(_find_place(settings, url, "URL"), settings)
    _show_states(states, as_json=as_json)
    if any(state.missing and state.version for state in states):
        warn("some tables are of an older version; run: openskills db migrate")
        raise typer.Exit(1)


@db_app.command("migrate")
def migrate(settings: Settings, url: Url = None, as_json: Json = False) -> None:
    """Create or update the tables. Hosts do that as well when they start; existing rows stay.

    Example:
      openskills db migrate postgresql://host@db.example.org/openskills
    """
    from openskills.host.transfer import migrate_database

    with CliProgress("updating the tables"):
        states = migrate_database(_find_place(settings, url, "URL"), settings)
    _show_states(states, as_json=as_json)


@db_app.command("copy")
def copy(
    settings: Settings,
    source: Annotated[str, argument("FROM", "sqlite:////FILE of a host, or postgresql://...")],
    target: Annotated[str, argument("TO", "postgresql://... of an empty database.")],
    merge: Annotated[
        bool, typer.Option("--merge", help="Add to a database that has rows; its own rows stay as they are.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Copy a host to PostgreSQL: history, runs, answers, console sessions, keys, uploads and conversations.

    From an SQLite host also the key file, the uploads and the sessions are copied, which belong to the same settings.
    With OPENSKILL_STORAGE, the files of conversations (artifacts) are copied there. Stop the host first: what it writes
    meanwhile is not copied. Each table is one transaction; afterwards every row is compared. A copy that was
    interrupted is continued with --merge.

    Example:
      openskills db copy sqlite:////var/lib/host.db postgresql://host@db/skills
    """
    from openskills.host.transfer import copy_database
    from openskills.postgres import PostgresUrl

    origin, place = _find_place(settings, source, "FROM"), _find_place(settings, target, "TO")
    if not isinstance(place, PostgresUrl):
        raise InvalidArgument("TO", "expected postgresql://user:password@host:port/database")
    with CliProgress("copying") as progress:
        done = copy_database(origin, place, settings, merge=merge, report=progress)
    columns = (Column("database", "bold"), Column("table", "cyan"), "rows", "copied", "differing")
    rows = [(one.component, one.table, one.rows, one.copied, one.differing) for one in done]
    show_table(columns, rows, json=as_json and {"tables": [asdict(one) for one in done]})
    if as_json:
        return
    replaced, differing = (sum(getattr(one, name) for one in done) for name in ("replaced", "differing"))
    if replaced:
        warn(f"{replaced:,} rows have characters that PostgreSQL cannot store; they were replaced by U+FFFD")
    if differing:
        warn(f"{differing:,} rows exist in TO with another content and were left alone")
    artifacts = settings.state_dir / "artifacts"
    if settings.storage is None and not isinstance(origin, PostgresUrl) and artifacts.exists():
        warn(f"files of conversations stay in {artifacts}; set OPENSKILL_STORAGE to share them with other hosts")
    say(f"copied and compared {sum(one.rows for one in done):,} rows; start the hosts with OPENSKILL_HOST_DATABASE")


def _find_place(settings: Settings, url: str | None, field: str) -> "Path | PostgresUrl":
    from openskills.host.database import find_database, parse_postgres_url

    if url is None:
        return find_database(settings)
    address, file = parse_database(url, field)
    return parse_postgres_url(address or "", field) if file is None else file


def _show_states(states: "list[ComponentState]", *, as_json: bool) -> None:
    rows: list[Row] = []
    for state in states:
        tables = state.rows or {"(no tables)": ""}
        rows += [(state.name, table, count, state.version, state.known) for table, count in tables.items()]
    columns = (Column("database", "bold"), Column("table", "cyan"), "rows", "version", "known")
    show_table(columns, rows, json=as_json and {"databases": [state.to_dict() for state in states]})
