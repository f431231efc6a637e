"""Files appear whole or not at all, locks hold, orphans are told from what is in use.

What arrives appears whole or not at all.

A file is written whole or not at all, and a lock lets one in at a time.
"""

import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from openskills.errors import SourceUnavailable
from openskills.filesystem import (
    MONTH,
    build_store_error,
    create_unnamed,
    find_folder,
    lock_file,
    make_private,
    remove_orphans,
    remove_unused,
    replace_directory,
    replace_file,
    replace_file_via,
    rewrite_file,
    scratch_directory,
    try_lock_directory,
    write_all,
)


def test_directories_are_made_with_their_parents_for_the_owner_only(tmp_path: Path) -> None:
    made = make_private(tmp_path / "a" / "b", durable=True)
    assert [path.stat().st_mode & 0o777 for path in (made, made.parent)] == [0o700, 0o700]
    assert make_private(made, durable=True) == made


def test_a_file_is_replaced_in_one_step_and_nothing_is_left_on_the_way(tmp_path: Path) -> None:
    way, target = make_private(tmp_path / "way", durable=True), tmp_path / "target"
    replace_file_via(target, b"one", via=way)
    replace_file_via(target, b"two", via=way)
    assert target.read_bytes() == b"two"
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(way.iterdir()) == []


def test_what_arrives_is_gone_at_the_end_unless_it_was_renamed(tmp_path: Path) -> None:
    way = make_private(tmp_path / "way", durable=True)
    with create_unnamed(way) as (handle, path):
        write_all(handle, b"half")
        assert path.read_bytes() == b"half"
    with create_unnamed(way) as (handle, path):
        write_all(handle, b"whole")
        path.rename(tmp_path / "kept")
    assert list(way.iterdir()) == []
    assert (tmp_path / "kept").read_bytes() == b"whole"


def test_what_arrives_is_gone_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(LookupError), create_unnamed(tmp_path):
        raise LookupError
    assert list(tmp_path.iterdir()) == []


def test_orphans_are_removed_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    (tmp_path / "orphan").write_bytes(b"left by a killed process")
    with create_unnamed(tmp_path) as (_, path):
        remove_orphans(tmp_path)
        assert list(tmp_path.iterdir()) == [path]


def test_removing_orphans_never_takes_a_file_from_its_writer(tmp_path: Path) -> None:
    way, stop = make_private(tmp_path / "way", durable=True), threading.Event()

    def sweep() -> None:
        while not stop.is_set():
            remove_orphans(way)

    sweeping = [threading.Thread(target=sweep) for _ in range(2)]
    for thread in sweeping:
        thread.start()
    try:
        for number in range(300):
            with create_unnamed(way) as (handle, path):
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
    with lock_file(path):
        assert not is_free(path, shared=True)
    with lock_file(path, shared=True):
        assert is_free(path, shared=True)
        assert not is_free(path, shared=False)
    assert is_free(path, shared=False)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lock_is_free_again_although_a_forked_child_lives_on(tmp_path: Path) -> None:
    program = """
import fcntl, os, sys
from pathlib import Path
from openskills.filesystem import lock_file

path = Path(sys.argv[1])
here, there = os.pipe()
with lock_file(path):
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
        (errno.ENOSPC, "the disk of the artifact store /s is full; stored artifacts are intact; free some space"),
        (errno.EDQUOT, "the disk of the artifact store /s is full"),
        (errno.EACCES, "no permission to use the artifact store /s: Permission denied (/s/x); check its owner"),
        (errno.EROFS, "no permission to use the artifact store /s: Read-only file system (/s/x)"),
        (errno.EIO, "the artifact store /s cannot be used: Input/output error (/s/x)"),
    ],
)
def test_errors_of_the_disk_become_sentences_with_the_fix(number: int, sentence: str) -> None:
    error = build_store_error(Path("/s"), OSError(number, os.strerror(number), "/s/x"))
    assert str(error).startswith(sentence)
    assert error.details == {"store": "/s", "errno": errno.errorcode[number]}


def test_a_directory_appears_when_the_block_ends(tmp_path: Path) -> None:
    into = tmp_path / "cache" / "deep" / "x"
    with replace_directory(into) as temporary:
        (temporary / "a").write_text("1")
        assert not into.exists()
    assert (into / "a").read_text() == "1"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (into, into.parent, into.parent.parent)] == [0o700] * 3


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with suppress(KeyError), replace_directory(tmp_path / "x") as temporary:
        (temporary / "a").write_text("1")
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_whoever_was_faster_wins(tmp_path: Path) -> None:
    with replace_directory(tmp_path / "x") as mine:
        (mine / "a").write_text("mine")
        with replace_directory(tmp_path / "x") as theirs:
            (theirs / "a").write_text("theirs")
    assert (tmp_path / "x" / "a").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_disk_that_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(SourceUnavailable, match=r"cannot write to .*file/sub"),
        replace_directory(tmp_path / "file/sub/x"),
    ):
        pass


def fill(parent: Path, *names: str, days: float = 0) -> None:
    then = time.time() - days * 24 * 3600
    for name in names:
        (parent / name / "skill").mkdir(parents=True)
        (parent / name / "skill" / "SKILL.md").write_text("x")
        os.utime(parent / name, (then, then))


def names_in(parent: Path) -> list[str]:
    return sorted(path.name for path in parent.iterdir() if path.name != ".lock")


def test_what_nobody_used_for_a_month_is_removed_and_what_is_used_or_kept_stays(tmp_path: Path) -> None:
    fill(tmp_path, "used", "forgotten", "kept", days=40)
    fill(tmp_path, "recent", days=20)
    (tmp_path / "link").symlink_to(tmp_path / "used")
    os.utime(tmp_path / "link", (0, 0), follow_symlinks=False)
    assert find_folder(tmp_path / "used") == tmp_path / "used" / "skill"
    remove_unused(tmp_path, after=MONTH, keep=frozenset({"kept"}))
    assert names_in(tmp_path) == ["kept", "recent", "used"]
    assert (tmp_path / "used" / "skill" / "SKILL.md").exists()


def test_what_is_old_is_not_removed_while_somebody_looks_for_it(tmp_path: Path) -> None:
    fill(tmp_path, "old", days=40)
    with try_lock_directory(tmp_path) as has_lock:
        assert has_lock
        removing = threading.Thread(target=remove_unused, args=(tmp_path,), kwargs={"after": MONTH})
        removing.start()
        removing.join(0.05)
        assert removing.is_alive()
        os.utime(tmp_path / "old")
    removing.join()
    assert find_folder(tmp_path / "old")


@pytest.mark.parametrize("emptied", ["x", "x/skill"])
def test_an_emptied_place_is_none_and_makes_way(emptied: str, tmp_path: Path) -> None:
    fill(tmp_path, "x")
    shutil.rmtree(tmp_path / emptied)
    (tmp_path / emptied).mkdir()
    assert find_folder(tmp_path / "x") is None
    with replace_directory(tmp_path / "x") as temporary:
        fill(temporary, "again")
    assert find_folder(tmp_path / "x") == tmp_path / "x" / "again"
    assert names_in(tmp_path) == ["x"]


def test_where_no_lock_can_be_had_nothing_is_removed_and_all_is_found(tmp_path: Path) -> None:
    fill(tmp_path, "x", "y", days=40)
    (tmp_path / ".lock").mkdir()
    assert find_folder(tmp_path / "x")
    remove_unused(tmp_path, after=MONTH)
    assert names_in(tmp_path) == ["x", "y"]


def test_scratch_is_gone_at_the_end(tmp_path: Path) -> None:
    with scratch_directory(tmp_path / "a") as directory:
        (directory / "x").write_text("")
    assert list((tmp_path / "a").iterdir()) == []


Write = Callable[[Path, bytes], None]


def replace_durably(path: Path, data: bytes) -> None:
    replace_file(path, data, durable=True)


REPLACING = (replace_file, replace_durably)
CALLS: dict[Write, str] = {
    replace_file: "replace_file(path, data)",
    replace_durably: "replace_file(path, data, durable=True)",
    rewrite_file: "rewrite_file(path, data)",
}


@pytest.mark.parametrize("write", REPLACING)
def test_a_file_appears_with_its_content_for_its_owner_only(tmp_path: Path, write: Write) -> None:
    for data in (b"one", b"two\0\xff"):
        write(tmp_path / "a", data)
        assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", data)]
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    for data in (b"one", b"two"):
        replace_file(tmp_path / "a", data)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"two")]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o444])
def test_a_rewritten_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "a").chmod(mode)
    rewrite_file(tmp_path / "a", b"two")
    assert [(path.read_bytes(), path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [(b"two", mode)]


def test_what_is_not_there_cannot_be_rewritten(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        rewrite_file(tmp_path / "a", b"two")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", REPLACING)
def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path, write: Write) -> None:
    (tmp_path / "target").write_bytes(b"one")
    (tmp_path / "link").symlink_to("target")
    write(tmp_path / "link", b"two")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"one"


@pytest.mark.parametrize("write", REPLACING)
def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "missing" / "a"
    with pytest.raises(FileNotFoundError) as caught:
        write(path, b"one")
    assert (caught.value.filename, caught.value.filename2) == (str(path), None)


@pytest.mark.parametrize("write", REPLACING)
def test_a_directory_in_its_place_stays_and_nothing_is_left_beside_it(tmp_path: Path, write: Write) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write(tmp_path / "a", b"one")
    assert caught.value.filename == str(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("write", CALLS)
def test_a_full_disk_leaves_the_old_content_and_nothing_else(tmp_path: Path, write: Write) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    code = (
        "import pathlib, sys\n"
        "from openskills.filesystem import replace_file, rewrite_file\n"
        "path, data = pathlib.Path(sys.argv[1]), b'x' * 100_000\n"
        "try:\n"
        f"    {CALLS[write]}\n"
        "except OSError as error:\n"
        "    print(error.errno, error.filename)\n"
    )
    # To a program, a limit on the size of files is like a disk that is full.
    line = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", sys.executable, "-c", code, str(file)]
    done = subprocess.run(line, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{errno.EFBIG} {file}\n", "")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]


def test_a_locked_block_is_entered_by_one_thread_at_a_time(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []
    begin = threading.Barrier(4)

    def work(number: int) -> None:
        begin.wait()
        for _ in range(50):
            with lock_file(tmp_path / "lock"):
                inside.append(number)
                time.sleep(0)
                most.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (200, 1)


def test_a_lock_ends_with_its_block_however_that_ends(tmp_path: Path) -> None:
    with pytest.raises(KeyError), lock_file(tmp_path / "lock"):
        raise KeyError
    with lock_file(tmp_path / "lock"):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_a_child_that_was_forked_in_the_block_does_not_keep_the_lock(tmp_path: Path) -> None:
    come, go = os.pipe()
    with lock_file(tmp_path / "lock"):
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(come, 1)
            os._exit(0)
    try:
        with lock_file(tmp_path / "lock"):
            pass
    finally:
        os.close(go)
        os.close(come)
        assert os.waitpid(child, 0) == (child, 0)


def test_a_lock_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, lock_file(tmp_path / "missing" / "lock"):
        pass
    assert caught.value.filename == str(tmp_path / "missing" / "lock")
