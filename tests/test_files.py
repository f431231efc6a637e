"""A file is written whole or not at all, and a lock lets one in at a time."""

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from openskills.files import locked, replace_file, replace_file_durably, rewrite_file

Write = Callable[[Path, bytes], None]
REPLACING = (replace_file, replace_file_durably)
WRITING = (*REPLACING, rewrite_file)


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


@pytest.mark.parametrize("write", WRITING)
def test_a_full_disk_leaves_the_old_content_and_nothing_else(tmp_path: Path, write: Write) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    code = (
        "import pathlib, sys\n"
        f"from openskills.files import {write.__name__} as write\n"
        "try:\n"
        "    write(pathlib.Path(sys.argv[1]), b'x' * 100_000)\n"
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
            with locked(tmp_path / "lock"):
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
    with pytest.raises(KeyError), locked(tmp_path / "lock"):
        raise KeyError
    with locked(tmp_path / "lock"):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_a_child_that_was_forked_in_the_block_does_not_keep_the_lock(tmp_path: Path) -> None:
    come, go = os.pipe()
    with locked(tmp_path / "lock"):
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(come, 1)
            os._exit(0)
    try:
        with locked(tmp_path / "lock"):
            pass
    finally:
        os.close(go)
        os.close(come)
        assert os.waitpid(child, 0) == (child, 0)


def test_a_lock_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, locked(tmp_path / "missing" / "lock"):
        pass
    assert caught.value.filename == str(tmp_path / "missing" / "lock")
