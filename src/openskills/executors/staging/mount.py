"""Stage snapshots in a workspace as `skills/<name>`: copies that the skill's commands can write to. Blocking.

A new snapshot replaces the old directory by exchanging names, then takes over its `.venv` and the files that commands
added. The digest is recorded last: after a crash in between, the recorded inode identifies the replaced directory, so
that these files can be recovered.
"""

import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.files.descriptors import DirectoryOpener, auto_close, open_beneath, remove_entry
from openskills.executors.spec import LINKS, RESERVED, SKILLS, VENV, SkillSnapshot, WorkspaceUsage
from openskills.executors.staging.snapshots import SnapshotStore, check_skill_name
from openskills.filesystem import TEMPORARY_PREFIX, lock_file, replace_file, write_all

_EXCHANGE = 2
_NOT_HERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTSUP})


def exchange_names(directory: int, first: str, second: str) -> None:
    """Exchange two existing names in the directory of this descriptor.

    Atomic where the system supports it; elsewhere `second` does not exist for a moment.
    """
    call = _load_renameat2()
    if call is not None:
        number = call(directory, os.fsencode(first), os.fsencode(second))
        if not number:
            return
        if number not in _NOT_HERE:
            raise OSError(number, os.strerror(number), first, None, second)
    between = f"{first}-{secrets.token_hex(4)}"
    os.rename(second, between, src_dir_fd=directory, dst_dir_fd=directory)
    os.rename(first, second, src_dir_fd=directory, dst_dir_fd=directory)
    os.rename(between, first, src_dir_fd=directory, dst_dir_fd=directory)


@cache
def _load_renameat2() -> Callable[[int, bytes, bytes], int] | None:
    """The system call, which returns an error number or 0; None where it is missing."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)

    def call(directory: int, first: bytes, second: bytes) -> int:
        return ctypes.get_errno() if function(directory, first, directory, second, _EXCHANGE) else 0

    return call


STAGED_DIRECTORY = "staged"
"""The directory beside the tree that records the staged snapshots, out of reach of scripts."""

_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


@dataclass(frozen=True, slots=True)
class StagedRecord:
    """A staged snapshot, the inode of its directory, when it was copied, and the space that the copy took."""

    digest: str
    inode: int
    mark: int
    bytes: int
    files: int


def write_record(tree: Path, name: str, record: StagedRecord) -> None:
    """Record a staged skill."""
    directory = tree.parent / STAGED_DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    replace_file(directory / name, " ".join(map(str, astuple(record))).encode("ascii"))


def read_record(tree: Path, name: str) -> StagedRecord | None:
    """The record of a staged skill, or None."""
    try:
        digest, *numbers = (tree.parent / STAGED_DIRECTORY / name).read_text("ascii").split(" ")
        return StagedRecord(digest, *map(int, numbers))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def adopt_files(original: Path, skills: int, replaced: str, target: int) -> None:
    """Move the files that commands added to a replaced skill to the new one, unless that has such a name.

    `original` is the snapshot of the replaced skill. Its own files stay, changed or not. An empty `.venv` of the new
    skill is replaced. Does nothing for what is missing, so that it can be repeated after a crash.
    """
    # Without the snapshot, nothing tells which files are the author's.
    waiting = [""]
    has_original = original.is_dir()
    for prefix in waiting:
        try:
            before = open_beneath(skills, f"{replaced}/{prefix}", _READ, links=False)
            after = open_beneath(target, prefix or ".", _READ, links=False)
        except (OSError, ForbiddenPath):
            continue
        with auto_close(before), auto_close(after):
            for name in os.listdir(before):
                if name == VENV and not prefix:
                    _adopt_venv(before, after)
                elif not has_original or (name in RESERVED and not prefix):
                    continue
                elif (original / prefix / name).is_dir():
                    waiting.append(f"{prefix}{name}/")
                elif not os.path.lexists(original / prefix / name):
                    _adopt_entry(before, after, name)


def _adopt_entry(before: int, after: int, name: str) -> None:
    if not os.access(name, os.F_OK, dir_fd=after, follow_symlinks=False):
        # A directory without permissions, which a command may have made, stays behind.
        with suppress(FileNotFoundError, PermissionError):
            os.rename(name, name, src_dir_fd=before, dst_dir_fd=after)


def _adopt_venv(before: int, after: int) -> None:
    with suppress(FileNotFoundError, PermissionError):
        if stat.S_ISDIR(os.stat(VENV, dir_fd=before, follow_symlinks=False).st_mode):
            try:
                # Replaces an empty directory, atomically.
                os.rename(VENV, VENV, src_dir_fd=before, dst_dir_fd=after)
            except OSError as error:
                if error.errno not in _NOT_EMPTY:
                    raise


def recover(store: SnapshotStore, tree: Path, skills: int) -> None:
    """Finish a replacement that a crash interrupted before files were moved; usually does nothing.

    `skills` is a descriptor of the workspace's skills.
    """
    waiting = {
        os.lstat(entry, dir_fd=skills).st_ino: entry
        for entry in os.listdir(skills)
        if entry.startswith(TEMPORARY_PREFIX)
    }
    directory = tree.parent / STAGED_DIRECTORY
    for name in os.listdir(directory) if waiting and directory.is_dir() else ():
        record = read_record(tree, name)
        if record is not None and record.inode in waiting:
            _recover_skill(store.path(record.digest), skills, waiting[record.inode], name)


def _recover_skill(original: Path, skills: int, replaced: str, name: str) -> None:
    try:
        current = open_beneath(skills, name, _READ, links=False)
    except FileNotFoundError:
        # The crash came between the renames of a non-atomic exchange.
        os.rename(replaced, name, src_dir_fd=skills, dst_dir_fd=skills)
    except (OSError, ForbiddenPath):
        return
    else:
        with auto_close(current):
            adopt_files(original, skills, replaced, current)


_LOCK = "staging.lock"
_READ = os.O_RDONLY | os.O_DIRECTORY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1024 * 1024


def materialize_snapshot(
    store: SnapshotStore,
    snapshot: SkillSnapshot,
    tree: Path,
    *,
    mark: Callable[[], int],
    owner: tuple[int, int] | None = None,
) -> StagedRecord:
    """Stage a copy of a snapshot as `tree/skills/<name>`, which belongs to `owner`. Cheap if it is staged already.

    `.venv` and files that commands added survive the replacement by another snapshot. The name always leads to a
    complete skill; a replaced directory stays for running commands until `remove_replaced`. `mark` is called after the
    copy. Raises `InvalidArgument` if the snapshot is not in the store.
    """
    name = check_skill_name(snapshot.name)
    source = store.path(snapshot.digest)
    if (staged := find_staged(tree, snapshot)) is not None:
        return staged
    with lock_file(tree.parent / _LOCK), _open_skills(tree) as skills:
        if (staged := find_staged(tree, snapshot)) is not None:
            return staged
        recover(store, tree, skills)
        before = read_record(tree, name)
        aside = TEMPORARY_PREFIX + secrets.token_hex(8)
        os.mkdir(aside, 0o700, dir_fd=skills)
        with auto_close(open_beneath(skills, aside, _READ, links=False)) as target:
            try:
                size, links = _fill(source, target, owner), _add_workspace_links(target, owner)
                _set_access(target, 0o755, owner)
                inode = os.fstat(target).st_ino
                used = (size.bytes + links.bytes, size.files + links.files)
                staged = StagedRecord(snapshot.digest, inode, mark(), *used)
                _put_in_place(skills, aside, name)
            except BaseException:
                remove_entry(skills, aside)
                raise
            if before is not None:
                adopt_files(store.path(before.digest), skills, aside, target)
        write_record(tree, name, staged)
        return staged


def move_into_skill(
    tree: Path, name: str, source: Path, *, owner: tuple[int, int] | None = None, replace: bool = False
) -> None:
    """Move the files below a directory into a staged skill, to the same paths. What is not possible is left out.

    Existing files stay unless `replace` is given. The directory is on the same disk, and out of reach of commands.
    """
    with (
        lock_file(tree.parent / _LOCK),
        _open_skills(tree) as skills,
        auto_close(open_beneath(skills, check_skill_name(name), _READ, links=False)) as skill,
    ):
        directories = DirectoryOpener(skill, owner)
        for base, _, files in os.walk(source):
            inner = os.path.relpath(base, source)
            with suppress(OSError, ForbiddenPath), auto_close(directories.create(inner, links=False)) as target:
                for file in files:
                    if replace or not os.access(file, os.F_OK, dir_fd=target, follow_symlinks=False):
                        with suppress(OSError):
                            os.rename(os.path.join(base, file), file, dst_dir_fd=target)


def find_staged(tree: Path, snapshot: SkillSnapshot) -> StagedRecord | None:
    """The record of this snapshot, or None if it is not staged."""
    name = check_skill_name(snapshot.name)
    try:
        inode = os.lstat(tree / SKILLS / name).st_ino
    except FileNotFoundError:
        return None
    record = read_record(tree, name)
    is_this = record is not None and (record.digest, record.inode) == (snapshot.digest, inode)
    return record if is_this else None


def remove_replaced(store: SnapshotStore, tree: Path) -> None:
    """Remove replaced skills and leftovers of a crash. No command may be running in the workspace."""
    with lock_file(tree.parent / _LOCK), _open_skills(tree) as skills:
        recover(store, tree, skills)
        for entry in os.listdir(skills):
            if entry.startswith(TEMPORARY_PREFIX):
                remove_entry(skills, entry)


@contextmanager
def _open_skills(tree: Path) -> Generator[int]:
    """A descriptor of the skills of a workspace; links are not followed."""
    root = os.open(tree, _READ | os.O_NOFOLLOW | os.O_CLOEXEC)
    with auto_close(root), auto_close(open_beneath(root, SKILLS, _READ, links=False)) as skills:
        yield skills


def _fill(source: Path, target: int, owner: tuple[int, int] | None) -> WorkspaceUsage:
    """Copy everything in the snapshot to the directory of the descriptor `target`; returns the space it takes."""
    directories = [""]
    blocks = files = 0
    for prefix in directories:
        try:
            reading = os.open(source / prefix, _READ | os.O_CLOEXEC)
        except FileNotFoundError:
            raise InvalidArgument("snapshot", f"{source.name} has been removed from the store; take it again") from None
        with auto_close(reading), auto_close(open_beneath(target, prefix or ".", _READ, links=False)) as writing:
            with os.scandir(reading) as entries:
                for entry in entries:
                    files += 1
                    if entry.is_dir(follow_symlinks=False):
                        os.mkdir(entry.name, 0o700, dir_fd=writing)
                        with auto_close(open_beneath(writing, entry.name, _READ, links=False)) as directory:
                            _set_access(directory, 0o755, owner)
                        directories.append(f"{prefix}{entry.name}/")
                    elif entry.is_symlink():
                        os.symlink(os.readlink(entry.name, dir_fd=reading), entry.name, dir_fd=writing)
                    else:
                        blocks += _copy_file(reading, writing, entry.name, owner)
            blocks += os.fstat(writing).st_blocks
    return WorkspaceUsage(blocks * 512, files)


def _copy_file(reading: int, writing: int, name: str, owner: tuple[int, int] | None) -> int:
    """Copy a file with the executable bit; returns the blocks that it takes."""
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=reading)
    with auto_close(source), auto_close(os.open(name, _NEW, 0o600, dir_fd=writing)) as copy:
        while chunk := os.read(source, _CHUNK):
            write_all(copy, chunk)
        _set_access(copy, 0o755 if os.fstat(source).st_mode & 0o100 else 0o644, owner)
        return os.fstat(copy).st_blocks


def _set_access(descriptor: int, mode: int, owner: tuple[int, int] | None) -> None:
    # Regardless of the umask.
    os.fchmod(descriptor, mode)
    if owner is not None:
        os.fchown(descriptor, *owner)


def _add_workspace_links(target: int, owner: tuple[int, int] | None) -> WorkspaceUsage:
    """Add the links to the workspace's directories, and an empty `.venv`; returns the space they take."""
    for link, leads_to in LINKS.items():
        os.symlink(leads_to, link, dir_fd=target)
    os.mkdir(VENV, 0o700, dir_fd=target)
    with auto_close(open_beneath(target, VENV, _READ, links=False)) as venv:
        _set_access(venv, 0o700, owner)
        return WorkspaceUsage(os.fstat(venv).st_blocks * 512, len(LINKS) + 1)


def _put_in_place(skills: int, aside: str, name: str) -> None:
    try:
        os.rename(aside, name, src_dir_fd=skills, dst_dir_fd=skills)
    except OSError as error:
        # The name exists: exchange the two.
        if error.errno not in (*_NOT_EMPTY, errno.ENOTDIR):
            raise
        exchange_names(skills, aside, name)
