"""A snapshot in a workspace: `skills/<name>`, read-only, with the links and the `.venv` that belong there. Blocking."""

import errno
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from openskills.errors import InvalidArgument
from openskills.executors.files.openat2 import open_beneath, opened
from openskills.executors.files.removal import remove_entry
from openskills.executors.layout import LINKS, SKILLS, VENV
from openskills.executors.spec import Snapshot
from openskills.executors.staging.copying import DIRECTORY, FILE, PROGRAM
from openskills.executors.staging.exchange import exchange
from openskills.executors.staging.replaced import keep_venv, recover, remember, remembered
from openskills.executors.staging.snapshots import SnapshotStore, checked_skill_name
from openskills.files import ARRIVING, locked

_LOCK = "staging.lock"
_READ = os.O_RDONLY | os.O_DIRECTORY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINK = frozenset({errno.EXDEV, errno.EMLINK, errno.EPERM, errno.ENOTSUP, errno.ENOSYS})
_CHUNK = 1024 * 1024


def materialise(
    store: SnapshotStore, snapshot: Snapshot, tree: Path, *, share: bool, owner: tuple[int, int] | None = None
) -> None:
    """Make a snapshot available as `tree/skills/<name>`. Costs two looks at the disk when it is already.

    `share` uses the store's own files (hard links), which is right where commands cannot write to them whatever their
    modes are; otherwise they are copied. `.venv` belongs to `owner` and is kept when another snapshot takes the place.
    The name always leads to a whole skill. What it led to before stays where it was for those who run in it, until
    `discard_replaced`. Raises `InvalidArgument` for a snapshot that is not in the store.
    """
    name = checked_skill_name(snapshot.name)
    source = store.path(snapshot.digest)
    if is_staged(tree, snapshot):
        return
    with locked(tree.parent / _LOCK), _skills(tree) as skills:
        if is_staged(tree, snapshot):
            return
        recover(tree, skills)
        aside = ARRIVING + secrets.token_hex(8)
        os.mkdir(aside, 0o700, dir_fd=skills)
        with opened(open_beneath(skills, aside, _READ, links=False)) as target:
            try:
                _fill(source, target, share=share)
                _add_places(target, owner)
                _put_in_place(skills, aside, name)
            except BaseException:
                remove_entry(skills, aside)
                raise
            keep_venv(skills, aside, target)
            os.fchmod(target, DIRECTORY)
        remember(tree, name, snapshot.digest)


def is_staged(tree: Path, snapshot: Snapshot) -> bool:
    """Whether this snapshot is in the workspace, as far as can be told without reading it."""
    name = checked_skill_name(snapshot.name)
    try:
        inode = os.lstat(tree / SKILLS / name).st_ino
    except FileNotFoundError:
        return False
    return remembered(tree, name) == (snapshot.digest, inode)


def discard_replaced(tree: Path) -> None:
    """Remove what newer snapshots have taken the place of, and what a crash left; no command may run in it now.

    A `.venv` that a crash kept from being taken over is taken over first.
    """
    with locked(tree.parent / _LOCK), _skills(tree) as skills:
        recover(tree, skills)
        for entry in os.listdir(skills):
            if entry.startswith(ARRIVING):
                remove_entry(skills, entry)


@contextmanager
def _skills(tree: Path) -> Generator[int]:
    """A descriptor of the skills of a workspace, which is never a link that a script has put there."""
    root = os.open(tree, _READ | os.O_NOFOLLOW | os.O_CLOEXEC)
    with opened(root), opened(open_beneath(root, SKILLS, _READ, links=False)) as skills:
        yield skills


def _fill(source: Path, target: int, *, share: bool) -> None:
    """Everything that is in the snapshot, below the directory of the descriptor `target`."""
    directories = [""]
    for prefix in directories:
        try:
            reading = os.open(source / prefix, _READ | os.O_CLOEXEC)
        except FileNotFoundError:
            raise InvalidArgument("snapshot", f"{source.name} is not in the store any more; take it again") from None
        with opened(reading), opened(open_beneath(target, prefix or ".", _READ, links=False)) as writing:
            directories.extend(f"{prefix}{name}/" for name in _fill_directory(reading, writing, share=share))
    for prefix in reversed(directories[1:]):
        with opened(open_beneath(target, prefix, _READ, links=False)) as directory:
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
            elif not (share and _shared(reading, writing, entry.name)):
                _copy(reading, writing, entry.name)
    return below


def _shared(reading: int, writing: int, name: str) -> bool:
    try:
        os.link(name, name, src_dir_fd=reading, dst_dir_fd=writing, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        return False
    return True


def _copy(reading: int, writing: int, name: str) -> None:
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=reading)
    with opened(source), opened(os.open(name, _NEW, 0o600, dir_fd=writing)) as copy:
        while chunk := os.read(source, _CHUNK):
            view = memoryview(chunk)
            while view:
                view = view[os.write(copy, view) :]
        os.fchmod(copy, PROGRAM if os.fstat(source).st_mode & 0o100 else FILE)


def _add_places(target: int, owner: tuple[int, int] | None) -> None:
    """The links to the workspace's directories, and an empty `.venv`."""
    for link, leads_to in LINKS.items():
        os.symlink(leads_to, link, dir_fd=target)
    os.mkdir(VENV, 0o700, dir_fd=target)
    with opened(open_beneath(target, VENV, _READ, links=False)) as venv:
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
        exchange(skills, aside, name)
