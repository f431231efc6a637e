"""Saved workspaces: files of a workspace in an object store, and as one stream between machines.

The files below `work/`, `out/` and `runs/` are saved to an object store:

workspaces/KEY/files/EPOCH-DIGEST        the bytes of a file
workspaces/KEY/manifests/EPOCH-NUMBER    a checkpoint: paths, modes, times, links, and the objects of its files

KEY is a digest. A manifest is created after its files, under a new name, so a crash leaves the earlier checkpoint
whole. The highest epoch and number is the current checkpoint, so a process with an old lease cannot replace a newer
one. File names begin with the epoch of their writer: garbage collection of an old epoch cannot remove what a newer one
writes. Staged skills and our own records are not saved.

A stream (`export_files`, `import_files`) also has the files that commands added to a staged skill or changed there.
They wait beside the workspace until the skill is staged again.
"""

import hashlib
import json
import os
import stat
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import dirname, normpath
from typing import Any, NamedTuple

from openskills.arguments import check_arguments
from openskills.artifacts.objects import ObjectStore
from openskills.concurrency import read_chunks, run_in_thread
from openskills.errors import ForbiddenPath, InvalidArgument, LeaseLost, LimitExceeded, SkillError
from openskills.executors.files.descriptors import auto_close, delete_tree, open_beneath, remove_entry
from openskills.executors.files.globs import escape_glob
from openskills.executors.files.tree import WorkspaceTree
from openskills.executors.records.quota import Quota
from openskills.executors.spec import MIB, SKILLS, VENV, WORK, WRITABLE, FileInfo, SkillSnapshot
from openskills.executors.staging.mount import STAGED_DIRECTORY, move_into_skill, read_record
from openskills.executors.staging.snapshots import check_skill_name
from openskills.executors.workspace import DirectoryWorkspace
from openskills.filesystem import make_private, replace_file

FORMAT_VERSION = 1
MAX_DEPTH = 64
MAX_PATH_BYTES = 2000
MAX_SKIPPED = 100
_KEPT_CHECKPOINTS = 2
_SMALL = MIB
_TRIES = 3
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """A checkpoint: its `epoch` and `number`, how many files and bytes it has, and what was uploaded for it.

    `skipped` are sentences about what could not be saved, `missing` about what could not be restored.
    """

    epoch: int
    number: int
    files: int
    bytes: int
    uploaded: int = 0
    skipped: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def describe_loss(self) -> tuple[str, ...]:
        """What to tell the user and the model after a restoration: one sentence each."""
        first = (
            f"the workspace was restored here from its last checkpoint, with {self.files:,} files; "
            "later changes are lost, and commands that were running elsewhere have ended"
        )
        return (first, *(f"not saved: {one}" for one in self.skipped), *(f"lost: {one}" for one in self.missing))


class _CheckpointFile(NamedTuple):
    path: str
    executable: bool
    mtime: int
    size: int
    digest: str
    object: str


@dataclass(slots=True)
class _Manifest:
    directories: list[str] = field(default_factory=list[str])
    links: dict[str, str] = field(default_factory=dict[str, str])
    files: list[_CheckpointFile] = field(default_factory=list[_CheckpointFile])
    skipped: list[str] = field(default_factory=list[str])

    def skip(self, path: str, why: str) -> None:
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped.append(f"{path[:200]!a} {why}")

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def to_json(self) -> bytes:
        fields = {"version": FORMAT_VERSION, "directories": self.directories, "links": self.links}
        return json.dumps({**fields, "files": self.files, "skipped": self.skipped}).encode()


@check_arguments
async def save_workspace(
    tree: Path, store: ObjectStore, key: str, epoch: int, *, quota: Quota | None = None
) -> CheckpointInfo:
    """Save the files of a workspace as its next checkpoint; those that have not changed are not uploaded again.

    `tree` is its directory, and `epoch` that of the lease of its conversation (0 without leases). Special files, links
    that lead out, names that are not UTF-8 and files that change all the time are skipped, with a sentence each.
    Commands may run meanwhile. Raises `LeaseLost` if a later epoch has saved or restored it, `LimitExceeded` for more
    files or bytes than the quota has; then the earlier checkpoint stays.
    """
    checkpoints = _Checkpoints(store, key, epoch)
    names = await checkpoints.list()
    previous = await checkpoints.read(names[-1]) if names else _Manifest()
    saving = _CheckpointUpload(tree, store, f"{checkpoints.base}/files/{epoch:016}", previous, quota or Quota())
    made = await saving.run()
    number = await checkpoints.create(names, made)
    await run_in_thread(lambda: _write_record(tree, (epoch, number)))
    await checkpoints.collect_garbage()
    return CheckpointInfo(epoch, number, len(made.files), made.size, saving.uploaded, tuple(made.skipped))


@check_arguments
async def restore_workspace(
    tree: Path, store: ObjectStore, key: str, epoch: int, *, owner: tuple[int, int] | None = None
) -> CheckpointInfo | None:
    """Write the files of the current checkpoint into a workspace; None if there is no checkpoint.

    Files belong to `owner`, the uid and gid of its commands, or to us. All other files are removed. Every file is
    verified; those that are missing or damaged in the store are not written, and are named in `missing`.
    From then on, earlier epochs cannot save. Raises `LeaseLost` if a later epoch has saved or restored it.
    """
    checkpoints = _Checkpoints(store, key, epoch)
    names = await checkpoints.list()
    if not names:
        return None
    found = await checkpoints.read(names[-1])
    number = names[-1][1]
    if names[-1][0] < epoch:
        number = await checkpoints.create(names, found)
        await checkpoints.list()
    missing: list[str] = []
    with closing(await run_in_thread(lambda: WorkspaceTree(tree, owner=owner))) as target:
        await run_in_thread(lambda: _restore_skeleton(tree, target, found, missing))
        others = len(missing)
        for file in found.files:
            await _restore_file(tree, target, store, file, missing)
        await run_in_thread(lambda: _write_record(tree, (epoch, number)))
    restored = len(found.files) - len(missing) + others
    return CheckpointInfo(epoch, number, restored, found.size, 0, tuple(found.skipped), tuple(missing[:MAX_SKIPPED]))


@check_arguments
async def refresh_workspace(
    tree: Path, store: ObjectStore, key: str, epoch: int, *, owner: tuple[int, int] | None = None
) -> CheckpointInfo | None:
    """Restore a workspace if it is new here, or was saved elsewhere since; None if it is up to date.

    Changes of this machine that were not saved stay if nobody else has saved the workspace since. See
    `restore_workspace`.
    """
    names = await _Checkpoints(store, key, epoch).list()
    if not names or names[-1] == await run_in_thread(lambda: _read_record(tree)):
        return None
    return await restore_workspace(tree, store, key, epoch, owner=owner)


@check_arguments
async def remove_checkpoints(store: ObjectStore, key: str) -> bool:
    """Remove all checkpoints of a workspace; false if there were none."""
    base = _prefix(key)
    found = [info.name for info in await store.list(base)]
    # Manifests first: they must not name objects that are gone.
    await store.delete(sorted(found, key=lambda name: not name.startswith(f"{base}/manifests/")))
    return bool(found)


_RECORD = "checkpoint"


def _write_record(tree: Path, name: "_ManifestName") -> None:
    """Remember, out of reach of commands, which checkpoint the files of a workspace are based on."""
    replace_file(tree.parent / _RECORD, json.dumps(name).encode())


def _read_record(tree: Path) -> "_ManifestName | None":
    try:
        epoch, number = json.loads((tree.parent / _RECORD).read_bytes())
        return int(epoch), int(number)
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _restore_skeleton(tree: Path, target: WorkspaceTree, found: _Manifest, missing: list[str]) -> None:
    """Remove what is in the writable directories, and create the directories and links of a checkpoint."""
    with auto_close(os.open(tree, _DIRECTORY)) as root:
        for name in WRITABLE:
            with auto_close(open_beneath(root, name, _DIRECTORY, links=False)) as directory:
                for entry in os.listdir(directory):
                    remove_entry(directory, entry)
    for path in found.directories:
        with _note_failure(missing, path):
            target.make_directory(path)
    for path, to in found.links.items():
        with _note_failure(missing, path):
            target.link(path, normpath(f"{dirname(path)}/{to}"))


@contextmanager
def _note_failure(missing: list[str], path: str) -> Generator[None]:
    """Note what cannot be restored: a manifest comes from outside."""
    try:
        yield
    except (InvalidArgument, ForbiddenPath) as error:
        missing.append(f"{path[:200]!a} cannot be restored: {error.message}")


class _CheckpointUpload:
    """Walks through a workspace and uploads the files that the previous checkpoint does not have."""

    def __init__(self, tree: Path, store: ObjectStore, prefix: str, previous: _Manifest, quota: Quota) -> None:
        self.uploaded = 0
        self._tree = tree
        self._store = store
        self._prefix = prefix
        self._known = {file.digest: file.object for file in previous.files}
        self._quota = quota
        self._made = _Manifest()
        self._size = 0

    async def run(self) -> _Manifest:
        with auto_close(await run_in_thread(lambda: os.open(self._tree, _DIRECTORY))) as root:
            for path in await run_in_thread(lambda: list(self._walk(root))):
                await self._save_file(root, path)
        return self._made

    def _walk(self, root: int) -> Iterator[str]:
        """Note directories and links, and yield the paths of files."""
        count = 0
        waiting: list[str] = [*WRITABLE]
        while waiting:
            directory = waiting.pop()
            try:
                with auto_close(open_beneath(root, directory, _DIRECTORY, links=False)) as descriptor:
                    entries = sorted(os.listdir(descriptor))
                    kinds = {name: _read_mode(name, descriptor) for name in entries}
                    targets = {
                        name: os.readlink(name, dir_fd=descriptor) for name in entries if stat.S_ISLNK(kinds[name])
                    }
            except (OSError, ForbiddenPath) as error:
                if directory not in WRITABLE:
                    self._made.skip(directory, f"cannot be read ({error})")
                continue
            self._made.directories.append(directory)
            for name in entries:
                path, mode = f"{directory}/{name}", kinds[name]
                count += 1
                if count > self._quota.max_files:
                    raise LimitExceeded(f"the workspace has more than {self._quota.max_files:,} files; remove some")
                if why := _find_fault(path, mode, targets.get(name, "")):
                    self._made.skip(path, why)
                elif stat.S_ISDIR(mode):
                    waiting.append(path)
                elif stat.S_ISLNK(mode):
                    self._made.links[path] = targets[name]
                elif stat.S_ISREG(mode):
                    yield path

    async def _save_file(self, root: int, path: str) -> None:
        for _ in range(_TRIES):
            try:
                descriptor = open_beneath(root, path, _FILE, links=False)
            except (OSError, ForbiddenPath):
                return  # removed or replaced meanwhile
            with auto_close(descriptor):
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    return
                if self._size + status.st_size > self._quota.max_bytes:
                    raise LimitExceeded(f"the workspace has more than {self._quota.max_bytes:,} bytes; remove some")
                digest, size = await self._upload(descriptor, status.st_size)
            if digest:
                executable, name = bool(status.st_mode & 0o100), self._known[digest]
                self._made.files.append(_CheckpointFile(path, executable, status.st_mtime_ns, size, digest, name))
                self._size += size
                return
        self._made.skip(path, "changed while it was saved")

    async def _upload(self, descriptor: int, size: int) -> tuple[str, int]:
        """Upload a file unless its content is known; the digest is empty if it changed meanwhile."""
        if size <= _SMALL:
            data = await run_in_thread(lambda: os.pread(descriptor, size, 0))
            digest = hashlib.sha256(data).hexdigest()
            if digest not in self._known:
                await self._store.put(f"{self._prefix}-{digest}", data)
                self._add(digest, len(data))
            return digest, len(data)
        first = _DigestCounter()
        async for chunk in read_chunks(descriptor, size):
            first.add(chunk)
        if first.digest not in self._known:
            os.lseek(descriptor, 0, os.SEEK_SET)
            second, name = _DigestCounter(), f"{self._prefix}-{first.digest}"

            async def read_again() -> AsyncGenerator[bytes]:
                async for chunk in read_chunks(descriptor, size):
                    second.add(chunk)
                    yield chunk

            await self._store.put(name, read_again())
            if second.digest != first.digest:
                await self._store.delete([name])
                return "", 0
            self._add(first.digest, first.size)
        return first.digest, first.size

    def _add(self, digest: str, size: int) -> None:
        self._known[digest] = f"{self._prefix}-{digest}"
        self.uploaded += size


class _DigestCounter:
    """The digest and size of content that passes by."""

    def __init__(self) -> None:
        self.size = 0
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self._hash.update(chunk)


def _read_mode(name: str, directory: int) -> int:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def _find_fault(path: str, mode: int, target: str) -> str:
    """Why an entry cannot be saved; empty if it can, or if it is gone."""
    if any("\ud800" <= char <= "\udfff" for char in path + target):
        return "has a name that is not UTF-8"
    if path.count("/") > MAX_DEPTH or len(path.encode()) > MAX_PATH_BYTES:
        return "is too deep"
    if stat.S_ISLNK(mode):
        leads_to = normpath(f"{dirname(path)}/{target}")
        leaves = target.startswith("/") or leads_to in ("..", ".") or leads_to.startswith("../")
        return "is a link that leads out of the workspace" if leaves else ""
    return "" if not mode or stat.S_ISREG(mode) or stat.S_ISDIR(mode) else "is neither a file nor a directory"


async def _restore_file(
    tree: Path, target: WorkspaceTree, store: ObjectStore, file: _CheckpointFile, missing: list[str]
) -> None:
    seen = _DigestCounter()
    try:
        with _note_failure(missing, file.path), target.open_writer(file.path, executable=file.executable) as writer:
            async with aclosing(store.stream(file.object)) as chunks:
                async for chunk in chunks:
                    seen.add(chunk)
                    if seen.size > file.size:
                        break
                    await run_in_thread(lambda chunk=chunk: writer.write(chunk))
            if (seen.size, seen.digest) != (file.size, file.digest):
                missing.append(f"{file.path[:200]!a} is damaged in {store.place}")
                return
            await run_in_thread(writer.commit)
            with auto_close(os.open(tree, _DIRECTORY)) as root, auto_close(open_beneath(root, file.path, _FILE)) as own:
                os.utime(own, ns=(file.mtime, file.mtime))
    except FileNotFoundError:
        missing.append(f"{file.path[:200]!a} is missing in {store.place}")


def _prefix(key: str) -> str:
    return f"workspaces/{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


_ManifestName = tuple[int, int]
"""The epoch and the number of a checkpoint."""


class _Checkpoints:
    """The checkpoints of a workspace in a store, for a process with the lease `epoch`."""

    def __init__(self, store: ObjectStore, key: str, epoch: int) -> None:
        self.base = _prefix(key)
        self._store = store
        self._key = key
        self._epoch = epoch

    async def list(self) -> list[_ManifestName]:
        """The checkpoints, oldest first. Raises `LeaseLost` if a later epoch has one."""
        found = [info.name.rpartition("/")[2].split("-") for info in await self._store.list(f"{self.base}/manifests")]
        names = sorted((int(epoch), int(number)) for epoch, number in found)
        if names and names[-1][0] > self._epoch:
            raise LeaseLost(self._key, self._epoch, f"a process with lease {names[-1][0]}")
        return names

    async def create(self, names: Sequence[_ManifestName], made: _Manifest) -> int:
        """Create the next checkpoint after these; returns its number."""
        number = max((one for found, one in names if found == self._epoch), default=0) + 1
        data = made.to_json()
        # Taken by a save of the same process, or by our own request whose response was lost.
        while not await self._store.create(self._to_name((self._epoch, number)), data):
            if await self._store.read(self._to_name((self._epoch, number))) == data:
                break
            number += 1
        return number

    async def read(self, name: _ManifestName) -> _Manifest:
        """Read a checkpoint. Raises `SkillError` if it is missing or damaged."""
        text = await self._store.read(self._to_name(name))
        where = f"the checkpoint {self._to_name(name)} in {self._store.place}"
        try:
            fields: Mapping[str, Any] = json.loads(text or b"null")
            if fields["version"] != FORMAT_VERSION:
                raise SkillError(f"{where} was written by a newer OpenSkill; upgrade")
            return _Manifest(
                [str(path) for path in fields["directories"]],
                {str(path): str(target) for path, target in fields["links"].items()},
                [_CheckpointFile(*file) for file in fields["files"]],
                [str(sentence) for sentence in fields["skipped"]],
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise SkillError(f"{where} is missing or damaged; restore it, or remove the checkpoints") from error

    async def collect_garbage(self) -> None:
        """Remove old checkpoints, and files that no other one has."""
        # Raises before anything is removed: what is unused for us may be used by a later epoch.
        names = await self.list()
        used = {file.object for name in names[-_KEPT_CHECKPOINTS:] for file in (await self.read(name)).files}
        await self._store.delete([self._to_name(name) for name in names[:-_KEPT_CHECKPOINTS]])
        files = [info.name for info in await self._store.list(f"{self.base}/files")]
        ours = [name for name in files if int(name.rpartition("/")[2].partition("-")[0]) <= self._epoch]
        await self._store.delete([name for name in ours if name not in used])

    def _to_name(self, name: _ManifestName) -> str:
        return f"{self.base}/manifests/{name[0]:016}-{name[1]:08}"


_PIECE = struct.Struct(">cI")
_MAX_PIECE = 16 * MIB
_START, _DATA, _END = b"F", b"D", b"E"
_MAX_FILES = 100_000
_CHANGES, _CHANGES_TREE, _CHANGES_DIGEST = "changes", "tree", "digest"


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file for a stream: its path in the workspace, the file itself and, in a skill, the digest of its snapshot."""

    path: str
    place: Path
    info: FileInfo
    digest: str = ""


@dataclass(frozen=True, slots=True)
class SavedFiles:
    """The files of a workspace that are worth saving. `fingerprint` changes with any of them."""

    files: tuple[SavedFile, ...]

    @property
    def fingerprint(self) -> str:
        """A digest of the paths and stamps."""
        found = json.dumps([[one.path, one.info.stamp, one.digest] for one in self.files])
        return hashlib.sha256(found.encode()).hexdigest()


async def find_saved_files(workspace: DirectoryWorkspace) -> SavedFiles:
    """The files below `work/`, `out/` and `runs/`, and those that commands added to skills or changed there.

    Not those of a skill's `.venv`. Raises `LimitExceeded` for more than 100,000 files.
    """
    tree = workspace.directory
    found = await _list_files(workspace, [f"{name}/**" for name in WRITABLE], None)
    files = [SavedFile(info.path, tree, info) for info in found]
    for name in await run_in_thread(lambda: _list_names(tree.parent / STAGED_DIRECTORY)):
        record = await run_in_thread(lambda name=name: read_record(tree, name))
        if record is not None:
            changed = await _list_files(workspace, [f"{SKILLS}/{escape_glob(name)}/**"], record.mark)
            own = (info for info in changed if not info.path.startswith(f"{SKILLS}/{name}/{VENV}/"))
            files += [SavedFile(info.path, tree, info, record.digest) for info in own]
    # Those of skills that have not been staged since the workspace was restored.
    files += await run_in_thread(lambda: _list_changes(tree.parent / _CHANGES))
    if len(files) > _MAX_FILES:
        raise LimitExceeded(f"the workspace has more than {_MAX_FILES:,} files and was not saved; remove some")
    return SavedFiles(tuple(files))


async def export_files(saved: SavedFiles) -> AsyncGenerator[bytes]:
    """The files as one stream. Those that are removed or replaced by links meanwhile are left out."""
    for file in saved.files:
        descriptor = await run_in_thread(lambda file=file: _open_saved(file))
        if descriptor is None:
            continue
        with auto_close(descriptor):
            head = json.dumps([file.path, file.info.executable, file.digest]).encode("ascii")
            yield _PIECE.pack(_START, len(head)) + head
            async for chunk in read_chunks(descriptor, os.fstat(descriptor).st_size):
                yield _PIECE.pack(_DATA, len(chunk)) + chunk
    yield _PIECE.pack(_END, 0)


async def import_files(workspace: DirectoryWorkspace, pieces: AsyncIterator[bytes]) -> int:
    """Write the files of a stream to a workspace, and return their number. Raises `InvalidArgument` if it is cut.

    Files of skills are written when the skill is staged: call `apply_skill_changes` then.
    """
    source = _PieceReader(pieces)
    await source.advance()
    done = 0
    while source.kind != _END:
        if source.kind != _START:
            raise InvalidArgument("checkpoint", "damaged: data without a file")
        path, executable, digest = json.loads(source.data)
        if digest:
            await _keep_change(workspace, str(path), source.read_content(), str(digest), executable=bool(executable))
        else:
            await workspace.write(str(path), source.read_content(), executable=bool(executable))
        done += 1
    return done


async def apply_skill_changes(workspace: DirectoryWorkspace, snapshot: SkillSnapshot) -> None:
    """Move restored files of a skill that was just staged into it, if there are some.

    In another snapshot than that of the checkpoint, only files that it does not have, as when a skill is staged again.
    """
    place = workspace.directory.parent / _CHANGES / check_skill_name(snapshot.name)

    def apply() -> None:
        if not place.is_dir():
            return
        is_same = (place / _CHANGES_DIGEST).read_text("ascii") == snapshot.digest
        source = place / _CHANGES_TREE / WORK
        move_into_skill(workspace.directory, snapshot.name, source, owner=workspace.owner, replace=is_same)
        delete_tree(place)

    await run_in_thread(apply)


def _open_saved(file: SavedFile) -> int | None:
    """A descriptor of the file; None if it is gone, or something else now."""
    with (
        suppress(FileNotFoundError, NotADirectoryError, ForbiddenPath),
        auto_close(os.open(file.place, _DIRECTORY)) as root,
    ):
        descriptor = open_beneath(root, file.info.path, _FILE, links=False)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    return None


async def _list_files(workspace: DirectoryWorkspace, globs: Sequence[str], since: int | None) -> Sequence[FileInfo]:
    return (await workspace.list(globs, since=since, limit=_MAX_FILES + 1)).files


def _list_names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory)) if directory.is_dir() else []


def _list_changes(directory: Path) -> list[SavedFile]:
    """The restored files of skills that have not been staged."""
    files: list[SavedFile] = []
    for name in _list_names(directory):
        place, digest = directory / name / _CHANGES_TREE, (directory / name / _CHANGES_DIGEST).read_text("ascii")
        with closing(WorkspaceTree(place)) as tree:
            found = tree.list([f"{WORK}/**"], limit=_MAX_FILES + 1).files
        prefix = f"{SKILLS}/{name}/"
        files += [SavedFile(prefix + info.path.removeprefix(f"{WORK}/"), place, info, digest) for info in found]
    return files


async def _keep_change(
    workspace: DirectoryWorkspace, path: str, content: AsyncIterator[bytes], digest: str, *, executable: bool
) -> None:
    """Write a file of a skill beside the workspace, out of reach of commands."""
    top, _, rest = path.partition("/")
    name, _, inner = rest.partition("/")
    if top != SKILLS or not inner:
        raise InvalidArgument("checkpoint", "damaged: the digest of a skill with a file of another place")
    place = workspace.directory.parent / _CHANGES / check_skill_name(name)

    def open_tree() -> WorkspaceTree:
        make_private(place / _CHANGES_TREE)
        replace_file(place / _CHANGES_DIGEST, digest.encode("ascii"))
        return WorkspaceTree(place / _CHANGES_TREE, owner=workspace.owner)

    with (
        closing(await run_in_thread(open_tree)) as tree,
        tree.open_writer(f"{WORK}/{inner}", executable=executable) as writer,
    ):
        async for chunk in content:
            await run_in_thread(lambda chunk=chunk: writer.write(chunk))
        await run_in_thread(writer.commit)


class _PieceReader:
    """Reads the pieces of an exported workspace, from chunks of any size: `kind` and `data` of one at a time."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._ahead = bytearray()
        self.kind = self.data = b""

    async def advance(self) -> None:
        """Go to the next piece."""
        self.kind, size = _PIECE.unpack(await self._read(_PIECE.size))
        if size > _MAX_PIECE:
            raise InvalidArgument("checkpoint", f"damaged: a piece of {size:,} bytes")
        self.data = await self._read(size)

    async def read_content(self) -> AsyncGenerator[bytes]:
        """The data after the start of a file; then the piece after them is the current one."""
        await self.advance()
        while self.kind == _DATA:
            yield self.data
            await self.advance()

    async def _read(self, size: int) -> bytes:
        while len(self._ahead) < size:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                raise InvalidArgument("checkpoint", "damaged: it ends too early")
            self._ahead += chunk
        found = bytes(self._ahead[:size])
        del self._ahead[:size]
        return found
