"""`openskills cluster`: show and drain the nodes of a Ray cluster, and show the hosts that share a database."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openskills.cli.output import CliProgress, Column, Row, pluralize, say, say_json, show_table, warn
from openskills.cli.parameters import Json, Text, argument, option
from openskills.errors import InvalidArgument
from openskills.settings import Settings, parse_seconds
from openskills.sync import run

if TYPE_CHECKING:
    from openskills.executors.ray.executor import RayExecutor

app = typer.Typer(no_args_is_help=True, help="Show the nodes of a Ray cluster and the hosts, and drain nodes.")

Executor = Annotated[Text, option("NAME", "ray, ray:HOST:PORT or ray://HOST:PORT; default: OPENSKILL_EXECUTOR.")]
Namespace = Annotated[str, option("NAME", "The namespace of the drivers, if it is another one.")]
_NAMESPACE = "openskills"
_POLL = 0.5
_SHOWN_ID = 12


@app.command("status")
def status(
    settings: Settings, executor: Executor = None, namespace: Namespace = _NAMESPACE, as_json: Json = False
) -> None:
    """Show the nodes with their load and limits and, if hosts share PostgreSQL, their last heartbeats.

    Examples:
      openskills cluster status
      openskills cluster status --executor ray:10.0.0.1:6379 --json

    In a pipe each node is one line of tab-separated fields: node, address, state, workspaces and their limit, running
    commands and their limit, waiting commands, stored workspaces, seconds since the last report. Hosts follow with: id,
    state, seconds since the last heartbeat.

    Exit codes: 0 done, 1 the cluster or database does not answer, or no node can run commands, 2 wrong usage.
    """
    from openskills.executors.ray.cluster import open_cluster

    name = _find_cluster(executor, settings)
    if name is None and settings.host_database is None:
        raise _build_missing_error(settings)
    with CliProgress("asking the cluster"):
        cluster = None if name is None else run(_read_status(open_cluster(settings, name, namespace)))
        hosts = None if settings.host_database is None else _list_hosts(settings)
    if as_json:
        say_json({"cluster": cluster, "hosts": hosts})
    else:
        if cluster is not None:
            _show_nodes(cluster)
        if hosts is not None:
            _show_hosts(hosts)
    if cluster is not None and all(node["reason"] or node["is_lost"] for node in cluster["nodes"]):
        warn("no node can run commands")
        raise typer.Exit(1)


@app.command("drain")
def drain(
    settings: Settings,
    node: Annotated[str, argument("NODE", "The id of a node or its beginning; openskills cluster status shows it.")],
    undo: Annotated[bool, typer.Option("--undo", help="Give the node work again.")] = False,
    timeout: Annotated[str, option("TIME", "How long to wait until the node is empty: 90s, 15m.")] = "10m",
    executor: Executor = None,
    namespace: Namespace = _NAMESPACE,
    as_json: Json = False,
) -> None:
    """Stop scheduling work on a node, and wait until its workspaces are closed.

    With OPENSKILL_STORAGE on the hosts, workspaces are saved and moved to other nodes as soon as no command runs in
    them. Without it they stay until they are closed. After --timeout the node is still being drained; --undo ends that.

    Examples:
      openskills cluster drain 3f2a
      openskills cluster drain 3f2a --undo

    Exit codes: 0 the node is empty, 1 it is not after --timeout, or the cluster does not answer, 2 unknown node.
    """
    from openskills.executors.ray.cluster import open_cluster

    name = _find_cluster(executor, settings)
    if name is None:
        raise _build_missing_error(settings)
    limit = parse_seconds(timeout, "--timeout")
    with CliProgress("draining") as progress:
        cluster = open_cluster(settings, name, namespace)
        found = run(_drain(cluster, node, limit=None if undo else limit, report=progress))
    is_empty = _is_empty(found)
    id_ = found["node"][:_SHOWN_ID]
    if as_json:
        say_json({"node": found, "is_empty": is_empty})
    elif undo:
        say(f"node {id_} gets work again")
    elif is_empty:
        say(f"node {id_} {'is lost' if found['is_lost'] else 'is empty'}")
        if found["stored_workspaces"]:
            count = pluralize(found["stored_workspaces"], "closed workspace")
            say(f"its disk has {count}; what is saved in OPENSKILL_STORAGE opens on other nodes")
    if not undo and not is_empty:
        left = f"{pluralize(found['workspaces'], 'workspace')} and {pluralize(found['commands'], 'command')}"
        warn(
            f"node {id_} still has {left} after {timeout}; it gets no more work. Workspaces move when their commands "
            "end, if the hosts have OPENSKILL_STORAGE and other nodes have room"
        )
        raise typer.Exit(1)


def _find_cluster(executor: str | None, settings: Settings) -> str | None:
    """The value of `--executor`, or the executor of the settings if it is a cluster."""
    from openskills.executors.open import is_ray

    return executor or settings.executor if executor is not None or is_ray(settings.executor) else None


def _build_missing_error(settings: Settings) -> InvalidArgument:
    hint = "use --executor ray:HOST:PORT, or set OPENSKILL_EXECUTOR=ray"
    return InvalidArgument("--executor", f"the executor is {settings.executor!r}, not a cluster; {hint}")


async def _read_status(cluster: "RayExecutor") -> dict[str, Any]:
    async with cluster:
        return dict(await cluster.status())


def _list_hosts(settings: Settings) -> list[dict[str, Any]]:
    from openskills.host.database import find_database, open_connection
    from openskills.host.workers import list_workers

    connection = open_connection(find_database(settings))
    try:
        return connection.use(list_workers)
    finally:
        connection.close()


async def _drain(
    cluster: "RayExecutor", node: str, *, limit: float | None, report: Callable[[str, float, float | None], None]
) -> dict[str, Any]:
    """The last status of the node: when it is empty, or after `limit` seconds. Undoes it if that is None."""
    import asyncio

    async with cluster:
        found = dict(await cluster.drain(node, is_draining=limit is not None))
        ends_at = time.monotonic() + (limit or 0.0)
        total = max(found["workspaces"], 1)
        while limit is not None and not _is_empty(found) and time.monotonic() < ends_at:
            total = max(total, found["workspaces"])
            what = f"draining {found['node'][:_SHOWN_ID]}: {pluralize(found['commands'], 'command')} running, moved"
            report(what, total - found["workspaces"], total)
            await asyncio.sleep(_POLL)
            nodes: dict[str, dict[str, Any]] = {one["node"]: one for one in (await cluster.status())["nodes"]}
            # A node that was removed from the cluster is not listed any more.
            found = nodes.get(found["node"]) or {**found, "is_lost": True}
        return found


def _is_empty(node: Mapping[str, Any]) -> bool:
    """Whether nothing is open on a node. What a lost one had opens elsewhere."""
    return bool(node["is_lost"]) or not (node["workspaces"] or node["commands"] or node["queued_commands"])


def _show_nodes(cluster: Mapping[str, Any]) -> None:
    rows: list[Row] = []
    for node in cluster["nodes"]:
        used = (f"{node[what]}/{node[f'max_{what}']}" for what in ("workspaces", "commands"))
        others = (node["queued_commands"], node["stored_workspaces"], f"{node['seen_seconds_ago']:.1f}")
        rows.append((node["node"][:_SHOWN_ID], node["address"], _describe_state(node), *used, *others))
    rows += [(id_[:_SHOWN_ID], "", f"unusable: {why}", *[""] * 5) for id_, why in cluster["missing"].items()]
    numbers = ("workspaces", "commands", "waiting", "stored", "last report (s)")
    show_table((Column("node", "bold"), "address", Column("state", "cyan", wide=True), *numbers), rows)
    if cluster["queue"]:
        warn(f"{pluralize(cluster['queue'], 'workspace')} wait for capacity (at most {cluster['max_queue']})")


def _describe_state(node: Mapping[str, Any]) -> str:
    if node["is_lost"]:
        return "lost"
    if node["reason"]:
        return f"unusable: {node['reason']}"
    if node["is_draining"]:
        return "drained" if _is_empty(node) else "draining"
    return "disk full" if node["is_full"] else str(node["isolation"])


def _show_hosts(hosts: Sequence[Mapping[str, Any]]) -> None:
    rows: list[Row] = []
    for one in hosts:
        state = "alive" if one["is_alive"] else "dead"
        rows.append((one["id"], state, f"{one['seen_seconds_ago']:.1f}", one["machine"], str(one["pid"])))
    columns = (Column("host process", "bold"), Column("state", "cyan"), "last heartbeat (s)", "machine", "pid")
    show_table(columns, rows, empty="no host uses the database")
