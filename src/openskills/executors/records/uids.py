"""A user of its own for each workspace, when we are root: commands must not run as root, nor as each other. Blocking.

Each user id has a file. Who has a lock on it has the id; in it stands whose it was, so that a workspace that is not in
use keeps the id that its files belong to.
"""

import fcntl
import grp
import os
import pwd
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from openskills.errors import ExecutorUnavailable


class HeldUid:
    """A user id that nobody else gets until it is released, or this process is gone."""

    def __init__(self, uid: int, descriptor: int) -> None:
        self.uid = uid
        self._descriptor = descriptor

    def release(self) -> None:
        """Give it back; safe to call twice."""
        if self._descriptor >= 0:
            # Said aloud: closing would not free it as long as a forked child has a copy.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = -1


class UidPool:
    """The user ids of a range, from `first` to `last`, with their files in a directory that only we can write to.

    `exists` tells whether there still is an owner of this name.
    """

    def __init__(self, directory: Path, first: int, last: int, exists: Callable[[str], bool]) -> None:
        self._directory = directory
        self._range = range(first, last + 1)
        self._exists = exists

    def claim(self, owner: str, preferred: int | None = None) -> HeldUid:
        """A user id for an owner: the preferred one, which it had before, or one that no living owner has.

        Raises `ExecutorUnavailable` when the preferred one is in use by somebody else, or all are taken.
        """
        if preferred is not None:
            if _is_known(preferred):
                raise ExecutorUnavailable(
                    f"the user id {preferred} of this workspace belongs to somebody on this machine now; remove it"
                )
            held = self._take(preferred, owner)
            if held is None:
                raise ExecutorUnavailable(f"the user id {preferred} of this workspace is in use; try again later")
            return held
        for uid in self._candidates():
            if not _is_known(uid) and (held := self._take(uid, owner)):
                return held
        raise ExecutorUnavailable(
            f"all user ids from {self._range.start} to {self._range.stop - 1} are taken; remove workspaces with "
            "`openskills workspaces clean`, or set OPENSKILL_SANDBOX_UIDS to more"
        )

    def _candidates(self) -> Iterator[int]:
        # From anywhere on, so that the first free one is found soon.
        start = random.randrange(len(self._range))  # noqa: S311 - only spreads
        return (self._range[(start + step) % len(self._range)] for step in range(len(self._range)))

    def _file(self, uid: int) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        path = self._directory / str(uid)
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(path, flags, 0o600)

    def _take(self, uid: int, owner: str) -> HeldUid | None:
        descriptor = self._file(uid)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            before = os.pread(descriptor, 256, 0).decode("ascii", "replace").strip()
            if before not in ("", owner) and self._exists(before):
                os.close(descriptor)
                return None
            if before != owner:
                # Over what was there, without cutting it: that would make some file systems wait for the disk.
                os.pwrite(descriptor, owner.ljust(len(before)).encode("ascii"), 0)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return HeldUid(uid, descriptor)


def _is_known(uid: int) -> bool:
    """Whether the machine has a user or group of this number."""
    for look_up in (pwd.getpwuid, grp.getgrgid):
        try:
            look_up(uid)
        except KeyError:
            continue
        return True
    return False
