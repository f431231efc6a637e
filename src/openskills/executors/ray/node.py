"""The server on a node: it holds the node's workspaces and runs commands in them with the node's executor.

A connection is a lease: when it ends, the commands that were started through it are killed and its workspaces are
closed. The node itself holds a lease of the directory. Without it, workspaces may have been reopened elsewhere, so
nothing is started or changed until it is renewed and stale workspaces have been dropped.
"""

import asyncio
import hashlib
import secrets
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

from openskills.concurrency import run_in_thread, shield_until_done
from openskills.errors import ExecutorUnavailable, InvalidArgument, SkillError, TooManyRequests
from openskills.executors.checkpoints import apply_skill_changes, export_files, find_saved_files, import_files
from openskills.executors.environments import PackageBuilder
from openskills.executors.files.descriptors import delete_tree
from openskills.executors.package_index import PackageIndex
from openskills.executors.protocol import Process
from openskills.executors.ray.channel import (
    Channel,
    Reply,
    WorkspaceMoved,
    check_driver,
    error_to_json,
    result_to_message,
)
from openskills.executors.ray.placement import NodeLease, NodeLimits
from openskills.executors.spec import (
    ENVIRONMENTS,
    Command,
    FileInfo,
    OutputStream,
    PackageEnvironment,
    SkillSnapshot,
    WorkspaceListing,
    build_reader,
)
from openskills.executors.staging.mount import read_record
from openskills.executors.staging.packages import PackageSet
from openskills.executors.staging.snapshots import SnapshotEntryKind, SnapshotStore, check_skill_name, scan_folder
from openskills.executors.workspace import DirectoryExecutor, DirectoryWorkspace
from openskills.filesystem import make_private, replace_file
from openskills.paths import parse_relative
from openskills.settings import Settings
from openskills.telemetry.metrics import count

_EPOCH_FILE = "epoch"
_read_command = build_reader(Command)
_read_packages = build_reader(tuple[PackageSet, PackageIndex | None])
_MAX_ENDED = 1000
# Requests that are methods of `Workspace` and `Process` with the same arguments; the first ones change files.
_CHANGES, _QUERIES = ("link", "make_directory", "remove"), ("mark", "usage")
_PROCESS_CALLS = ("close_input", "is_waiting", "kill", "resize")


@dataclass(slots=True)
class OpenWorkspace:
    """A workspace that drivers have open. `holder` is the executor that it belongs to.

    `can_move`: its driver can open it on another node with its files. `stays`: it tried, and that was impossible, so
    that changes are accepted although the node is being drained. `is_settled`: its files are complete.
    """

    key: str
    epoch: int
    holder: str
    workspace: DirectoryWorkspace
    can_move: bool = False
    stays: bool = False
    is_settled: bool = False
    running: int = 0
    sessions: set["_NodeSession"] = field(default_factory=set["_NodeSession"])


class NodeServer:
    """Serves the workspaces of one executor to drivers that know the token."""

    def __init__(
        self,
        executor: DirectoryExecutor,
        settings: Settings,
        *,
        token: bytes,
        lease: NodeLease,
        limits: NodeLimits,
        timeout: float,
    ) -> None:
        self.executor = executor
        self.lease = lease
        self.limits = limits
        self.settings = settings
        self.snapshots = SnapshotStore(settings.state_dir / "snapshots")
        self.skills = SkillUploads(settings.state_dir / "uploads", self.snapshots)
        self.opened: dict[str, OpenWorkspace] = {}
        self.open_lock = asyncio.Lock()
        self.running = 0
        self.queued = 0
        self.is_draining = False
        self._freed = asyncio.Condition()
        self._token = token
        self._timeout = timeout
        self._sessions: set[_NodeSession] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int = 0) -> int:
        """Accept connections of drivers; returns the port."""
        self._server = await asyncio.start_server(self._accept, host, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Kill everything that runs, and close all connections."""
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*(session.close() for session in list(self._sessions)))
        await self.executor.close()

    async def drop(self, ids: Iterable[str]) -> None:
        """Close and remove workspaces that have been reopened elsewhere. Their commands are killed."""
        for id_ in ids:
            async with self.open_lock:
                held = self.opened.pop(id_, None)
                if held is not None:
                    await held.workspace.close()
                    await self.executor.remove(held.key)

    async def kill_commands(self) -> None:
        """Kill all commands: nobody can get their results any more."""
        await asyncio.gather(*(session.kill_commands() for session in list(self._sessions)))

    def announce_drain(self) -> None:
        """Ask drivers to move their workspaces in which nothing happens."""
        for session in self._sessions:
            session.announce_drain()

    def epochs(self) -> dict[str, int]:
        """The epoch of each workspace that is open."""
        return {id_: held.epoch for id_, held in self.opened.items()}

    async def admit_command(self) -> None:
        """Wait until one more command may run. Raises `TooManyRequests` if too many wait, or for too long."""
        limits = self.limits
        if self.running >= limits.max_commands:
            what = f"{limits.max_commands} commands run on this node, the maximum"
            if self.queued >= limits.max_queue:
                raise TooManyRequests(f"{what}, and {self.queued} wait; try again later")
            self.queued += 1
            try:
                async with asyncio.timeout(limits.queue_timeout), self._freed:
                    await self._freed.wait_for(lambda: self.running < limits.max_commands)
            except TimeoutError:
                raise TooManyRequests(f"{what}; none ended within {limits.queue_timeout:g} s") from None
            finally:
                self.queued -= 1
        self.running += 1

    async def release_command(self) -> None:
        """A command has ended."""
        self.running -= 1
        async with self._freed:
            self._freed.notify()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await check_driver(reader, writer, self._token):
            count("openskills.ray.rejected_connections")
            return
        session = _NodeSession(self, reader, writer, timeout=self._timeout)
        self._sessions.add(session)
        try:
            await session.channel.wait_closed()
        finally:
            await shield_until_done(session.close())
            self._sessions.discard(session)


class SkillUploads:
    """Skills that drivers send to this node, once for each digest. Only files that no known skill has are sent."""

    def __init__(self, directory: Path, snapshots: SnapshotStore) -> None:
        self._directory = directory
        self._snapshots = snapshots
        self._places: dict[str, Path] = {}

    def has(self, digest: str) -> bool:
        """Whether the snapshot is on this node."""
        return self._snapshots.path(digest).is_dir()

    def begin(self, entries: list[Any]) -> "SkillUpload":
        """Create the directories and links of a snapshot, and copy its known files. Blocking."""
        make_private(self._directory)
        upload = SkillUpload(self._directory / secrets.token_hex(8), {})
        upload.folder.mkdir(mode=0o700)
        with ExitStack() as on_failure:
            on_failure.callback(upload.remove)
            for position, (kind, path, detail) in enumerate(entries):
                target = upload.folder / str(parse_relative(path, field="skill"))
                if kind == SnapshotEntryKind.DIRECTORY:
                    target.mkdir(mode=0o700)
                elif kind == SnapshotEntryKind.LINK:
                    upload.links[target] = str(detail)
                else:
                    digest, known = str(detail), self._places.get(str(detail))
                    upload.files[position] = (target, digest, bool(kind == "x"))
                    with suppress(FileNotFoundError):
                        if known is not None:
                            shutil.copyfile(known, target)
                            upload.write(position, b"")
            on_failure.pop_all()
        return upload

    def finish(self, upload: "SkillUpload", digest: str) -> None:
        """Store the snapshot. Raises `InvalidArgument` if its content has another digest. Blocking."""
        try:
            # Last, so that no file is written through a link.
            for link, leads_to in upload.links.items():
                link.symlink_to(leads_to)
            stored = self._snapshots.add(upload.folder)
            if stored != digest:
                raise InvalidArgument("skill", f"the files that arrived have the digest {stored}, not {digest}")
            place = self._snapshots.path(digest)
            for target, file_digest, _ in upload.files.values():
                self._places[file_digest] = place / target.relative_to(upload.folder)
        finally:
            upload.remove()


@dataclass(slots=True)
class SkillUpload:
    """The files of one snapshot that is being received, by their position in its list of entries."""

    folder: Path
    files: dict[int, tuple[Path, str, bool]]
    links: dict[Path, str] = field(default_factory=dict[Path, str])
    received: set[int] = field(default_factory=set[int])

    @property
    def wanted(self) -> list[int]:
        """The positions of the files that have not arrived."""
        return [position for position in self.files if position not in self.received]

    def write(self, position: int, data: bytes) -> None:
        """Append to a file. Blocking."""
        target, _, executable = self.files[position]
        with target.open("ab") as file:
            file.write(data)
        target.chmod(0o700 if executable else 0o600)
        self.received.add(position)

    def remove(self) -> None:
        """Remove what was received. Blocking."""
        delete_tree(self.folder)


class _FileWrite:
    """A file that arrives in pieces."""

    def __init__(self, write: Callable[[AsyncIterator[bytes]], Awaitable[Any]]) -> None:
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(2)
        self._task = asyncio.ensure_future(write(self._iterate()))

    async def add(self, data: bytes | None) -> None:
        """Pass on a piece; None is the end."""
        putting = asyncio.ensure_future(self._pieces.put(data))
        await asyncio.wait([putting, self._task], return_when=asyncio.FIRST_COMPLETED)
        if not putting.done():
            putting.cancel()
            await self._task

    async def finish(self) -> Any:
        """The result of the write, after the last piece."""
        await self.add(None)
        return await self._task

    async def cancel(self) -> None:
        """Stop without writing anything."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()

    async def _iterate(self) -> AsyncGenerator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece


class _NodeAnswer(Protocol):
    """Answers a request with a JSON value, or with a `Reply` if bytes belong to it."""

    __name__: str

    async def __call__(self, arguments: dict[str, Any], body: bytes, /) -> Any: ...


class _NodeSession:
    """One connection of a driver, with its workspaces, commands and open files."""

    def __init__(
        self, server: NodeServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, timeout: float
    ) -> None:
        self._server = server
        self.channel = Channel(reader, writer, handler=self._handle, timeout=timeout)
        self._processes: dict[str, Process] = {}
        self._owners: dict[str, OpenWorkspace] = {}
        self._ended: dict[str, Process] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._files: dict[str, tuple[AsyncExitStack, AsyncIterator[bytes]]] = {}
        self._writes: dict[str, _FileWrite] = {}
        self._uploads: dict[str, SkillUpload] = {}
        self._is_closed = False
        workspaces = (self._open, self._settle, self._close, self._remove_workspace, self._kill_workspace, self._leave)
        packages = (self._find_packages, self._install_packages)
        skills = (self._stage, self._offer_skill, self._skill_data, self._skill_end)
        writes = (self._write, self._write_begin, self._write_data, self._write_end, self._write_abort)
        files = (self._open_file, self._read_file, self._close_file, self._list, self._export, self._import_begin)
        commands = (self._start, self._input, self._read)
        answers: tuple[_NodeAnswer, ...] = (*workspaces, *packages, *skills, *writes, *files, *commands)
        # By the names of the requests.
        self._answers = {answer.__name__[1:]: answer for answer in answers}

    async def _handle(self, name: str, arguments: dict[str, Any], body: bytes) -> Reply:
        """Answer a request."""
        try:
            found = await self._execute(name, arguments, body)
        except KeyError as error:
            raise InvalidArgument("args", f"{name}: unknown or missing {error}") from None
        return cast("Reply", found) if isinstance(found, tuple) else (found, b"")

    async def _execute(self, name: str, arguments: dict[str, Any], body: bytes) -> Any:
        """See `_NodeAnswer`."""
        given = {key: value for key, value in arguments.items() if key not in ("workspace", "epoch", "handle")}
        if name in _CHANGES:
            return await getattr(await self._find_for_change(arguments), name)(**given)
        if name in _QUERIES:
            return await getattr(self._find(arguments).workspace, name)()
        if name in _PROCESS_CALLS:
            return await getattr(self._find_process(arguments), name)(**given)
        if name not in self._answers:
            raise InvalidArgument("call", f"unknown request {name[:80]!r}; use the same version on all machines")
        return await self._answers[name](arguments, body)

    async def close(self) -> None:
        """Kill the commands of this connection and close its workspaces."""
        if self._is_closed:
            return
        self._is_closed = True
        self.channel.close("the node has closed it")
        await self._release()

    async def kill_commands(self) -> None:
        """Kill the commands of this connection."""
        await asyncio.gather(*(process.kill() for process in list(self._processes.values())))

    async def _release(self) -> None:
        await asyncio.gather(*(write.cancel() for write in self._writes.values()))
        self._writes.clear()
        for stack, _ in list(self._files.values()):
            await stack.aclose()
        self._files.clear()
        for upload in list(self._uploads.values()):
            await run_in_thread(upload.remove)
        self._uploads.clear()
        server = self._server
        async with server.open_lock:
            for id_, held in list(server.opened.items()):
                held.sessions.discard(self)
                if not held.sessions:
                    del server.opened[id_]
                    await held.workspace.close()
        await self.kill_commands()
        while self._watchers:
            await asyncio.wait(self._watchers)

    async def _open(self, arguments: dict[str, Any], _: bytes) -> dict[str, Any]:
        server, key, epoch = self._server, str(arguments["key"]), int(arguments["epoch"])
        id_, holder = str(arguments["id"]), str(arguments["holder"])
        await server.lease.check()
        async with server.open_lock:
            held = server.opened.get(id_)
            if held is not None and (held.epoch != epoch or held.workspace.is_closed):
                if held.epoch > epoch:
                    raise WorkspaceMoved(f"the workspace has the epoch {held.epoch} here, not {epoch}")
                del server.opened[id_]
                await held.workspace.close()
                held = None
            _check_holder(held, holder)
            if held is None:
                if len(server.opened) >= server.limits.max_workspaces:
                    raise TooManyRequests(f"{len(server.opened)} workspaces are open on this node, the maximum")
                is_settled = await self._read_epoch(key, epoch) == epoch
                if not is_settled:
                    # Files of an older epoch.
                    await server.executor.remove(key)
                held = OpenWorkspace(key, epoch, holder, await server.executor.open(key), is_settled=is_settled)
                server.opened[id_] = held
            held.holder, held.can_move, held.stays = holder, bool(arguments["can_move"]), bool(arguments["stays"])
            held.sessions.add(self)
        workspace, is_new = held.workspace, not held.is_settled
        return {"id": workspace.id, "root": workspace.root, "isolation": str(workspace.isolation), "is_new": is_new}

    def announce_drain(self) -> None:
        """See `NodeServer.announce_drain`. Not while files are read or written: the next report asks again."""
        held = {id_: one for id_, one in self._server.opened.items() if self in one.sessions and one.can_move}
        idle = [id_ for id_, one in held.items() if not one.running]
        if idle and not (self._writes or self._files):
            for id_ in idle:
                # It is saved now: later changes have to wait for the move.
                held[id_].stays = False
            self.channel.post_event("draining", {"workspaces": idle})

    async def _settle(self, arguments: dict[str, Any], _: bytes) -> None:
        """The files are complete: from now on, they are those of this epoch."""
        held, id_ = self._find(arguments), str(arguments["workspace"])
        path, data = self._find_epoch_file(held.key), f"{held.epoch} {id_}".encode()
        await run_in_thread(lambda: replace_file(path, data))
        held.is_settled = True

    async def _export(self, arguments: dict[str, Any], _: bytes) -> dict[str, Any]:
        """Begin to read all files of the workspace, unless they are those of the given fingerprint."""
        handle, found = self._take_handle(arguments), await find_saved_files(self._find(arguments).workspace)
        is_changed = found.fingerprint != arguments["fingerprint"]
        if is_changed:
            self._files[handle] = (AsyncExitStack(), export_files(found))
        return {"fingerprint": found.fingerprint, "is_open": is_changed}

    async def _import_begin(self, arguments: dict[str, Any], _: bytes) -> None:
        workspace, handle = await self._find_for_change(arguments), self._take_handle(arguments)

        async def restore(pieces: AsyncIterator[bytes]) -> int:
            found = await import_files(workspace, pieces)
            # So that the epoch file is newer than all of them: see `_find_mark`.
            await workspace.mark()
            return found

        self._writes[handle] = _FileWrite(restore)

    async def _read_epoch(self, key: str, epoch: int) -> int | None:
        """The epoch of the files on this node; raises `WorkspaceMoved` if it is higher than this one."""
        stored = await run_in_thread(lambda: read_epoch(self._find_epoch_file(key)))
        if stored is not None and stored > epoch:
            raise WorkspaceMoved(f"the workspace has the epoch {stored} here, not {epoch}")
        return stored

    def _find_epoch_file(self, key: str) -> Path:
        return self._server.executor.find_directory(key).parent / _EPOCH_FILE

    def _find(self, arguments: dict[str, Any]) -> OpenWorkspace:
        held = self._server.opened.get(str(arguments["workspace"]))
        if held is None or self not in held.sessions or held.epoch != arguments["epoch"]:
            raise WorkspaceMoved("the workspace is not open on this node any more")
        return held

    async def _find_for_change(self, arguments: dict[str, Any]) -> DirectoryWorkspace:
        await self._server.lease.check()
        held = self._find(arguments)
        if self._server.is_draining and held.can_move and not (held.stays or held.running):
            raise WorkspaceMoved("this node is being drained")
        return held.workspace

    async def _kill_workspace(self, arguments: dict[str, Any], _: bytes) -> None:
        """Kill the commands of a workspace, so that its files can be saved before it is closed."""
        held = self._server.opened.get(str(arguments["workspace"]))
        if held is not None and held.epoch == arguments["epoch"]:
            found = [process for handle, process in self._processes.items() if self._owners[handle] is held]
            await asyncio.gather(*(process.kill() for process in found))

    async def _close(self, arguments: dict[str, Any], _: bytes) -> None:
        async with self._server.open_lock:
            held = self._server.opened.get(str(arguments["workspace"]))
            if held is not None and self in held.sessions and held.epoch == arguments["epoch"]:
                del self._server.opened[str(arguments["workspace"])]
                await held.workspace.close()

    async def _remove_workspace(self, arguments: dict[str, Any], _: bytes) -> bool:
        server, id_, key, epoch = self._server, str(arguments["id"]), str(arguments["key"]), int(arguments["epoch"])
        await server.lease.check()
        async with server.open_lock:
            _check_holder(server.opened.get(id_), str(arguments["holder"]))
            stored = await self._read_epoch(key, epoch)
            server.opened.pop(id_, None)
            return await server.executor.remove(key) and stored == epoch

    async def _stage(self, arguments: dict[str, Any], _: bytes) -> dict[str, Any]:
        workspace, digest = await self._find_for_change(arguments), str(arguments["digest"])
        if not self._server.skills.has(digest):
            return {"missing": True}
        snapshot = SkillSnapshot(str(arguments["name"]), digest, int(arguments["files"]), int(arguments["size"]))
        mark = await workspace.stage(snapshot)
        await apply_skill_changes(workspace, snapshot)
        return {"mark": mark}

    async def _find_packages(self, arguments: dict[str, Any], _: bytes) -> PackageEnvironment | None:
        packages, builder = self._read_packages(arguments)
        found = await builder.find(packages, self._find(arguments).workspace)
        return None if found is None else found.to_packages()

    async def _install_packages(self, arguments: dict[str, Any], _: bytes) -> PackageEnvironment:
        """Build the environment of some packages on this node, and send its progress as events."""
        workspace, held = await self._find_for_change(arguments), self._find(arguments)
        packages, builder = self._read_packages(arguments)

        def report(line: str) -> None:
            if "progress" in arguments:
                self.channel.post_event("progress", {"progress": arguments["progress"], "line": line})

        # The workspace does not move meanwhile.
        held.running += 1
        try:
            found = await builder.install(packages, workspace, progress=report)
        finally:
            held.running -= 1
        count("openskills.ray.package_requests")
        return found.to_packages()

    async def _provide_packages(self, command: Command, arguments: dict[str, Any]) -> Command:
        """The command with the environment of this node: its workspace may have moved since it was prepared."""
        own = self._server.settings.state_dir / ENVIRONMENTS
        places = [Path(mount) for mount in command.packages.mounts]
        if arguments["wanted"] is None or all(place.is_relative_to(own) and place.is_dir() for place in places):
            return command
        (packages, builder), workspace = self._read_packages(arguments), self._find(arguments).workspace
        found = await builder.find(packages, workspace) or await builder.install(packages, workspace)
        return replace(command, packages=found.to_packages())

    def _read_packages(self, arguments: dict[str, Any]) -> tuple[PackageSet, PackageBuilder]:
        packages, index = _read_packages(arguments["wanted"])
        if index is not None and index.certificates and not index.certificates.is_file():
            missing = f"the certificates {str(index.certificates)!r} are not on the node; copy them there"
            raise InvalidArgument("index", missing)
        return packages, PackageBuilder(self._server.settings, index)

    async def _offer_skill(self, arguments: dict[str, Any], _: bytes) -> dict[str, Any]:
        upload = await run_in_thread(lambda: self._server.skills.begin(list(arguments["entries"])))
        self._uploads[upload.folder.name] = upload
        return {"upload": upload.folder.name, "wanted": upload.wanted}

    async def _skill_data(self, arguments: dict[str, Any], body: bytes) -> None:
        upload, position = self._uploads[str(arguments["upload"])], int(arguments["file"])
        await run_in_thread(lambda: upload.write(position, body))

    async def _skill_end(self, arguments: dict[str, Any], _: bytes) -> None:
        upload, digest = self._uploads.pop(str(arguments["upload"])), str(arguments["digest"])
        await run_in_thread(lambda: self._server.skills.finish(upload, digest))
        count("openskills.ray.skills_received")

    async def _write(self, arguments: dict[str, Any], body: bytes) -> FileInfo:
        workspace = await self._find_for_change(arguments)
        return await workspace.write(str(arguments["path"]), body, executable=bool(arguments["executable"]))

    async def _write_begin(self, arguments: dict[str, Any], _: bytes) -> None:
        workspace, handle = await self._find_for_change(arguments), self._take_handle(arguments)
        path, executable = str(arguments["path"]), bool(arguments["executable"])
        self._writes[handle] = _FileWrite(lambda pieces: workspace.write(path, pieces, executable=executable))

    def _take_handle(self, arguments: dict[str, Any]) -> str:
        """The name of what is begun. The driver chooses it, and can end that also if it never gets the reply."""
        handle = str(arguments["handle"])
        if handle in self._processes or handle in self._ended or handle in self._files or handle in self._writes:
            raise InvalidArgument("handle", "is in use; begin with another one")
        return handle

    async def _write_data(self, arguments: dict[str, Any], body: bytes) -> None:
        await self._writes[str(arguments["handle"])].add(body)

    async def _write_end(self, arguments: dict[str, Any], _: bytes) -> Any:
        write = self._writes.pop(str(arguments["handle"]))
        try:
            return await write.finish()
        except asyncio.CancelledError:
            await write.cancel()
            raise

    async def _write_abort(self, arguments: dict[str, Any], _: bytes) -> None:
        write = self._writes.pop(str(arguments["handle"]), None)
        if write is not None:
            await write.cancel()

    async def _open_file(self, arguments: dict[str, Any], _: bytes) -> Reply:
        workspace, handle = self._find(arguments).workspace, self._take_handle(arguments)
        async with AsyncExitStack() as stack:
            reading = await stack.enter_async_context(workspace.open(str(arguments["path"])))
            chunks = aiter(reading.chunks)
            first = await anext(chunks, b"")
            # A small file is complete with the first reply.
            is_open = len(first) < reading.info.size
            if is_open:
                self._files[handle] = (stack.pop_all(), chunks)
            return {"info": reading.info, "is_open": is_open}, first

    async def _read_file(self, arguments: dict[str, Any], _: bytes) -> Reply:
        chunks = self._files[str(arguments["handle"])][1]
        return None, await anext(chunks, b"")

    async def _close_file(self, arguments: dict[str, Any], _: bytes) -> None:
        found = self._files.pop(str(arguments["handle"]), None)
        if found is not None:
            await found[0].aclose()

    async def _list(self, arguments: dict[str, Any], _: bytes) -> WorkspaceListing:
        held, since, epoch = self._find(arguments), arguments["since"], arguments["since_epoch"]
        if epoch is not None and epoch != held.epoch:
            since = await run_in_thread(lambda: self._find_mark(held, arguments["skill"]))
        return await held.workspace.list(
            [str(one) for one in arguments["globs"]],
            since=None if since is None else int(since),
            limit=int(arguments["limit"]),
        )

    def _find_mark(self, held: OpenWorkspace, skill: str | None) -> int | None:
        """When a skill was staged here, or the workspace restored, instead of a mark of another node. Blocking."""
        if skill is not None:
            record = read_record(held.workspace.directory, check_skill_name(skill))
            return None if record is None else record.mark
        with suppress(FileNotFoundError):
            return self._find_epoch_file(held.key).stat().st_ctime_ns
        return None

    async def _start(self, arguments: dict[str, Any], body: bytes) -> None:
        server, handle = self._server, self._take_handle(arguments)
        command: Command = replace(_read_command(arguments["command"]), stdin=body)
        await self._find_for_change(arguments)
        command = await self._provide_packages(command, arguments)
        await server.admit_command()
        held: OpenWorkspace | None = None
        try:
            workspace = await self._find_for_change(arguments)
            held = self._find(arguments)
            held.running += 1
            process = await workspace.start(command)
        except BaseException:
            if held is not None:
                held.running -= 1
            await shield_until_done(server.release_command())
            raise
        self._processes[handle], self._owners[handle] = process, held
        watcher = asyncio.ensure_future(self._watch(handle, process, held))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        try:
            # The node may have been paused in between.
            await server.lease.check()
            self._find(arguments)
        except WorkspaceMoved as error:
            await shield_until_done(process.kill())
            # Another error, because it must not be started again elsewhere.
            raise ExecutorUnavailable(f"the command was killed, and how far it got is unknown: {error}") from None
        except BaseException:
            await shield_until_done(process.kill())
            raise
        count("openskills.ray.commands")

    async def _watch(self, handle: str, process: Process, held: OpenWorkspace) -> None:
        """Send the result as soon as the command has ended."""
        value: dict[str, Any] = {"handle": handle}
        body = b""
        try:
            message, body = result_to_message(await process.wait())
            value |= message
        except SkillError as error:
            value["error"] = error_to_json(error)
        finally:
            held.running -= 1
            await self._server.release_command()
            del self._processes[handle], self._owners[handle]
            self._ended[handle] = process
            while len(self._ended) > _MAX_ENDED:
                self._ended.pop(next(iter(self._ended)))
        await self.channel.send_event("ended", value, body)

    def _find_process(self, arguments: dict[str, Any]) -> Process:
        id_ = str(arguments["handle"])
        found = self._processes.get(id_) or self._ended.get(id_)
        if found is None:
            raise InvalidArgument("process", "unknown on this node; it ended long ago or was started elsewhere")
        return found

    async def _leave(self, _: dict[str, Any], __: bytes) -> None:
        await self._release()

    async def _input(self, arguments: dict[str, Any], body: bytes) -> int:
        return await self._find_process(arguments).write(body)

    async def _read(self, arguments: dict[str, Any], _: bytes) -> Reply:
        output = await self._find_process(arguments).read(
            int(arguments["offset"]),
            wait=float(arguments["wait"]),
            limit=int(arguments["limit"]),
            stream=OutputStream(arguments["stream"]),
        )
        return [output.offset, output.next_offset, output.missed, output.ended], output.data


def _check_holder(held: OpenWorkspace | None, holder: str) -> None:
    if held is not None and held.holder != holder and held.sessions:
        raise ExecutorUnavailable("the workspace is in use by another driver; close it there, or try again")


def read_epoch(path: Path) -> int | None:
    """The epoch of the files in a workspace's directory; None if there is none. Blocking."""
    try:
        return int(path.read_text("ascii").split()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return None


def list_epochs(state_dir: Path) -> dict[str, int]:
    """The epochs of all workspaces below a node's state directory, by their id in the cluster. Blocking."""
    found: dict[str, int] = {}
    for path in (state_dir / "workspaces").glob(f"*/{_EPOCH_FILE}"):
        with suppress(FileNotFoundError, ValueError):
            epoch, id_ = path.read_text("ascii").split()
            found[id_] = max(int(epoch), found.get(id_, 0))
    return found


def list_skill_entries(folder: Path) -> list[list[str]]:
    """The entries of a stored snapshot as they are offered to a node: kind, path, digest or link target. Blocking."""
    entries: list[list[str]] = []
    for item in scan_folder(str(folder)):
        if item.kind is SnapshotEntryKind.FILE:
            with (folder / item.path).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            entries.append(["x" if item.stamp[0] & 0o100 else "f", item.path, digest])
        else:
            entries.append([str(item.kind), item.path, item.target])
    return entries
