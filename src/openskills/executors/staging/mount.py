"""A snapshot in a workspace.

Two names in a directory that change places in one step.

Which snapshot a skill of a workspace was made from, and what becomes of one that another has replaced. Blocking.

The record is written last. So after a crash in between, the replaced directory is the one that the record names, under
another name: that is how its `.venv` finds its way back.

A snapshot in a workspace: `skills/<name>`, read-only, with the links and the `.venv` that belong there. Blocking.
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
from openskills.executors.files.beneath import auto_close, open_beneath, remove_entry
from openskills.executors.spec import LINKS, SKILLS, VENV, SkillSnapshot
from openskills.executors.staging.snapshots import DIRECTORY, FILE, PROGRAM, SnapshotStore, check_skill_name
from openskills.filesystem import TEMPORARY_PREFIX, lock_file, replace_file

_EXCHANGE = 2
_NOT_HERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTSUP})


def exchange_names(directory: int, first: str, second: str) -> None:
    """Let two existing names in the directory of this descriptor change places.

    In one step where the system can do that; elsewhere there is a moment in which `second` does not exist.
    """
    if _exchange_by_kernel(directory, first, second):
        return
    between = f"{first}-{secrets.token_hex(4)}"
    os.rename(second, between, src_dir_fd=directory, dst_dir_fd=directory)
    os.rename(first, second, src_dir_fd=directory, dst_dir_fd=directory)
    os.rename(between, first, src_dir_fd=directory, dst_dir_fd=directory)


def _exchange_by_kernel(directory: int, first: str, second: str) -> bool:
    call = _load_renameat2()
    if call is None:
        return False
    number = call(directory, os.fsencode(first), os.fsencode(second))
    if number in _NOT_HERE:
        return False
    if number:
        raise OSError(number, os.strerror(number), first, None, second)
    return True


@cache
def _load_renameat2() -> Callable[[int, bytes, bytes], int] | None:
    """The call, which gives an error number or 0; None where there is no such call."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)

    def call(directory: int, first: bytes, second: bytes) -> int:
        return ctypes.get_errno() if function(directory, first, directory, second, _EXCHANGE) else 0

    return call


STAGED_DIRECTORY = "staged"
"""The directory beside the tree that says which snapshots are in it, out of the reach of scripts."""

_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


def record_digest(tree: Path, name: str, digest: str) -> None:
    """Write down that the skill `name` of this workspace has this digest."""
    directory = tree.parent / STAGED_DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    inode = os.lstat(tree / SKILLS / name).st_ino
    replace_file(directory / name, f"{digest} {inode}".encode("ascii"))


def read_digest(tree: Path, name: str) -> tuple[str, int] | None:
    """The digest that was written down for a skill, and the inode of its directory; None when there is nothing."""
    try:
        digest, _, inode = (tree.parent / STAGED_DIRECTORY / name).read_text("ascii").partition(" ")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return (digest, int(inode)) if inode.isdigit() else None


def adopt_venv(skills: int, replaced: str, target: int) -> None:
    """Take over the `.venv` of what was replaced. It takes the place of the empty one in one step, so that there is
    one at any moment, also after a crash. One that is not empty any more stays."""
    try:
        before = open_beneath(skills, replaced, _READ, links=False)
    except (OSError, ForbiddenPath):
        return
    with auto_close(before), suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(VENV, dir_fd=before, follow_symlinks=False).st_mode):
            # Who is not root needs the permission to take something out of a directory.
            os.fchmod(before, 0o700)
            _move_venv(before, target)
            os.fchmod(before, DIRECTORY)


def recover(tree: Path, skills: int) -> None:
    """Finish what a crash interrupted after a skill had been replaced, and before its `.venv` was taken over.

    `skills` is a descriptor of the workspace's skills. Nothing is done in the usual case.
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
        # Where the system cannot exchange two names in one step there is a moment without.
        os.rename(replaced, name, src_dir_fd=skills, dst_dir_fd=skills)
        return
    except (OSError, ForbiddenPath):
        return
    with auto_close(current):
        os.fchmod(current, 0o700)
        adopt_venv(skills, replaced, current)
        os.fchmod(current, DIRECTORY)


def _move_venv(before: int, target: int) -> None:
    try:
        os.rename(VENV, VENV, src_dir_fd=before, dst_dir_fd=target)
    except OSError as error:
        if error.errno not in _NOT_EMPTY:
            raise


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
    """Make a snapshot available as `tree/skills/<name>`. Costs two looks at the disk when it is already.

    `share` uses the store's own files (hard links), which is right where commands cannot write to them whatever their
    modes are; otherwise they are copied. `.venv` belongs to `owner` and is kept when another snapshot takes the place.
    The name always leads to a whole skill. What it led to before stays where it was for those who run in it, until
    `remove_replaced`. Raises `InvalidArgument` for a snapshot that is not in the store.
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
    """Whether this snapshot is in the workspace, as far as can be told without reading it."""
    name = check_skill_name(snapshot.name)
    try:
        inode = os.lstat(tree / SKILLS / name).st_ino
    except FileNotFoundError:
        return False
    return read_digest(tree, name) == (snapshot.digest, inode)


def remove_replaced(tree: Path) -> None:
    """Remove what newer snapshots have taken the place of, and what a crash left; no command may run in it now.

    A `.venv` that a crash kept from being taken over is taken over first.
    """
    with lock_file(tree.parent / _LOCK), _open_skills(tree) as skills:
        recover(tree, skills)
        for entry in os.listdir(skills):
            if entry.startswith(TEMPORARY_PREFIX):
                remove_entry(skills, entry)


@contextmanager
def _open_skills(tree: Path) -> Generator[int]:
    """A descriptor of the skills of a workspace, which is never a link that a script has put there."""
    root = os.open(tree, _READ | os.O_NOFOLLOW | os.O_CLOEXEC)
    with auto_close(root), auto_close(open_beneath(root, SKILLS, _READ, links=False)) as skills:
        yield skills


def _fill(source: Path, target: int, *, share: bool) -> None:
    """Everything that is in the snapshot, below the directory of the descriptor `target`."""
    directories = [""]
    for prefix in directories:
        try:
            reading = os.open(source / prefix, _READ | os.O_CLOEXEC)
        except FileNotFoundError:
            raise InvalidArgument("snapshot", f"{source.name} is not in the store any more; take it again") from None
        with auto_close(reading), auto_close(open_beneath(target, prefix or ".", _READ, links=False)) as writing:
            directories.extend(f"{prefix}{name}/" for name in _fill_directory(reading, writing, share=share))
    for prefix in reversed(directories[1:]):
        with auto_close(open_beneath(target, prefix, _READ, links=False)) as directory:
            os.fchmod(directory, DIRECTORY)


def _fill_directory(reading: int, writing: int, *, share: bool) -> list[str]:
    """The files of one directory; its directories are made and returned."""
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
            view = memoryview(chunk)
            while view:
                view = view[os.write(copy, view) :]
        os.fchmod(copy, PROGRAM if os.fstat(source).st_mode & 0o100 else FILE)


def _add_workspace_links(target: int, owner: tuple[int, int] | None) -> None:
    """The links to the workspace's directories, and an empty `.venv`."""
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
        # There is something with this name; it gets the other one.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        exchange_names(skills, aside, name)
