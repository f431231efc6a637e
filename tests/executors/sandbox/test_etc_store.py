import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.sandbox.etc_entries import Entry, digest
from openskills.executors.sandbox.etc_store import EtcStore
from openskills.files import ARRIVING

ENTRIES: Mapping[str, Entry] = {
    "passwd": b"u:x:1000\n",
    "ssl/certs/0a.0": "one.pem",
    "ssl/certs/one.pem": b"certificate",
    "tool/data": None,
}


def opened(store: EtcStore, entries: Mapping[str, Entry] = ENTRIES) -> None:
    os.close(store.open(entries))


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_a_directory_holds_exactly_its_entries_and_is_readable_for_everybody_and_writable_for_nobody(
    tmp_path: Path,
) -> None:
    opened(EtcStore(tmp_path / "state" / "system"))
    root = tmp_path / "state" / "system"
    made = root / digest(ENTRIES)
    found = {str(path.relative_to(made)): path for path in made.rglob("*")}
    assert sorted(found) == sorted({"passwd", "ssl", "ssl/certs", *ENTRIES, "tool"})
    assert (made / "passwd").read_bytes() == b"u:x:1000\n"
    assert os.readlink(made / "ssl" / "certs" / "0a.0") == "one.pem"
    for path in (made, *(path for path in found.values() if not path.is_symlink())):
        assert stat.S_IMODE(path.stat().st_mode) == (0o555 if path.is_dir() else 0o444)
    assert stat.S_IMODE(root.stat().st_mode) == 0o755
    assert stat.S_IMODE(root.parent.stat().st_mode) == 0o700


def test_the_mask_of_the_process_does_not_matter(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        opened(EtcStore(tmp_path / "system"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "system" / digest(ENTRIES) / "ssl").stat().st_mode) == 0o555


def test_the_same_entries_are_made_once(tmp_path: Path) -> None:
    opened(EtcStore(tmp_path))
    inode = (tmp_path / digest(ENTRIES)).stat().st_ino
    opened(EtcStore(tmp_path))
    assert (tmp_path / digest(ENTRIES)).stat().st_ino == inode
    assert names(tmp_path) == [digest(ENTRIES)]


def test_many_who_make_it_at_once_get_the_same_whole_directory(tmp_path: Path) -> None:
    entries = {**ENTRIES, **{f"many/{number}": b"x" * number for number in range(50)}}

    def content() -> tuple[int, int]:
        descriptor = EtcStore(tmp_path).open(entries)
        try:
            with os.scandir(descriptor) as found:
                assert {entry.name for entry in found} == {"passwd", "ssl", "tool", "many"}
            return os.fstat(descriptor).st_ino, len(os.listdir(f"/proc/self/fd/{descriptor}/many"))
        finally:
            os.close(descriptor)

    with ThreadPoolExecutor(8) as pool:
        found = {future.result() for future in [pool.submit(content) for _ in range(24)]}
    assert found == {((tmp_path / digest(entries)).stat().st_ino, 50)}
    assert names(tmp_path) == [digest(entries)]


DIES_HALF_WAY = """
import os, signal, sys
from pathlib import Path
from openskills.executors.sandbox.etc_store import EtcStore

class Deadly(dict):
    times = 0

    def items(self):
        yield "passwd", b"half"
        yield "second", b"half"
        # Asked for the digest, for the directories, and when the files are written.
        Deadly.times += 1
        if Deadly.times == 3:
            os.kill(os.getpid(), signal.SIGKILL)

EtcStore(Path(sys.argv[1])).open(Deadly())
"""


def test_what_somebody_was_killed_over_is_never_used_and_goes_with_the_next_sweep(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", DIES_HALF_WAY, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = names(tmp_path)
    assert left.startswith(ARRIVING)
    store = EtcStore(tmp_path)
    opened(store, {"passwd": b"half", "second": b"half"})
    assert store.sweep(older_than=0) == 1
    assert names(tmp_path) == [left]
    os.utime(tmp_path / left, (1, 1))
    assert store.sweep() == 1
    assert names(tmp_path) == []


def test_one_that_somebody_uses_is_not_removed(tmp_path: Path) -> None:
    store = EtcStore(tmp_path)
    held = store.open(ENTRIES)
    opened(store, {"other": b""})
    assert store.sweep(older_than=0) == 1
    assert names(tmp_path) == [digest(ENTRIES)]
    os.close(held)
    assert store.sweep(older_than=0) == 1
    assert names(tmp_path) == []


def test_old_ones_that_nobody_uses_go_when_another_is_made(tmp_path: Path) -> None:
    store = EtcStore(tmp_path)
    opened(store)
    os.utime(tmp_path / digest(ENTRIES), (1, 1))
    opened(store, {"other": b""})
    assert names(tmp_path) == [digest({"other": b""})]


def test_one_that_is_removed_and_made_all_the_time_is_always_whole(tmp_path: Path) -> None:
    store = EtcStore(tmp_path)

    def look() -> int:
        descriptor = store.open(ENTRIES)
        try:
            return len(os.listdir(f"/proc/self/fd/{descriptor}/ssl/certs"))
        finally:
            os.close(descriptor)

    with ThreadPoolExecutor(4) as pool:
        looks = [pool.submit(work) for _ in range(40) for work in (look, lambda: store.sweep(older_than=0) and 2)]
        assert {future.result() for future in looks} <= {2, 0}
        assert {future.result() for future in looks[::2]} == {2}


def test_nothing_else_in_the_place_is_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    store = EtcStore(tmp_path)
    opened(store)
    store.sweep(older_than=0)
    assert names(tmp_path) == ["mine"]


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExecutorUnavailable, match=r"/etc cannot be kept in .*file"):
        EtcStore(tmp_path / "file").open(ENTRIES)
    (tmp_path / digest(ENTRIES)).write_text("")
    with pytest.raises(ExecutorUnavailable, match="cannot be kept"):
        EtcStore(tmp_path).open(ENTRIES)
