"""The driver's side of a node: workspaces and processes that live there.

A workspace survives the loss of its node: the next call opens it on another node, with a higher epoch and the files of
its last checkpoint. Nothing that was being executed is repeated; it counts as interrupted.
"""

import asyncio
import hashlib
import secrets
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from openskills.artifacts.objects import ObjectStore
from openskills.artifacts.store import Content, split_content
from openskills.concurrency import run_in_thread, shield_until_done
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.package_index import PackageIndex
from openskills.executors.protocol import WorkspaceFileReader
from openskills.executors.ray.channel import (
    Channel,
    ChannelClosed,
    Reply,
    WorkspaceMoved,
    connect,
    error_from_json,
    result_from_message,
)
from openskills.executors.ray.node import list_skill_entries
from openskills.executors.spec import (
    CapturedOutput,
    Command,
    CommandResult,
    EndReason,
    FileInfo,
    Isolation,
    OutputStream,
    PackageEnvironment,
    ProcessOutput,
    SkillSnapshot,
    WorkspaceListing,
    WorkspaceUsage,
    build_reader,
)
from openskills.executors.staging.packages import PackageSet
from openskills.executors.staging.snapshots import SnapshotStore

_CHUNK = 1024 * 1024
_LOST_CODE = 137
_REQUESTS = "requests"
_MAX_MOVES = 3
_MAX_ENVIRONMENTS = 1000
_MARK_BITS = 64
_Result = TypeVar("_Result")
_WantedPackages = tuple[PackageSet, PackageIndex | None]
"""Packages, and the index to install them from; None means the settings of the node."""
_read_environment, _read_file = build_reader(PackageEnvironment), build_reader(FileInfo)
_read_listing, _read_usage = build_reader(WorkspaceListing), build_reader(WorkspaceUsage)
_CLOSED = "the workspace is closed; open it again"


class NodeClient(Channel):
    """A connection to a node in one event loop, with the commands that were started through it.

    `offers` are locks for skills that are being sent, by their digests. `on_drain` gets the ids of workspaces that
    should move, every few seconds while the node is being drained.
    """

    def __init__(
        self,
        node: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        timeout: float,
        on_drain: Callable[[list[str]], None],
    ) -> None:
        super().__init__(reader, writer, timeout=timeout)
        self.node = node
        self.offers: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._on_drain = on_drain
        self._processes: dict[str, RemoteProcess] = {}
        self._progress: dict[str, Callable[[str], None]] = {}

    @classmethod
    async def open(
        cls, place: Mapping[str, Any], *, timeout: float, on_drain: Callable[[list[str]], None]
    ) -> "NodeClient":
        """Connect to the node of a place that the directory has given. Raises `ExecutorUnavailable`."""
        streams = await connect(place["host"], place["port"], bytes.fromhex(place["token"]), timeout=timeout)
        return cls(place["node"], *streams, timeout=timeout, on_drain=on_drain)

    @contextmanager
    def report_progress(self, report: Callable[[str], None] | None) -> Generator[dict[str, Any]]:
        """Pass lines about a request that takes long to `report`; gives the arguments that identify it."""
        if report is None:
            yield {}
            return
        id_ = secrets.token_hex(8)
        self._progress[id_] = report
        try:
            yield {"progress": id_}
        finally:
            del self._progress[id_]

    async def leave(self) -> None:
        """Kill everything that was started through it, close its workspaces, and disconnect."""
        try:
            # When the connection ends, the node does the same.
            with suppress(ExecutorUnavailable):
                await self.call("leave", {})
        finally:
            self.close("closed by this driver")

    async def start(self, process: "RemoteProcess", arguments: dict[str, Any], stdin: bytes) -> None:
        """Start a command on the node; its result is passed to this process."""
        self._processes[process.id] = process
        try:
            await self.call("start", {**arguments, "handle": process.id}, stdin)
        except BaseException:
            self._processes.pop(process.id, None)
            # It may have been started before this was cancelled.
            self.notify("kill", {"handle": process.id})
            raise

    def _on_event(self, name: str, value: dict[str, Any], body: bytes) -> None:
        if name == "draining":
            self._on_drain([str(id_) for id_ in value["workspaces"]])
        elif name == "progress" and (report := self._progress.get(str(value["progress"]))) is not None:
            report(str(value["line"]))
        elif name == "ended" and (process := self._processes.pop(str(value["handle"]), None)) is not None:
            if "error" in value:
                process.fail(error_from_json(value["error"]))
            else:
                process.finish(result_from_message(value, body))

    def _on_close(self, reason: str) -> None:
        for process in self._processes.values():
            process.lose(f"the connection to node {self.node} ended{reason and ': '}{reason}")
        self._processes.clear()


class RemoteProcess:
    """A command on a node; implements `Process`. If the node is lost, its result is `INTERRUPTED`."""

    def __init__(self, client: NodeClient, notes: Callable[[], tuple[str, ...]]) -> None:
        self.id = secrets.token_hex(8)
        self._client = client
        self._notes = notes
        self._ended: asyncio.Future[CommandResult] = asyncio.get_running_loop().create_future()

    def add_done_callback(self, act: Callable[[], None]) -> None:
        """Call `act` once it has ended."""
        self._ended.add_done_callback(lambda _: act())

    async def write(self, data: bytes) -> int:
        if self._ended.done() and self._client.is_closed:
            raise InvalidArgument("process", "has ended and takes no more input")
        # A pipe takes 64 KiB at once.
        value, _ = await self._client.call("input", {"handle": self.id}, bytes(data[:_CHUNK]))
        return int(value)

    async def close_input(self) -> None:
        if not (self._ended.done() and self._client.is_closed):
            await self._client.call("close_input", {"handle": self.id})

    async def read(
        self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: OutputStream = OutputStream.BOTH
    ) -> ProcessOutput:
        """See `Process.read`. After the node is lost there is no more output."""
        arguments = {"handle": self.id, "offset": offset, "wait": wait, "limit": limit, "stream": str(stream)}
        try:
            value, data = await self._client.call("read", arguments)
        except ChannelClosed:
            return ProcessOutput(b"", offset, offset, ended=True)
        begin, end, missed, ended = value
        return ProcessOutput(data, int(begin), int(end), int(missed), bool(ended))

    async def is_waiting(self) -> bool:
        if self._ended.done():
            return False
        value, _ = await self._client.call("is_waiting", {"handle": self.id})
        return bool(value)

    async def resize(self, rows: int, columns: int) -> None:
        await self._client.call("resize", {"handle": self.id, "rows": rows, "columns": columns})

    async def kill(self) -> None:
        if not self._ended.done():
            try:
                await self._client.call("kill", {"handle": self.id})
            except ChannelClosed:
                # The node kills it because the connection has ended.
                return
            await asyncio.wait([self._ended])

    async def wait(self) -> CommandResult:
        return await asyncio.shield(self._ended)

    def finish(self, result: CommandResult) -> None:
        """The command has ended."""
        if not self._ended.done():
            self._ended.set_result(replace(result, notes=(*self._notes(), *result.notes)))

    def fail(self, error: Exception) -> None:
        """The command could not be run."""
        if not self._ended.done():
            self._ended.set_exception(error)
            # Keep asyncio from logging it if nothing awaits the result.
            self._ended.exception()

    def lose(self, why: str) -> None:
        """The node is lost; how far the command got is unknown."""
        nothing = CapturedOutput()
        self.finish(CommandResult(_LOST_CODE, EndReason.INTERRUPTED, 0, nothing, nothing, detail=why))


@dataclass(frozen=True, slots=True)
class WorkspaceAttachment:
    """A workspace on one node: its id in the cluster, its epoch, and what the node said about it."""

    client: NodeClient
    id: str
    epoch: int
    root: str
    isolation: Isolation
    notes: tuple[str, ...] = ()

    @property
    def is_lost(self) -> bool:
        """Whether the connection to the node has ended."""
        return self.client.is_closed


AttachFunction = Callable[["WorkspaceAttachment | None"], Awaitable[WorkspaceAttachment]]
"""Opens the workspace, on another node if the one of the last attachment is lost."""


class SharedRequests:
    """The requests that drivers have begun, in an object store."""

    def __init__(self, store: ObjectStore, holder: str) -> None:
        self._store = store
        self._holder = holder.encode()

    async def claim(self, workspace: str, request_id: str) -> bool:
        """Record a request; false if another driver did."""
        name = self._name(workspace, request_id)
        return await self._store.create(name, self._holder) or await self._store.read(name) == self._holder

    async def release(self, workspace: str, request_id: str) -> None:
        """Remove the record of a request."""
        await self._store.delete([self._name(workspace, request_id)])

    async def remove(self, workspace: str) -> None:
        """Remove the records of a workspace."""
        await self._store.delete([one.name for one in await self._store.list(f"{_REQUESTS}/{workspace}")])

    def _name(self, workspace: str, request_id: str) -> str:
        return f"{_REQUESTS}/{workspace}/{hashlib.sha256(request_id.encode()).hexdigest()}"


class RemoteWorkspace:
    """A workspace on a node; implements `Workspace`. It belongs to the event loop that opened it."""

    interpreter: str | None = None

    def __init__(
        self,
        id_: str,
        attachment: WorkspaceAttachment,
        attach: AttachFunction,
        snapshots: SnapshotStore,
        journal: Path,
        *,
        requests: SharedRequests | None = None,
        on_change: Callable[["RemoteWorkspace"], None] | None = None,
        on_save: Callable[["RemoteWorkspace"], Awaitable[None]] | None = None,
        on_close: Callable[["RemoteWorkspace"], Awaitable[None]] | None = None,
    ) -> None:
        self.id = id_
        """The id in the cluster."""
        self.attachment = attachment
        """Where it is now."""
        self.journal = journal
        """See `RequestKeeper.journal`."""
        self.is_closed = False
        """Whether it can no longer be used."""
        self._attach = attach
        self._snapshots = snapshots
        self._requests = requests
        self._on_change = on_change
        self._on_save = on_save
        self._on_close = on_close
        self._notes = list(attachment.notes)
        self._staged: dict[str, SkillSnapshot] = {}
        self._marked_skills: dict[int, str] = {}
        self._wanted: dict[PackageEnvironment, _WantedPackages] = {}
        self._attaching = asyncio.Lock()
        self._is_stale = False
        self._has_run_commands = False

    @property
    def root(self) -> str:
        return self.attachment.root

    @property
    def isolation(self) -> Isolation:
        return self.attachment.isolation

    @property
    def node(self) -> str:
        """The node that has it now."""
        return self.attachment.client.node

    async def claim_request(self, request_id: str) -> bool:
        """See `RequestKeeper.claim_request`. Without a store, other drivers do not know the requests of this one."""
        return self._requests is None or await self._requests.claim(self.id, request_id)

    async def release_request(self, request_id: str) -> None:
        if self._requests is not None:
            await self._requests.release(self.id, request_id)

    async def stage(self, snapshot: SkillSnapshot) -> int:
        """See `Workspace.stage`. The files are sent once to each node."""
        attachment, found = await self._repeat(lambda attachment: self._stage(attachment, snapshot))
        mark = _add_epoch(found, attachment)
        self._staged[snapshot.name] = snapshot
        self._marked_skills[mark] = snapshot.name
        return mark

    async def find_packages(self, packages: PackageSet, index: PackageIndex | None) -> PackageEnvironment | None:
        """See `PackageProvider.find_packages`. An environment belongs to a node; another one builds it when needed."""
        wanted = (packages, index)
        value, _ = await self._call("find_packages", {"wanted": wanted})
        return None if value is None else self._remember_environment(value, wanted)

    async def install_packages(
        self, packages: PackageSet, index: PackageIndex | None, *, progress: Callable[[str], None] | None = None
    ) -> PackageEnvironment:
        wanted = (packages, index)
        _, (value, _) = await self._request("install_packages", {"wanted": wanted}, progress=progress)
        return self._remember_environment(value, wanted)

    def _remember_environment(self, value: Any, wanted: _WantedPackages) -> PackageEnvironment:
        """Commands with this environment get that of the node where they are started."""
        found: PackageEnvironment = _read_environment(value)
        self._wanted.pop(found, None)
        self._wanted[found] = wanted
        while len(self._wanted) > _MAX_ENVIRONMENTS:
            self._wanted.pop(next(iter(self._wanted)))
        return found

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        arguments = {"path": path, "executable": executable}
        if isinstance(data, bytes) and len(data) <= _CHUNK:
            value, _ = await self._call("write", arguments, data)
        else:
            _, value = await self._repeat(lambda attachment: send_content(attachment, "write_begin", arguments, data))
        self._report_change()
        return _read_file(value)

    async def link(self, path: str, target: str) -> None:
        await self._call("link", {"path": path, "target": target})
        self._report_change()

    async def make_directory(self, path: str) -> None:
        await self._call("make_directory", {"path": path})

    async def remove(self, path: str) -> bool:
        value, _ = await self._call("remove", {"path": path})
        self._report_change()
        return bool(value)

    @asynccontextmanager
    async def open(self, path: str) -> AsyncGenerator[WorkspaceFileReader]:
        async with AsyncExitStack() as stack:
            _, (value, chunks) = await self._repeat(
                lambda attachment: stack.enter_async_context(open_content(attachment, "open_file", {"path": path}))
            )
            yield WorkspaceFileReader(_read_file(value["info"]), chunks)

    async def mark(self) -> int:
        attachment, (value, _) = await self._request("mark", {})
        return _add_epoch(int(value), attachment)

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> WorkspaceListing:
        # A mark is a time of the clock of one node. If the workspace has moved since, the node finds its own.
        epoch, mark = divmod(since, 1 << _MARK_BITS) if since is not None else (0, None)
        marked = {"since": mark, "since_epoch": epoch or None, "skill": self._marked_skills.get(since or 0)}
        value, _ = await self._call("list", {"globs": list(globs), "limit": limit, **marked})
        return _read_listing(value)

    async def start(self, command: Command) -> RemoteProcess:
        """See `Workspace.start`. Raises `TooManyRequests` if too many commands run on the node for too long."""
        wanted = {"command": replace(command, stdin=b""), "wanted": self._wanted.get(command.packages)}

        async def start(attachment: WorkspaceAttachment) -> RemoteProcess:
            process = RemoteProcess(attachment.client, self._take_notes)
            await attachment.client.start(process, name_workspace(attachment) | wanted, command.stdin)
            return process

        _, process = await self._repeat(start)
        self._has_run_commands = True
        process.add_done_callback(self._report_change)
        return process

    async def usage(self) -> WorkspaceUsage:
        value, _ = await self._call("usage", {})
        return _read_usage(value)

    async def move(self) -> None:
        """Open it where the directory says now, with its files. Raises `SkillError` if that is impossible."""
        if self.is_closed:
            return
        # The node may say that nothing runs before the result of a command is here: save in any case.
        self._report_change()
        # A change that begins meanwhile is refused by the draining node, and waits for this.
        self._is_stale = True
        attachment = await self._get_attachment()
        if self.is_closed:
            await self._close_there(attachment)

    async def close(self) -> None:
        """See `Workspace.close`. Changes are saved first."""
        if self.is_closed:
            return
        if self._has_run_commands:
            # Commands may be running, or have ended this moment: save in any case.
            self._report_change()
        self.is_closed = True
        attachment = self.attachment
        if not attachment.is_lost:
            await shield_until_done(self._close_there(attachment))

    async def _close_there(self, attachment: WorkspaceAttachment) -> None:
        try:
            if self._on_save is not None:
                await attachment.client.call("kill_workspace", name_workspace(attachment))
                await self._on_save(self)
        finally:
            if not attachment.is_lost:
                await attachment.client.call("close", name_workspace(attachment))
                if self._on_close is not None:
                    await self._on_close(self)

    def add_note(self, note: str) -> None:
        """Tell the user something with the next result."""
        if note not in self._notes:
            self._notes.append(note)

    def _take_notes(self) -> tuple[str, ...]:
        """What the user has to know, once: it goes into the next result."""
        notes = tuple(self._notes)
        self._notes.clear()
        return notes

    def _report_change(self) -> None:
        if self._on_change is not None and not self.is_closed:
            self._on_change(self)

    async def _get_attachment(self) -> WorkspaceAttachment:
        if self.is_closed:
            raise ExecutorUnavailable(_CLOSED)
        if not self.attachment.is_lost and not self._is_stale:
            return self.attachment
        async with self._attaching:
            if self.attachment.is_lost or self._is_stale:
                attachment = await self._attach(self.attachment)
                for snapshot in self._staged.values():
                    await self._stage(attachment, snapshot)
                self.attachment, self._is_stale = attachment, False
                self._notes += attachment.notes
        return self.attachment

    async def _call(self, name: str, arguments: dict[str, Any], body: bytes = b"") -> Reply:
        _, reply = await self._request(name, arguments, body)
        return reply

    async def _request(
        self,
        name: str,
        arguments: dict[str, Any],
        body: bytes = b"",
        *,
        progress: Callable[[str], None] | None = None,
    ) -> tuple[WorkspaceAttachment, Reply]:
        """The reply of the node that has the workspace now, and where that is. `progress` gets lines until then."""

        async def call(attachment: WorkspaceAttachment) -> Reply:
            with attachment.client.report_progress(progress) as build:
                return await attachment.client.call(name, name_workspace(attachment) | arguments | build, body)

        return await self._repeat(call)

    async def _repeat(
        self, action: Callable[[WorkspaceAttachment], Awaitable[_Result]]
    ) -> tuple[WorkspaceAttachment, _Result]:
        """Do something where the workspace is now, and again elsewhere if it has moved; returns where it succeeded."""
        for _ in range(_MAX_MOVES):
            attachment = await self._get_attachment()
            try:
                return attachment, await action(attachment)
            except WorkspaceMoved:
                # Nothing was executed, so that it may be repeated elsewhere.
                if self.is_closed:
                    raise ExecutorUnavailable(_CLOSED) from None
                if attachment is self.attachment:
                    self._is_stale = True
        raise ExecutorUnavailable("the workspace was moved several times; try again later")

    async def _stage(self, attachment: WorkspaceAttachment, snapshot: SkillSnapshot) -> int:
        arguments = name_workspace(attachment) | {"name": snapshot.name, "digest": snapshot.digest}
        arguments |= {"files": snapshot.files, "size": snapshot.size}
        # Sent once, also if several workspaces need it at the same time.
        async with attachment.client.offers.setdefault(snapshot.digest, asyncio.Lock()):
            value, _ = await attachment.client.call("stage", arguments)
            if "missing" in value:
                await self._send_skill(attachment.client, snapshot.digest)
                value, _ = await attachment.client.call("stage", arguments)
        return int(value["mark"])

    async def _send_skill(self, client: NodeClient, digest: str) -> None:
        """Send the files of a snapshot that the node has not got from another skill or version."""
        folder = self._snapshots.path(digest)
        if not folder.is_dir():
            raise InvalidArgument("snapshot", f"unknown snapshot {digest}; take it with the same executor")
        entries = await run_in_thread(lambda: list_skill_entries(folder))
        offer, _ = await client.call("offer_skill", {"entries": entries})
        for position in offer["wanted"]:
            await self._send_file(client, offer["upload"], int(position), folder / entries[int(position)][1])
        await client.call("skill_end", {"upload": offer["upload"], "digest": digest})

    async def _send_file(self, client: NodeClient, upload: str, position: int, path: Path) -> None:
        with path.open("rb") as file:
            while True:
                piece = await run_in_thread(lambda: file.read(_CHUNK))
                await client.call("skill_data", {"upload": upload, "file": position}, piece)
                if len(piece) < _CHUNK:
                    return


def name_workspace(attachment: WorkspaceAttachment) -> dict[str, Any]:
    """The arguments of each request about a workspace."""
    return {"workspace": attachment.id, "epoch": attachment.epoch}


async def send_content(attachment: WorkspaceAttachment, name: str, arguments: dict[str, Any], data: Content) -> Any:
    """Send content to the write that a request begins, and return its result. If this fails, nothing is written."""
    client, handle = attachment.client, {"handle": secrets.token_hex(8)}
    try:
        await client.call(name, name_workspace(attachment) | arguments | handle)
        async for chunk in _iterate_content(data):
            await client.call("write_data", handle, chunk)
        value, _ = await client.call("write_end", handle)
    except BaseException:
        # It may have begun although the reply was lost.
        if not client.is_closed:
            await shield_until_done(client.call("write_abort", handle))
        raise
    return value


@asynccontextmanager
async def open_content(
    attachment: WorkspaceAttachment, name: str, arguments: dict[str, Any]
) -> AsyncGenerator[tuple[Any, AsyncGenerator[bytes]]]:
    """The reply to a request that opens files, and their content. Without `is_open` in it, that is complete."""
    client, handle = attachment.client, {"handle": secrets.token_hex(8)}
    is_open = True
    try:
        value, first = await client.call(name, name_workspace(attachment) | arguments | handle)
        is_open = bool(value["is_open"])
        yield value, _receive_content(client, handle if is_open else None, first)
    finally:
        if is_open:
            client.notify("close_file", handle)


async def _receive_content(client: NodeClient, handle: dict[str, Any] | None, piece: bytes) -> AsyncGenerator[bytes]:
    if piece:
        yield piece
    while handle is not None:
        _, piece = await client.call("read_file", handle)
        if not piece:
            return
        yield piece


def _add_epoch(mark: int, attachment: WorkspaceAttachment) -> int:
    return attachment.epoch << _MARK_BITS | mark


async def _iterate_content(data: Content) -> AsyncGenerator[bytes]:
    async for chunk in split_content(data, limit=sys.maxsize):
        for begin in range(0, len(chunk), _CHUNK):
            yield chunk[begin : begin + _CHUNK]
