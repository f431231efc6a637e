"""Stage snapshots in a workspace as `skills/<name>`: read-only, with links and a `.venv`. Blocking.

A new snapshot replaces the old directory by exchanging names, then takes over its `.venv`. The digest is recorded last:
after a crash in between, the recorded inode identifies the replaced directory, so that its `.venv` can be recovered.
"""

import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.files.descriptors import auto_close, open_beneath, remove_entry
from openskills.executors.spec import LINKS, SKILLS, VENV, SkillSnapshot
from openskills.executors.staging.snapshots import DIRECTORY, FILE, PROGRAM, SnapshotStore, check_skill_name
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


def record_digest(tree: Path, name: str, digest: str) -> None:
    """Record the digest and inode of a staged skill."""
    directory = tree.parent / STAGED_DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    inode = os.lstat(tree / SKILLS / name).st_ino
    replace_file(directory / name, f"{digest} {inode}".encode("ascii"))


def read_digest(tree: Path, name: str) -> tuple[str, int] | None:
    """The recorded digest of a skill, and the inode of its directory; None without a record."""
    try:
        digest, _, inode = (tree.parent / STAGED_DIRECTORY / name).read_text("ascii").partition(" ")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return (digest, int(inode)) if inode.isdigit() else None


def adopt_venv(skills: int, replaced: str, target: int) -> None:
    """Move the `.venv` of a replaced skill to the new one, unless that has a non-empty one. Atomic."""
    try:
        before = open_beneath(skills, replaced, _READ, links=False)
    except (OSError, ForbiddenPath):
        return
    with auto_close(before), suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(VENV, dir_fd=before, follow_symlinks=False).st_mode):
            # Without root, moving something out of a directory takes write permission.
            os.fchmod(before, 0o700)
            try:
                os.rename(VENV, VENV, src_dir_fd=before, dst_dir_fd=target)
            except OSError as error:
                if error.errno not in _NOT_EMPTY:
                    raise
            os.fchmod(before, DIRECTORY)


def recover(tree: Path, skills: int) -> None:
    """Finish a replacement that a crash interrupted before the `.venv` was moved; usually does nothing.

    `skills` is a descriptor of the workspace's skills.
    """
    waiting = {
        os.lstat(entry, dir_fd=skills).st_ino: entry
        for entry in os.listdir(skills)
        if entry.startswith(TEMPORARY_PREFIX)
    }
    for name, inode in _read_all_digests(tree) if waiting else ():
        if inode in waiting:
            _recover_skill(skills, waiting[inode], name)


def _recover_skill(skills: int, replaced: str, name: str) -> None:
    try:
        current = open_beneath(skills, name, _READ, links=False)
    except FileNotFoundError:
        # The crash came between the renames of a non-atomic exchange.
        os.rename(replaced, name, src_dir_fd=skills, dst_dir_fd=skills)
        return
    except (OSError, ForbiddenPath):
        return
    with auto_close(current):
        os.fchmod(current, 0o700)
        adopt_venv(skills, replaced, current)
        os.fchmod(current, DIRECTORY)


def _read_all_digests(tree: Path) -> Iterator[tuple[str, int]]:
    with suppress(FileNotFoundError):
        for name in os.listdir(tree.parent / STAGED_DIRECTORY):
            record = read_digest(tree, name)
            if record is not None:
                yield name, record[1]


_LOCK = "staging.lock"
_READ = os.O_RDONLY | os.O_DIRECTORY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINK = frozenset({errno.EXDEV, errno.EMLINK, errno.EPERM, errno.ENOTSUP, errno.ENOSYS})
_CHUNK = 1024 * 1024


def materialize_snapshot(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path, *, share: bool, owner: tuple[int, int] | None = None
) -> None:
    """Stage a snapshot as `tree/skills/<name>`. Cheap if it is staged already.

    `share` hard-links the files of the store, for executors whose commands cannot write to them regardless of modes;
    otherwise they are copied. `.venv` belongs to `owner` and survives the replacement by another snapshot. The name
    always leads to a complete skill; a replaced directory stays for running commands until `remove_replaced`. Raises
    `InvalidArgument` if the snapshot is not in the store.
    """
    name = check_skill_name(snapshot.name)
    source = store.path(snapshot.digest)
    if is_staged(tree, snapshot):
        return
    with lock_file(tree.parent / _LOCK), _open_skills(tree) as skills:
        if is_staged(tree, snapshot):
            return
        recover(tree, skills)
        aside = TEMPORARY_PREFIX + secrets.token_hex(8)
        os.mkdir(aside, 0o700, dir_fd=skills)
        with auto_close(open_beneath(skills, aside, _READ, links=False)) as target:
            try:
                _fill(source, target, share=share)
                _add_workspace_links(target, owner)
                _put_in_place(skills, aside, name)
            except BaseException:
                remove_entry(skills, aside)
                raise
            adopt_venv(skills, aside, target)
            os.fchmod(target, DIRECTORY)
        record_digest(tree, name, snapshot.digest)


def is_staged(tree: Path, snapshot: SkillSnapshot) -> bool:
    """Whether this snapshot is staged, according to its record."""
    name = check_skill_name(snapshot.name)
    try:
        inode = os.lstat(tree / SKILLS / name).st_ino
    except FileNotFoundError:
        return False
    return read_digest(tree, name) == (snapshot.digest, inode)


def remove_replaced(tree: Path) -> None:
    """Remove replaced skills and leftovers of a crash. No command may be running in the workspace."""
    with lock_file(tree.parent / _LOCK), _open_skills(tree) as skills:
        recover(tree, skills)
        for entry in os.listdir(skills):
            if entry.startswith(TEMPORARY_PREFIX):
                remove_entry(skills, entry)


@contextmanager
def _open_skills(tree: Path) -> Generator[int]:
    """A descriptor of the skills of a workspace; links are not followed."""
    root = os.open(tree, _READ | os.O_NOFOLLOW | os.O_CLOEXEC)
    with auto_close(root), auto_close(open_beneath(root, SKILLS, _READ, links=False)) as skills:
        yield skills


def _fill(source: Path, target: int, *, share: bool) -> None:
    """Copy or link everything in the snapshot to the directory of the descriptor `target`."""
    directories = [""]
    for prefix in directories:
        try:
            reading = os.open(source / prefix, _READ | os.O_CLOEXEC)
        except FileNotFoundError:
            raise InvalidArgument("snapshot", f"{source.name} has been removed from the store; take it again") from None
        with auto_close(reading), auto_close(open_beneath(target, prefix or ".", _READ, links=False)) as writing:
            directories.extend(f"{prefix}{name}/" for name in _fill_directory(reading, writing, share=share))
    for prefix in reversed(directories[1:]):
        with auto_close(open_beneath(target, prefix, _READ, links=False)) as directory:
            os.fchmod(directory, DIRECTORY)


def _fill_directory(reading: int, writing: int, *, share: bool) -> list[str]:
    """Fill one directory with its files and empty subdirectories, whose names are returned."""
    below: list[str] = []
    with os.scandir(reading) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                os.mkdir(entry.name, 0o700, dir_fd=writing)
                below.append(entry.name)
            elif entry.is_symlink():
                os.symlink(os.readlink(entry.name, dir_fd=reading), entry.name, dir_fd=writing)
            elif not (share and _link_file(reading, writing, entry.name)):
                _copy_file(reading, writing, entry.name)
    return below


def _link_file(reading: int, writing: int, name: str) -> bool:
    try:
        os.link(name, name, src_dir_fd=reading, dst_dir_fd=writing, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        return False
    return True


def _copy_file(reading: int, writing: int, name: str) -> None:
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=reading)
    with auto_close(source), auto_close(os.open(name, _NEW, 0o600, dir_fd=writing)) as copy:
        while chunk := os.read(source, _CHUNK):
            write_all(copy, chunk)
        os.fchmod(copy, PROGRAM if os.fstat(source).st_mode & 0o100 else FILE)


def _add_workspace_links(target: int, owner: tuple[int, int] | None) -> None:
    """Add the links to the workspace's directories, and an empty `.venv`."""
    for link, leads_to in LINKS.items():
        os.symlink(leads_to, link, dir_fd=target)
    os.mkdir(VENV, 0o700, dir_fd=target)
    with auto_close(open_beneath(target, VENV, _READ, links=False)) as venv:
        os.fchmod(venv, 0o700)
        if owner is not None:
            os.fchown(venv, *owner)


def _put_in_place(skills: int, aside: str, name: str) -> None:
    try:
        os.rename(aside, name, src_dir_fd=skills, dst_dir_fd=skills)
    except OSError as error:
        # The name exists: exchange the two.
        if error.errno not in (*_NOT_EMPTY, errno.ENOTDIR):
            raise
        exchange_names(skills, aside, name)
