"""Executor that runs commands on the nodes of a Ray cluster.

Ray places one agent on each node, restarts it, and runs the directory. Files, commands and their output go through our
own channel between this process and the node, not through Ray.
"""

import asyncio
import fcntl
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, cast
from weakref import WeakValueDictionary

from openskills.arguments import check_arguments
from openskills.artifacts.objects import ObjectStore
from openskills.artifacts.open import open_object_store
from openskills.concurrency import AsyncCloseable, CrossLoopLock, LoopLocal, run_in_thread
from openskills.errors import ExecutorUnavailable, InvalidArgument, SkillError
from openskills.executors.files.descriptors import delete_tree
from openskills.executors.open import open_executor
from openskills.executors.ray.channel import ChannelClosed, WorkspaceMoved
from openskills.executors.ray.client import (
    NodeClient,
    RemoteWorkspace,
    SharedRequests,
    WorkspaceAttachment,
    name_workspace,
    open_content,
    send_content,
)
from openskills.executors.ray.node import NodeServer, list_epochs
from openskills.executors.ray.placement import LOST_FACTOR, DirectoryClient, NodeLease, NodeLimits, read_clock
from openskills.executors.records.leases import WorkspaceStore
from openskills.executors.spec import Isolation, SkillSnapshot
from openskills.executors.staging.snapshots import SnapshotStore
from openskills.executors.workspace import DirectoryExecutor
from openskills.filesystem import make_private
from openskills.settings import NODE_EXECUTORS, Settings
from openskills.telemetry.metrics import count

RESOURCE = "openskills"
"""Nodes that declare this Ray resource are the only ones that are used; its amount is their number of workspaces."""
_CHECKPOINTS = "workspaces"
_RENEWALS = 5
_START_TIMEOUT = 60.0
RETRY_PAUSE = 0.2
_STRONGEST_LAST = (Isolation.NONE, Isolation.LANDLOCK, Isolation.CONTAINER, Isolation.BUBBLEWRAP)


@check_arguments
@dataclass(frozen=True, slots=True)
class RayOptions:
    """How nodes run commands. The first driver of a namespace decides; later ones use what is there.

    `executor` is that of each node. `max_commands` None means eight for each core of the node, at least 32. `lease` is
    how many seconds a node may run commands without contact to the cluster; a lost node is replaced after 1.6 times as
    many. `checkpoint_delay` is after how many seconds a changed workspace is saved, if OPENSKILL_STORAGE is set.
    `queue_timeout` is how long a workspace or command waits for room, `max_queue` how many workspaces wait in the
    cluster, and how many commands on a node. `state_dir` is where nodes store files;
    None means what their own settings say. `host` is the address that nodes listen on; None means the one that Ray
    uses for the node.
    """

    executor: str = "sandbox"
    namespace: str = "openskills"
    max_workspaces: int = 1000
    max_commands: int | None = None
    lease: float = 5.0
    checkpoint_delay: float = 2.0
    queue_timeout: float = 30.0
    max_queue: int = 256
    state_dir: Path | None = None
    host: str | None = None
    port: int = 0

    def __post_init__(self) -> None:
        if self.executor not in NODE_EXECUTORS:
            known = ", ".join(NODE_EXECUTORS)
            raise InvalidArgument("executor", f"{self.executor!r} cannot run on Ray nodes; use one of {known}")
        if self.lease < 1:
            raise InvalidArgument("lease", f"{self.lease:g} s is too short; use 1 or more")
        if not (self.max_workspaces and self.max_commands != 0):
            raise InvalidArgument("max_workspaces", "limits of a node must be 1 or more")


class NodeAgent:
    """One node: its server, and its lease from the directory."""

    def __init__(self, node: str, directory: DirectoryClient, settings: Settings, options: RayOptions) -> None:
        self._node = node
        self._directory = directory
        self._options = options
        self._incarnation = secrets.token_hex(8)
        self._token = secrets.token_bytes(32)
        root = options.state_dir or settings.state_dir
        self._state_dir, self._lock = claim_state_dir(root / "ray", node)
        self._settings = replace(settings, state_dir=self._state_dir)
        self._lease = NodeLease(options.lease)
        self._server: NodeServer | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._about: dict[str, Any] = {}

    async def start(self, host: str) -> None:
        """Test the executor, listen, register, and keep the lease until it is closed."""
        options = self._options
        host = options.host or host
        executor = cast("DirectoryExecutor", open_executor(options.executor, self._settings))
        isolation, reason = "", ""
        try:
            isolation = str(await executor.check())
        except SkillError as error:
            reason = error.message
        cores = len(os.sched_getaffinity(0))
        limits = NodeLimits(
            max_workspaces=options.max_workspaces,
            max_commands=options.max_commands or max(32, 8 * cores),
            max_queue=options.max_queue,
            queue_timeout=options.queue_timeout,
        )
        self._server = NodeServer(
            executor,
            self._settings,
            token=self._token,
            lease=self._lease,
            limits=limits,
            timeout=6 * options.lease,
        )
        self._about = {
            "incarnation": self._incarnation,
            "host": host,
            "port": await self._server.listen(host, options.port),
            "token": self._token.hex(),
            "executor": options.executor,
            "isolation": isolation,
            "reason": reason,
            "max_workspaces": limits.max_workspaces,
            "max_commands": limits.max_commands,
        }
        await self._register(self._server)
        self._renewing = asyncio.ensure_future(self._keep_lease(self._server))

    async def close(self) -> None:
        """Kill all commands, and stop reporting."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        if self._server is not None:
            await self._server.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def _register(self, server: NodeServer) -> None:
        asked_at = read_clock()
        stored = await run_in_thread(lambda: list_epochs(self._state_dir))
        reply = await self._directory.call("register", node=self._node, stored=stored, **self._about)
        await server.drop(reply["stale"])
        self._lease.renew(asked_at)

    async def _keep_lease(self, server: NodeServer) -> None:
        has_killed = False
        while True:
            await asyncio.sleep(self._options.lease / _RENEWALS)
            asked_at = read_clock()
            try:
                async with asyncio.timeout(self._options.lease):
                    await self._renew(server, asked_at)
                has_killed = False
            except (ExecutorUnavailable, TimeoutError):
                count("openskills.ray.failed_renewals")
            # From now on, its workspaces may be open elsewhere.
            if not has_killed and self._lease.overdue > (LOST_FACTOR - 1) * self._options.lease:
                has_killed = True
                await server.kill_commands()

    async def _renew(self, server: NodeServer, asked_at: float) -> None:
        is_full = not await run_in_thread(server.executor.has_free_space)
        reply = await self._directory.call(
            "renew",
            node=self._node,
            incarnation=self._incarnation,
            opened=server.epochs(),
            running=server.running,
            queued=server.queued,
            is_full=is_full,
        )
        if "unknown" in reply:
            await self._register(server)
            return
        await server.drop(reply["stale"])
        was_draining, server.is_draining = server.is_draining, bool(reply["draining"])
        # Not at once, so that changes that have begun end first, and only if there is another place.
        if was_draining and server.is_draining and reply["has_room"]:
            server.announce_drain()
        self._lease.renew(asked_at)


def claim_state_dir(root: Path, node: str) -> tuple[Path, int]:
    """A directory for a node's files that no other agent of this machine uses, and its lock.

    The one that this node had before, otherwise the first free one: a node that Ray starts again has a new id.
    """
    root.mkdir(mode=0o755, parents=True, exist_ok=True)
    known = sorted((path for path in root.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    own = [path for path in known if _read_owner(path) == node]
    more = [root / str(number) for number in range(len(known) + 1) if root / str(number) not in known]
    for directory in (*own, *known, *more):
        directory.mkdir(mode=0o755, exist_ok=True)
        lock = os.open(directory / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        os.ftruncate(lock, 0)
        os.pwrite(lock, b"%d\n" % os.getpid(), 0)
        (directory / "node").write_text(node)
        return directory, lock
    raise ExecutorUnavailable(f"another agent of this machine took the last directory in {root}; try again")


def _read_owner(directory: Path) -> str:
    with suppress(FileNotFoundError):
        return (directory / "node").read_text()
    return ""


@dataclass(slots=True)
class _SavedState:
    """What is known about the checkpoint of an open workspace."""

    fingerprint: str = ""
    is_dirty: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    task: asyncio.Task[None] | None = None


class WorkspaceCheckpoints:
    """Saved workspaces in an object store. Only drivers have its credentials; files pass through them.

    A checkpoint has the files in work/, out/ and runs/ and those that commands added to skills or changed there,
    without links and empty directories. Its name begins with the epoch, so that a driver with a lower one cannot
    replace it.
    """

    def __init__(self, store: ObjectStore, delay: float) -> None:
        self._store = store
        self._delay = delay
        self._states: dict[str, _SavedState] = {}

    def schedule(self, workspace: RemoteWorkspace) -> None:
        """Save a changed workspace soon; changes until then are saved together."""
        state = self._states.setdefault(workspace.id, _SavedState())
        state.is_dirty = True
        if state.task is None or state.task.done():
            state.task = asyncio.ensure_future(self._save_later(workspace, state))

    async def save(self, workspace: RemoteWorkspace) -> None:
        """Save a workspace now if it has changed. A failure becomes a note for the user."""
        state = self._states.setdefault(workspace.id, _SavedState())
        async with state.lock:
            if not state.is_dirty or workspace.attachment.is_lost:
                return
            state.is_dirty = False
            try:
                await self._save(workspace.attachment, state)
            except (SkillError, OSError) as error:
                state.is_dirty = True
                count("openskills.ray.failed_checkpoints")
                workspace.add_note(f"the workspace could not be saved to {self._store.place}: {error}")

    def is_dirty(self, id_: str) -> bool:
        """Whether a workspace has changed since it was saved."""
        return id_ in self._states and self._states[id_].is_dirty

    async def restore(self, attachment: WorkspaceAttachment) -> datetime | None:
        """Write the last checkpoint of an older epoch to a new workspace; returns when it was saved, or None."""
        stored = await self._store.list(f"{_CHECKPOINTS}/{attachment.id}")
        saved = [one for one in stored if int(one.name.rpartition("/")[2].partition("-")[0]) < attachment.epoch]
        if not saved:
            return None
        await send_content(attachment, "import_begin", {}, self._store.stream(saved[-1].name))
        self._states.pop(attachment.id, None)
        count("openskills.ray.restored_workspaces")
        return saved[-1].updated

    async def remove(self, id_: str) -> bool:
        """Remove the checkpoints of a workspace; false if there are none."""
        self.close(id_)
        saved = await self._store.list(f"{_CHECKPOINTS}/{id_}")
        await self._store.delete([one.name for one in saved])
        return bool(saved)

    def close(self, id_: str) -> None:
        """Forget what is known about a workspace that was closed."""
        state = self._states.pop(id_, None)
        if state is not None and state.task is not None:
            state.task.cancel()

    async def _save_later(self, workspace: RemoteWorkspace, state: _SavedState) -> None:
        while state.is_dirty and not workspace.is_closed and not workspace.attachment.is_lost:
            await asyncio.sleep(self._delay)
            await self.save(workspace)

    async def _save(self, attachment: WorkspaceAttachment, state: _SavedState) -> None:
        name = f"{_CHECKPOINTS}/{attachment.id}/{attachment.epoch:020d}-{time.time_ns():020d}"
        async with open_content(attachment, "export", {"fingerprint": state.fingerprint}) as (value, chunks):
            if not value["is_open"]:
                return
            await self._store.put(name, chunks)
        state.fingerprint = str(value["fingerprint"])
        count("openskills.ray.saved_workspaces")
        stored = await self._store.list(f"{_CHECKPOINTS}/{attachment.id}")
        await self._store.delete([one.name for one in stored if one.name < name])


class RayExecutor(AsyncCloseable):
    """Workspaces on the nodes of a cluster; implements `Executor`."""

    name = "ray"

    def __init__(self, settings: Settings, connect: Callable[[], "DirectoryClient"], options: RayOptions) -> None:
        self._connect = connect
        self._options = options
        store = open_object_store(settings.storage, settings) if settings.storage else None
        self._checkpoints = None if store is None else WorkspaceCheckpoints(store, options.checkpoint_delay)
        self._snapshots = SnapshotStore(settings.state_dir / "snapshots")
        self._holder = secrets.token_hex(8)
        self._requests = None if store is None else SharedRequests(store, self._holder)
        self._journals = settings.state_dir / "journals"
        self._directory: DirectoryClient | None = None
        self._connecting = CrossLoopLock()
        self._locks: WeakValueDictionary[str, CrossLoopLock] = WeakValueDictionary()
        self._open: dict[str, RemoteWorkspace] = {}
        self._clients: LoopLocal[dict[str, NodeClient]] = LoopLocal(_make_clients)
        self._client_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._moving: dict[str, asyncio.Task[None]] = {}

    async def check(self) -> Isolation:
        """See `Executor.check`. The weakest isolation of the nodes that can run commands."""
        found = await self._call_directory("check", timeout=_START_TIMEOUT)
        return min(map(Isolation, found), key=_STRONGEST_LAST.index)

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        """See `Executor.snapshot`. Nodes get the files when a workspace of theirs stages it."""
        return await run_in_thread(lambda: self._snapshots.take(name, directory))

    async def open(self, key: str) -> RemoteWorkspace:
        """See `Executor.open`. Raises `TooManyRequests` if no node has room for long."""
        id_ = compute_workspace_id(key)
        async with self._locks.setdefault(id_, CrossLoopLock()):
            workspace = self._open.get(id_)
            if workspace is None or workspace.is_closed or workspace.attachment.is_lost:
                self._open = {other: one for other, one in self._open.items() if not one.is_closed}
                await self._call_directory("check", timeout=_START_TIMEOUT)
                attach = partial(self._attach, key, id_)
                attachment = await attach(None)
                saved = self._checkpoints
                workspace = self._open[id_] = RemoteWorkspace(
                    id_,
                    attachment,
                    attach,
                    self._snapshots,
                    make_private(self._journals / id_) / "journal",
                    requests=self._requests,
                    on_change=saved.schedule if saved is not None else None,
                    on_save=saved.save if saved is not None else None,
                    on_close=self._release,
                )
            return workspace

    async def remove(self, key: str) -> bool:
        id_ = compute_workspace_id(key)
        async with self._locks.setdefault(id_, CrossLoopLock()):
            workspace = self._open.pop(id_, None)
            if workspace is not None:
                await workspace.close()
            removed = await self._checkpoints.remove(id_) if self._checkpoints is not None else False
            if self._requests is not None:
                await self._requests.remove(id_)
            if (self._journals / id_).is_dir():
                await run_in_thread(lambda: delete_tree(self._journals / id_))
            place = await self._call_directory("find", id_=id_)
            if place is None:
                return removed
            removed = True
            if not place["is_lost"]:
                client = await self._get_client(place)
                named = {"key": key, "id": id_, "epoch": place["epoch"], "holder": self._holder}
                removed, _ = await client.call("remove_workspace", named)
            await self._call_directory("forget", id_=id_, epoch=place["epoch"])
            return bool(removed)

    async def close(self) -> None:
        """See `Executor.close`. The connection of this process to Ray stays."""
        loop = asyncio.get_running_loop()
        moving = [task for task in self._moving.values() if task.get_loop() is loop]
        for task in moving:
            task.cancel()
        await asyncio.gather(*moving, return_exceptions=True)
        if self._checkpoints is not None:
            for workspace in self._open.values():
                await workspace.close()
                self._checkpoints.close(workspace.id)
        for client in (await self._clients.pop() or {}).values():
            await client.leave()
        for workspace in self._open.values():
            await workspace.close()
        self._open.clear()

    async def status(self) -> Mapping[str, Any]:
        """The nodes with their address, isolation or fault, load and limits, and what waits for room."""
        return await self._call_directory("report")

    async def drain(self, node: str, *, is_draining: bool = True) -> Mapping[str, Any]:
        """Give a node no more work. Returns its status; `status` shows when it has no open workspaces any more.

        With OPENSKILL_STORAGE its workspaces are saved and moved by their drivers, as soon as no command runs in them.
        Raises `InvalidArgument` for an unknown node. `is_draining=False` undoes it.
        """
        return await self._call_directory("drain", node=node, is_draining=is_draining)

    async def _call_directory(self, name: str, **arguments: Any) -> Any:
        async with self._connecting:
            if self._directory is None:
                self._directory = await run_in_thread(self._connect)
        return await self._directory.call(name, **arguments)

    async def _release(self, workspace: RemoteWorkspace) -> None:
        await self._call_directory("release", id_=workspace.id, node=workspace.node)

    async def _attach(self, key: str, id_: str, previous: WorkspaceAttachment | None) -> WorkspaceAttachment:
        """Open the workspace where the directory says, until that works or takes too long."""
        can_move = is_saved = self._checkpoints is not None
        leaving = previous if previous is not None and not previous.is_lost else None
        if self._checkpoints is not None and leaving is not None and id_ in self._open:
            await self._checkpoints.save(self._open[id_])
            # Its files are on the old node only: better there than without them.
            is_saved = not self._checkpoints.is_dirty(id_)
        deadline = read_clock() + self._options.queue_timeout + LOST_FACTOR * self._options.lease
        while True:
            timeout = self._options.queue_timeout
            place = await self._call_directory("place", id_=id_, timeout=timeout, move=is_saved)
            stays = leaving is not None and leaving.epoch == place["epoch"]
            named = {"key": key, "id": id_, "epoch": place["epoch"], "holder": self._holder}
            try:
                client = await self._get_client(place)
                value, _ = await client.call("open", {**named, "can_move": can_move, "stays": stays})
                attachment = WorkspaceAttachment(
                    client, id_, int(place["epoch"]), str(value["root"]), Isolation(value["isolation"])
                )
                notes = await self._fill(attachment, place, previous) if value["is_new"] else ()
                break
            except (ChannelClosed, WorkspaceMoved) as error:
                if read_clock() > deadline:
                    raise ExecutorUnavailable(
                        f"node {place['node'][:12]} has the workspace and cannot be used: {error.message}"
                    ) from None
                await asyncio.sleep(RETRY_PAUSE)
        if leaving is not None and not stays and not leaving.is_lost:
            await leaving.client.call("remove_workspace", {**named, "epoch": leaving.epoch})
        if previous is not None and previous.is_lost and not value["is_new"]:
            notes = (f"the connection to node {previous.client.node[:12]} was lost; running commands were killed",)
        return replace(attachment, notes=notes)

    async def _fill(
        self, attachment: WorkspaceAttachment, place: Mapping[str, Any], previous: WorkspaceAttachment | None
    ) -> tuple[str, ...]:
        """Write the last checkpoint to a new workspace; returns what the user has to know."""
        checkpoints, id_ = self._checkpoints, attachment.id
        was_dirty = checkpoints is not None and checkpoints.is_dirty(id_)
        saved_at = await checkpoints.restore(attachment) if checkpoints is not None else None
        await attachment.client.call("settle", name_workspace(attachment))
        before = place["moved_from"] or ("" if previous is None else previous.client.node)
        if not before and saved_at is None:
            return ()
        count("openskills.ray.moved_workspaces")
        moved = f"the workspace was opened again on node {attachment.client.node[:12]}"
        if previous is not None and not previous.is_lost:
            return (f"{moved}, because node {before[:12]} is being drained",)
        why = f"node {before[:12]} was lost, and {moved}" if before else moved
        if saved_at is None:
            return (f"{why} without its files, because it had not been saved; commands that were running were killed",)
        lost = "later changes are lost" if previous is None or was_dirty else "nothing has changed since"
        files = f"with its files of {saved_at:%Y-%m-%d %H:%M:%S} UTC; {lost}"
        return (f"{why} {files}; commands that were running were killed",)

    def _move_later(self, ids: list[str]) -> None:
        """Move workspaces of a node that is being drained, unless that is under way."""
        for id_ in ids:
            workspace = self._open.get(id_)
            if workspace is not None and id_ not in self._moving:
                task = self._moving[id_] = asyncio.ensure_future(self._move(workspace))
                task.add_done_callback(lambda _, id_=id_: self._moving.pop(id_, None))

    async def _move(self, workspace: RemoteWorkspace) -> None:
        try:
            await workspace.move()
        except SkillError as error:
            count("openskills.ray.failed_moves")
            workspace.add_note(f"the workspace could not be moved from node {workspace.node[:12]}: {error.message}")

    async def _get_client(self, place: Mapping[str, Any]) -> NodeClient:
        clients = await self._clients.get()
        identity = f"{place['host']}:{place['port']}:{place['token']}"
        lock = self._client_locks.setdefault(f"{id(clients)}:{identity}", asyncio.Lock())
        async with lock:
            client = clients.get(identity)
            if client is None or client.is_closed:
                timeout = max(LOST_FACTOR * place["lease"], 3.0)
                client = clients[identity] = await NodeClient.open(place, timeout=timeout, on_drain=self._move_later)
            return client


async def _make_clients() -> dict[str, NodeClient]:
    return {}


def compute_workspace_id(key: str) -> str:
    """The id of a workspace in the cluster."""
    return WorkspaceStore.id_from_key(key, "ray")
