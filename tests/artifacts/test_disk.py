"""Files appear whole or not at all, locks hold, orphans are told from what is in use."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from openskills.artifacts.disk import arriving, failure, locked, private, remove_orphans, replace, write_all


def test_directories_are_made_with_their_parents_for_the_owner_only(tmp_path: Path) -> None:
    made = private(tmp_path / "a" / "b")
    assert [path.stat().st_mode & 0o777 for path in (made, made.parent)] == [0o700, 0o700]
    assert private(made) == made


def test_a_file_is_replaced_in_one_step_and_nothing_is_left_on_the_way(tmp_path: Path) -> None:
    way, target = private(tmp_path / "way"), tmp_path / "target"
    replace(target, b"one", via=way)
    replace(target, b"two", via=way)
    assert target.read_bytes() == b"two"
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(way.iterdir()) == []


def test_what_arrives_is_gone_at_the_end_unless_it_was_renamed(tmp_path: Path) -> None:
    way = private(tmp_path / "way")
    with arriving(way) as (handle, path):
        write_all(handle, b"half")
        assert path.read_bytes() == b"half"
    with arriving(way) as (handle, path):
        write_all(handle, b"whole")
        path.rename(tmp_path / "kept")
    assert list(way.iterdir()) == []
    assert (tmp_path / "kept").read_bytes() == b"whole"


def test_what_arrives_is_gone_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(LookupError), arriving(tmp_path):
        raise LookupError
    assert list(tmp_path.iterdir()) == []


def test_orphans_are_removed_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    (tmp_path / "orphan").write_bytes(b"left by a killed process")
    with arriving(tmp_path) as (_, path):
        remove_orphans(tmp_path)
        assert list(tmp_path.iterdir()) == [path]


def test_removing_orphans_never_takes_a_file_from_its_writer(tmp_path: Path) -> None:
    way, stop = private(tmp_path / "way"), threading.Event()

    def sweep() -> None:
        while not stop.is_set():
            remove_orphans(way)

    sweeping = [threading.Thread(target=sweep) for _ in range(2)]
    for thread in sweeping:
        thread.start()
    try:
        for number in range(300):
            with arriving(way) as (handle, path):
                write_all(handle, b"%d" % number)
                path.rename(tmp_path / f"kept-{number}")
    finally:
        stop.set()
        for thread in sweeping:
            thread.join()
    assert [(tmp_path / f"kept-{number}").read_bytes() for number in range(300)] == [b"%d" % n for n in range(300)]


def is_free(path: Path, *, shared: bool) -> bool:
    handle = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def test_a_lock_is_for_one_and_a_shared_lock_for_many(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path):
        assert not is_free(path, shared=True)
    with locked(path, shared=True):
        assert is_free(path, shared=True)
        assert not is_free(path, shared=False)
    assert is_free(path, shared=False)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lock_is_free_again_although_a_forked_child_lives_on(tmp_path: Path) -> None:
    program = """
import fcntl, os, sys
from pathlib import Path
from openskills.artifacts.disk import locked

path = Path(sys.argv[1])
here, there = os.pipe()
with locked(path):
    child = os.fork()
    if not child:
        os.close(there)
        os.read(here, 1)
        os._exit(0)
handle = os.open(path, os.O_RDWR)
fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.close(there)
os.waitpid(child, 0)
print("free")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "lock"], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("free\n", "")


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "the disk of the artifact store /s is full; what was stored before is intact; free some space"),
        (errno.EDQUOT, "the disk of the artifact store /s is full"),
        (errno.EACCES, "the artifact store /s may not be used by this user: Permission denied (/s/x); check its owner"),
        (errno.EROFS, "the artifact store /s may not be used by this user: Read-only file system (/s/x)"),
        (errno.EIO, "the artifact store /s cannot be used: Input/output error (/s/x)"),
    ],
)
def test_errors_of_the_disk_become_sentences_with_the_fix(number: int, sentence: str) -> None:
    error = failure(Path("/s"), OSError(number, os.strerror(number), "/s/x"))
    assert str(error).startswith(sentence)
    assert error.details == {"store": "/s", "errno": errno.errorcode[number]}
