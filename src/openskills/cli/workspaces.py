"""`openskills workspaces`: list and remove the workspaces of skills."""

import secrets
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import (
    CellPair,
    CliProgress,
    Column,
    Row,
    ask,
    can_ask,
    escape_line,
    pluralize,
    say,
    say_json,
    show_table,
    warn,
)
from openskills.cli.parameters import Json, Text, Yes, argument, option
from openskills.errors import InvalidArgument
from openskills.settings import Settings, parse_seconds

if TYPE_CHECKING:
    from openskills.executors.protocol import Workspace
    from openskills.executors.records.leases import CleanupResult, WorkspaceInfo, WorkspaceStore


app = typer.Typer(no_args_is_help=True, help="List and remove the workspaces of skills.")

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


@app.command("list")
def list_workspaces(settings: Settings, as_json: Json = False) -> None:
    """List workspaces with their keys, sizes and when they were last used.

    Examples:
      openskills workspaces list
      openskills workspaces list --json

    In a pipe each workspace is one line of tab-separated fields: id, key, executor, bytes, files, idle seconds,
    and the process that is using it.
    """
    found = _list_with_progress(_open_store(settings))
    _show_workspaces(found, json=as_json and {"workspaces": [info.to_dict() for info in found]})


@app.command("clean")
def clean(
    settings: Settings,
    older_than: Annotated[Text, option("TIME", "Only those unused for 90s, 15m, 24h, 7d.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that are not in use.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove workspaces that are not in use, with all their files.

    Without --older-than and --all, remove those that have expired. Saved artifacts are not removed.

    Examples:
      openskills workspaces clean
      openskills workspaces clean --older-than 7d --dry-run
      openskills workspaces clean --all --yes

    Exit codes: 0 done, 1 not confirmed or something could not be removed, 2 wrong usage.
    """
    if everything and older_than is not None:
        raise InvalidArgument("--all", "cannot be combined with --older-than; choose one")
    limit = None if older_than is None else parse_seconds(older_than, "--older-than")
    store = _open_store(settings)
    age = 0.0 if everything else limit
    if dry_run or not yes:
        from openskills.executors.records.leases import CleanupResult

        found = _list_with_progress(store)
        unused = (info for info in found if not info.in_use)
        removable = tuple(info for info in unused if (info.is_expired if age is None else info.idle >= age))
        if dry_run:
            in_use = tuple(info for info in found if info.in_use)
            _report_cleanup(CleanupResult(removed=removable, in_use=in_use), as_json, "would be removed")
            return
        if removable:
            size = format_size(sum(info.size for info in removable))
            what = f"{pluralize(len(removable), 'workspace')} with {size}"
            confirm_removal(what, lambda: _show_workspaces(removable), as_json)
    with CliProgress("removing workspaces") as progress:
        cleaned = store.sweep(progress) if age is None else store.clean(older_than=age, progress=progress)
    _report_cleanup(cleaned, as_json, "removed")
    if cleaned.failures:
        raise typer.Exit(1)


@app.command("remove")
def remove(
    settings: Settings,
    ids: Annotated[list[str], argument("ID", "Ids of workspaces, as openskills workspaces list prints them.")],
    as_json: Json = False,
) -> None:
    """Remove workspaces with all their files. One that is in use is not removed.

    Example:
      openskills workspaces remove 0123456789abcdef0123456789abcdef

    Exit codes: 0 done, 1 there is none, or it is in use, 2 wrong usage.
    """
    store = _open_store(settings)
    removed = {id_: store.remove(id_) for id_ in ids}
    if as_json:
        say_json({"removed": [id_ for id_, is_removed in removed.items() if is_removed]})
    for id_, is_removed in removed.items():
        if not is_removed:
            warn(f"unknown workspace {escape_line(id_)}; `openskills workspaces list` shows them")
        elif not as_json:
            say(f"removed {id_}")
    if not all(removed.values()):
        raise typer.Exit(1)


def _open_store(settings: Settings) -> "WorkspaceStore":
    from openskills.executors.records.leases import WorkspaceStore

    return WorkspaceStore(settings.state_dir / "workspaces")


@asynccontextmanager
async def open_temporary_workspace(executor: str, settings: Settings) -> AsyncGenerator["Workspace"]:
    """A workspace of an executor by name, which is removed at the end."""
    from openskills.executors.open import open_executor

    key = f"temporary-{secrets.token_hex(8)}"
    async with AsyncExitStack() as stack:
        opened = open_executor(executor, settings)
        stack.push_async_callback(opened.close)
        workspace = await opened.open(key)
        stack.push_async_callback(opened.remove, key)
        stack.push_async_callback(workspace.close)
        yield workspace


def _list_with_progress(store: "WorkspaceStore") -> "Sequence[WorkspaceInfo]":
    with CliProgress("looking at workspaces") as progress:
        return store.list(progress)


def confirm_removal(what: str, show: Callable[[], None], as_json: bool) -> None:
    """Show what would be removed and ask on the terminal. Exits with 1 unless the user agrees."""
    agreed = None
    if not as_json and can_ask():
        show()
        agreed = ask(f"Remove {what}?")
    if agreed is None:
        warn(f"{what} would be removed; nothing was removed; confirm with --yes, or list them with --dry-run")
    if not agreed:
        raise typer.Exit(1)


def _report_cleanup(cleaned: "CleanupResult", as_json: bool, done: str) -> None:
    if as_json:
        removed, in_use = (
            [{"id": info.id, "key": info.key, "executor": info.executor} for info in infos]
            for infos in (cleaned.removed, cleaned.in_use)
        )
        say_json({"removed": removed, "in_use": in_use, "failures": list(cleaned.failures)})
        return
    for info in cleaned.removed:
        name = escape_line(_display_name(info))
        say(f"{done} {name}" if sys.stdout.isatty() else f"{done}\t{info.id}\t{escape_line(info.key)}")
    for info in cleaned.in_use:
        by = f" by process {info.holder}" if info.holder is not None else ""
        warn(("in use", "yellow"), f"{by}, not removed: {escape_line(_display_name(info))}")
    for failure in cleaned.failures:
        warn(("not removed", "bold red"), f": {escape_line(failure)}")
    if not cleaned.removed and not cleaned.failures:
        warn("nothing to remove")


def _show_workspaces(found: "Sequence[WorkspaceInfo]", json: object = False) -> None:
    rows: list[Row] = []
    for info in found:
        names = ((None, info.id), (_display_name(info), info.key), info.executor)
        age, idle = to_age_cell(info.idle)
        holder = str(info.holder or "unknown") if info.in_use else ""
        rows.append((*names, (format_size(info.size), info.size), info.files, ("now" if holder else age, idle), holder))
    columns = (Column("workspace", wide=True), "executor", "size", "files", "used", "in use by")
    show_table(columns, rows, "no workspaces", json)


def _display_name(info: "WorkspaceInfo") -> str:
    return info.key or f"{info.id} (never used)"


def to_age_cell(seconds: float) -> CellPair:
    """A duration as `90s ago`, `15m ago`, `24h ago` or `7d ago`, and in seconds."""
    unit, name = next(((unit, name) for unit, name in _UNITS if seconds >= unit), (1, "s"))
    return f"{seconds / unit:.0f}{name} ago", f"{seconds:.0f}"


def format_size(number: float) -> str:
    """A size in bytes as `512 B` or `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"
