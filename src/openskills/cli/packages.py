"""`openskills packages`: list, add and remove the package environments that skills share."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import CliProgress, Column, Row, escape_line, pluralize, say, show_table, warn
from openskills.cli.parameters import Json, Many, Text, Yes, argument, option
from openskills.cli.workspaces import confirm_removal, format_size, open_temporary_workspace, to_age_cell
from openskills.errors import InvalidArgument
from openskills.settings import Settings, parse_seconds
from openskills.sync import run

if TYPE_CHECKING:
    from openskills.executors.environments import EnvironmentStore, StoredEnvironment
    from openskills.executors.staging.packages import PackageSet


app = typer.Typer(no_args_is_help=True, help="List, add and remove the packages that skills share.")


@app.command("list")
def list_packages(settings: Settings, as_json: Json = False) -> None:
    """List the environments with their packages, sizes and when they were last used.

    Examples:
      openskills packages list
      openskills packages list --json

    In a pipe each environment is one line of tab-separated fields: id, requested packages, bytes, idle seconds.
    """
    found = _open_store(settings).list()
    _show_environments(found, json=as_json and {"environments": [one.to_dict() for one in found]})


@app.command("add")
def add(
    settings: Settings,
    packages: Annotated[Many, argument("PACKAGE", "Python requirements, and npm packages as npm:NAME.")] = None,
    executor: Annotated[Text, option("NAME", "auto, sandbox, container, landlock or local.")] = None,
    as_json: Json = False,
) -> None:
    """Install packages together into one environment, for `--with` and `openskills.toml`.

    They are downloaded from the index that pip, uv and npm are configured for, in a sandbox that can reach only that
    index. Installing the same packages again does nothing.

    Examples:
      openskills packages add pypdf pillow
      openskills packages add 'pandas>=2' npm:docx

    Exit codes: 0 installed, 1 not installed, 2 wrong usage.
    """
    from openskills.executors.staging.packages import PackageSet

    if not packages:
        raise InvalidArgument("PACKAGE", "missing; name at least one package, such as pypdf or npm:docx")
    wanted = PackageSet.parse(packages)
    with CliProgress(f"installing {escape_line(str(wanted))}") as progress:
        found = run(_install(wanted, executor or settings.executor, settings, progress))
    names = ", ".join(map(escape_line, found.packages))
    say(("installed", "green"), f": {names}", json=as_json and {"environment": found.to_dict()})


@app.command("clean")
def clean(
    settings: Settings,
    older_than: Annotated[Text, option("TIME", "Only those unused for 24h, 7d.")] = "30d",
    everything: Annotated[bool, typer.Option("--all", help="All environments.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove environments that have not been used for a while. They are installed again when they are needed.

    A command that is using one may fail.

    Examples:
      openskills packages clean --dry-run
      openskills packages clean --all --yes

    Exit codes: 0 done, 1 not confirmed, 2 wrong usage.
    """
    store = _open_store(settings)
    limit = 0.0 if everything else parse_seconds(older_than or "30d", "--older-than")
    removable = [one for one in store.list() if time.time() - one.used_at >= limit]
    what = f"{pluralize(len(removable), 'environment')} with {format_size(sum(one.size for one in removable))}"
    if removable and not dry_run and not yes:
        confirm_removal(what, lambda: _show_environments(removable), as_json)
    if not dry_run:
        with CliProgress("removing environments"):
            for one in removable:
                store.remove(one.id)
    if removable or as_json:
        removed = {"removed": [one.id for one in removable]}
        say(f"{'would remove' if dry_run else 'removed'} {what}", json=as_json and removed)
    else:
        warn("nothing to remove")


def _open_store(settings: Settings) -> "EnvironmentStore":
    from openskills.executors.environments import EnvironmentStore
    from openskills.executors.spec import ENVIRONMENTS

    return EnvironmentStore(settings.state_dir / ENVIRONMENTS)


async def _install(wanted: "PackageSet", name: str, settings: Settings, progress: CliProgress) -> "StoredEnvironment":
    from openskills.executors.environments import PackageBuilder

    async with open_temporary_workspace(name, settings) as workspace:
        builder = PackageBuilder(settings)
        return await builder.install(wanted, workspace, progress=lambda line: progress(line, 0, None))


def _show_environments(found: "list[StoredEnvironment]", json: object = False) -> None:
    rows: list[Row] = []
    for one in found:
        id_, packages, size = (one.id[:8], one.id), (len(one.packages), None), (format_size(one.size), one.size)
        rows.append((id_, ", ".join(one.requested), packages, size, to_age_cell(time.time() - one.used_at)))
    columns = ("id", Column("requested", wide=True), "packages", "size", "used")
    empty = "no packages are installed; openskills packages add PACKAGE installs some"
    show_table(columns, rows, empty, json)
