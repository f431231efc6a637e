"""`openskills workspaces`: what runs of skills have left on this machine, and making room."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import (
    CliProgress,
    Column,
    QuickCommand,
    QuickGroup,
    escape_line,
    pluralize,
    say,
    say_json,
    show_table,
    warn,
)
from openskills.cli.skills import Json, get_settings
from openskills.errors import InvalidArgument
from openskills.settings import parse_seconds

if TYPE_CHECKING:
    from openskills.executors.records.leases import CleanupResult, WorkspaceInfo, WorkspaceStore
    from openskills.settings import Settings


app = typer.Typer(cls=QuickGroup, no_args_is_help=True, help="See and remove the workspaces that skills run in.")

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


@app.command("list", cls=QuickCommand)
def list_workspaces(context: typer.Context, as_json: Json = False) -> None:
    """List workspaces: whose they are, what they hold, and when they were used last.

    Examples:
      openskills workspaces list
      openskills workspaces list --json

    In a pipe each workspace is one line: id, key, executor, bytes, files, seconds since it was used, and the process
    that uses it, with tabs between.
    """
    found = _list_with_progress(_open_store(get_settings(context)))
    if as_json:
        say_json({"workspaces": [_workspace_json(info) for info in found]})
        return
    _show_workspaces(found)
    if not found:
        warn("there are no workspaces")


@app.command("clean", cls=QuickCommand)
def clean(
    context: typer.Context,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="TIME", help="Those that were not used for 90s, 15m, 24h, 7d.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that nobody uses now.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove without being asked.")] = False,
    as_json: Json = False,
) -> None:
    """Remove workspaces, with every file in them. Those in use stay.

    Without TIME and --all, those that are expired are removed. Artifacts that were kept are elsewhere, and stay.

    Examples:
      openskills workspaces clean
      openskills workspaces clean --older-than 7d --dry-run
      openskills workspaces clean --all --yes

    Exit codes: 0 done, 1 nobody agreed or something could not be removed, 2 wrong usage.
    """
    if everything and older_than is not None:
        raise InvalidArgument("--all", "cannot be combined with --older-than; choose one")
    limit = None if older_than is None else parse_seconds(older_than, "--older-than")
    store = _open_store(get_settings(context))
    age = 0.0 if everything else limit
    if dry_run:
        _report_cleanup(_plan_cleanup(_list_with_progress(store), age), as_json, "would be removed")
        return
    if not yes and not _confirm([info for info in _list_with_progress(store) if _is_removable(info, age)], as_json):
        raise typer.Exit(1)
    with CliProgress("removing workspaces") as progress:
        cleaned = store.sweep(progress) if age is None else store.clean(older_than=age, progress=progress)
    _report_cleanup(cleaned, as_json, "removed")
    if cleaned.failures:
        raise typer.Exit(1)


def _open_store(settings: "Settings") -> "WorkspaceStore":
    from openskills.executors.records.leases import WorkspaceStore

    return WorkspaceStore(settings.state_dir / "workspaces")


def _list_with_progress(store: "WorkspaceStore") -> "Sequence[WorkspaceInfo]":
    with CliProgress("looking at workspaces") as progress:
        return store.list(progress)


def _is_removable(info: "WorkspaceInfo", age: float | None) -> bool:
    return not info.in_use and (info.is_expired if age is None else info.idle >= age)


def _plan_cleanup(found: "Sequence[WorkspaceInfo]", age: float | None) -> "CleanupResult":
    from openskills.executors.records.leases import CleanupResult as Cleaned

    return Cleaned(
        removed=tuple(info for info in found if _is_removable(info, age)),
        in_use=tuple(info for info in found if info.in_use),
    )


def _confirm(doomed: "Sequence[WorkspaceInfo]", as_json: bool) -> bool:
    """Whether a person at the terminal wants these to go; where there is nothing to remove, nobody is asked."""
    if not doomed:
        return True
    size = _format_size(sum(info.size for info in doomed))
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        warn(f"{pluralize(len(doomed), 'workspace')} with {size} would be removed; nobody was asked, so nothing was;")
        warn("agree with --yes, or look with --dry-run")
        return False
    _show_workspaces(doomed)
    sys.stderr.write(f"Remove {pluralize(len(doomed), 'workspace')} with {size}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _report_cleanup(cleaned: "CleanupResult", as_json: bool, done: str) -> None:
    if as_json:
        say_json(
            {
                "removed": [_identity(info) for info in cleaned.removed],
                "in_use": [_identity(info) for info in cleaned.in_use],
                "failures": list(cleaned.failures),
            }
        )
        return
    for info in cleaned.removed:
        say(
            f"{done}\t{info.id}\t{escape_line(info.key)}"
            if not sys.stdout.isatty()
            else f"{done} {escape_line(_display_name(info))}"
        )
    for info in cleaned.in_use:
        by = f" by process {info.holder}" if info.holder is not None else ""
        warn(("in use", "yellow"), f"{by}, stays: {escape_line(_display_name(info))}")
    for failure in cleaned.failures:
        warn(("not removed", "bold red"), f": {escape_line(failure)}")
    if not cleaned.removed and not cleaned.failures:
        warn("there is nothing to remove")


def _show_workspaces(found: "Sequence[WorkspaceInfo]") -> None:
    if not sys.stdout.isatty():
        show_table((), [_plain_cells(info) for info in found])
        return
    columns = ("workspace", "executor", "size", "files", "used", "in use by")
    titles = [Column(title, wide=title == "workspace") for title in columns]
    show_table(titles, [_display_cells(info) for info in found])


def _plain_cells(info: "WorkspaceInfo") -> tuple[str, ...]:
    holder = str(info.holder or "unknown") if info.in_use else ""
    idle = f"{info.idle:.0f}"
    return (info.id, escape_line(info.key), escape_line(info.executor), str(info.size), str(info.files), idle, holder)


def _display_cells(info: "WorkspaceInfo") -> tuple[str, ...]:
    used = "now" if info.in_use else f"{_format_duration(info.idle)} ago"
    holder = str(info.holder or "unknown") if info.in_use else ""
    return (
        escape_line(_display_name(info)),
        escape_line(info.executor),
        _format_size(info.size),
        f"{info.files:,}",
        used,
        holder,
    )


def _display_name(info: "WorkspaceInfo") -> str:
    return info.key or f"{info.id} (never used)"


def _identity(info: "WorkspaceInfo") -> dict[str, object]:
    return {"id": info.id, "key": info.key, "executor": info.executor}


def _workspace_json(info: "WorkspaceInfo") -> dict[str, object]:
    return {
        **_identity(info),
        "size_bytes": info.size,
        "files": info.files,
        "age_seconds": round(info.age, 3),
        "idle_seconds": round(info.idle, 3),
        "ttl_seconds": info.ttl,
        "expired": info.is_expired,
        "in_use": info.in_use,
        "pid": info.holder,
    }


def _format_duration(length: float) -> str:
    for unit, name in _UNITS:
        if length >= unit:
            return f"{length / unit:.0f}{name}"
    return f"{length:.0f}s"


def _format_size(number: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"
