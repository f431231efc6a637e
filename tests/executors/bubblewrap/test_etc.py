""""""

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.bubblewrap.etc import (
    EtcCache,
    EtcEntry,
    EtcStore,
    collect_etc_entries,
    digest_entries,
    find_visible_system,
)
from openskills.executors.files.descriptors import delete_tree
from openskills.filesystem import TEMPORARY_PREFIX
from tests.executors.held_pool import cancelled_in_its_thread, held_pool
from tests.executors.running import open_descriptors

CERTIFICATES = "ssl/certs"


@pytest.fixture
def etc() -> Generator[Path]:
    """An /etc that everybody gets to, which is not so for what pytest makes."""
    top = Path(tempfile.mkdtemp(prefix="openskills-etc-"))
    top.chmod(0o755)
    found = top / "etc"
    (found / CERTIFICATES).mkdir(parents=True)
    try:
        yield found
    finally:
        shutil.rmtree(top)


def test_users_of_the_machine_are_not_shown(etc: Path) -> None:
    (etc / "passwd").write_text("alice:x:1:1::/:/bin/sh\n")
    passwd = collect_etc_entries({}, str(etc))["passwd"]
    assert isinstance(passwd, bytes)
    assert [line.partition(b":")[0] for line in passwd.splitlines()] == [b"root", b"u", b"nobody"]


def test_public_files_are_copied_and_links_stay_links(etc: Path) -> None:
    (etc / "ld.so.cache").write_bytes(b"cache")
    (etc / CERTIFICATES / "sub").mkdir()
    (etc / CERTIFICATES / "sub" / "all.pem").write_bytes(b"certificate")
    (etc / CERTIFICATES / "0a.0").symlink_to("/usr/share/one.crt")
    (etc / CERTIFICATES / "link-to-secret").symlink_to("/etc/shadow")
    entries = collect_etc_entries({}, str(etc))
    assert entries["ld.so.cache"] == b"cache"
    assert entries[f"{CERTIFICATES}/sub/all.pem"] == b"certificate"
    assert entries[f"{CERTIFICATES}/0a.0"] == "/usr/share/one.crt"
    assert entries[f"{CERTIFICATES}/link-to-secret"] == "/etc/shadow"


def test_what_not_everybody_may_read_is_left_out(etc: Path) -> None:
    closed, hidden = etc / CERTIFICATES / "key.pem", etc / CERTIFICATES / "private"
    closed.write_text("secret")
    closed.chmod(0o640)
    hidden.mkdir(mode=0o700)
    (hidden / "key.pem").write_text("secret")
    (etc / "ld.so.cache").write_text("secret")
    (etc / "ld.so.cache").chmod(0o600)
    os.mkfifo(etc / CERTIFICATES / "pipe")
    (etc / CERTIFICATES / "huge").touch()
    os.truncate(etc / CERTIFICATES / "huge", 9 * 1024 * 1024)
    entries = collect_etc_entries({}, str(etc))
    assert not [path for path in entries if path.startswith(CERTIFICATES)]
    assert "ld.so.cache" not in entries


def test_a_directory_behind_a_link_is_taken_only_where_everybody_gets_to_it(etc: Path) -> None:
    elsewhere = etc.parent / "elsewhere" / "certs"
    elsewhere.mkdir(parents=True)
    (elsewhere / "one.pem").write_bytes(b"one")
    (etc / CERTIFICATES).rmdir()
    (etc / CERTIFICATES).symlink_to(elsewhere)
    assert collect_etc_entries({}, str(etc))[f"{CERTIFICATES}/one.pem"] == b"one"
    elsewhere.parent.chmod(0o700)
    assert f"{CERTIFICATES}/one.pem" not in collect_etc_entries({}, str(etc))


def test_a_file_behind_a_link_is_taken_only_where_everybody_gets_to_it(etc: Path) -> None:
    home = etc.parent / "home"
    home.mkdir()
    (home / "secret.cnf").write_bytes(b"secret")
    (etc / "ssl" / "openssl.cnf").symlink_to(home / "secret.cnf")
    assert collect_etc_entries({}, str(etc))["ssl/openssl.cnf"] == b"secret"
    home.chmod(0o700)
    assert "ssl/openssl.cnf" not in collect_etc_entries({}, str(etc))


def test_the_time_zone_is_a_link_into_the_system_or_a_copy(etc: Path) -> None:
    (etc / "localtime").symlink_to("/usr/share/zoneinfo/UTC")
    assert collect_etc_entries({}, str(etc))["localtime"] == "/usr/share/zoneinfo/UTC"
    (etc / "localtime").unlink()
    (etc / "localtime").write_bytes(b"TZif")
    assert collect_etc_entries({}, str(etc))["localtime"] == b"TZif"


def test_room_is_made_for_what_is_shown_below(etc: Path) -> None:
    entries = collect_etc_entries({"/etc/tool/data": None, "/etc/other": "/opt/other"}, str(etc))
    assert entries["tool/data"] is None
    assert entries["other"] == "/opt/other"


def test_the_digest_tells_kinds_names_and_contents_apart() -> None:
    different = [
        {"a": b"x"},
        {"a": "x"},
        {"a": None},
        {"b": b"x"},
        {"a": b"y"},
        {"a": b"", "b": b""},
        {"a": b"", "b": None},
        {},
    ]
    assert len({digest_entries(entries) for entries in different}) == len(different)
    assert digest_entries({"a": b"1", "b": b"2"}) == digest_entries({"b": b"2", "a": b"1"})


def test_this_machine_has_certificates_and_no_secrets_to_show() -> None:
    entries = collect_etc_entries({})
    assert not [path for path in entries if "private" in path or "shadow" in path]
    assert not [path for path, entry in entries.items() if isinstance(entry, bytes) and b"PRIVATE KEY" in entry]


async def test_it_is_made_once_and_again_when_somebody_removes_it(tmp_path: Path) -> None:
    held = EtcCache({"/etc/tool": None})
    first, second = await asyncio.gather(held.get_descriptor(tmp_path), held.get_descriptor(tmp_path))
    assert first == second
    assert {"passwd", "group", "hosts", "nsswitch.conf", "tool"} <= set(os.listdir(first))
    for path in tmp_path.iterdir():
        delete_tree(path)
    third = await held.get_descriptor(tmp_path)
    assert third != first
    assert "passwd" in os.listdir(third)
    # Who had it before can still say that he has it.
    os.fstat(first)
    held.close()
    for descriptor in (first, third):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


async def test_a_failure_is_not_remembered(tmp_path: Path) -> None:
    held = EtcCache({})
    (tmp_path / "store").write_text("")
    with pytest.raises(ExecutorUnavailable):
        await held.get_descriptor(tmp_path / "store")
    (tmp_path / "store").unlink()
    assert "passwd" in os.listdir(await held.get_descriptor(tmp_path / "store"))
    held.close()


async def test_a_directory_that_was_asked_for_in_vain_is_not_left_open(tmp_path: Path) -> None:
    pool, held = held_pool(), EtcCache({})
    before = open_descriptors()
    await cancelled_in_its_thread(asyncio.ensure_future(held.get_descriptor(tmp_path)), pool)
    assert open_descriptors() == before
    assert "passwd" in os.listdir(await held.get_descriptor(tmp_path))
    held.close()


ENTRIES: Mapping[str, EtcEntry] = {
    "passwd": b"u:x:1000\n",
    "ssl/certs/0a.0": "one.pem",
    "ssl/certs/one.pem": b"certificate",
    "tool/data": None,
}


def opened(store: EtcStore, entries: Mapping[str, EtcEntry] = ENTRIES) -> None:
    os.close(store.open(entries))


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_a_directory_holds_exactly_its_entries_and_is_readable_for_everybody_and_writable_for_nobody(
    tmp_path: Path,
) -> None:
    opened(EtcStore(tmp_path / "state" / "system"))
    root = tmp_path / "state" / "system"
    made = root / digest_entries(ENTRIES)
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
    assert stat.S_IMODE((tmp_path / "system" / digest_entries(ENTRIES) / "ssl").stat().st_mode) == 0o555


def test_the_same_entries_are_made_once(tmp_path: Path) -> None:
    opened(EtcStore(tmp_path))
    inode = (tmp_path / digest_entries(ENTRIES)).stat().st_ino
    opened(EtcStore(tmp_path))
    assert (tmp_path / digest_entries(ENTRIES)).stat().st_ino == inode
    assert names(tmp_path) == [digest_entries(ENTRIES)]


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
    assert found == {((tmp_path / digest_entries(entries)).stat().st_ino, 50)}
    assert names(tmp_path) == [digest_entries(entries)]


DIES_HALF_WAY = """
import os, signal, sys
from pathlib import Path
from openskills.executors.bubblewrap.etc import EtcStore

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
    assert left.startswith(TEMPORARY_PREFIX)
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
    assert names(tmp_path) == [digest_entries(ENTRIES)]
    os.close(held)
    assert store.sweep(older_than=0) == 1
    assert names(tmp_path) == []


def test_old_ones_that_nobody_uses_go_when_another_is_made(tmp_path: Path) -> None:
    store = EtcStore(tmp_path)
    opened(store)
    os.utime(tmp_path / digest_entries(ENTRIES), (1, 1))
    opened(store, {"other": b""})
    assert names(tmp_path) == [digest_entries({"other": b""})]


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
    with pytest.raises(ExecutorUnavailable, match=r"cannot store the /etc of sandboxes in .*file"):
        EtcStore(tmp_path / "file").open(ENTRIES)
    (tmp_path / digest_entries(ENTRIES)).write_text("")
    with pytest.raises(ExecutorUnavailable, match="cannot store the /etc"):
        EtcStore(tmp_path).open(ENTRIES)


def test_the_system_is_an_allow_list_without_the_root_and_without_homes() -> None:
    system = find_visible_system([])
    assert "/usr" in system.binds
    assert not {"/", "/etc", "/home", "/root", "/var", "/run", "/sys", "/proc"} & set(system.binds)
    assert all(os.path.exists(path) for path in system.binds)


def test_programs_are_found_where_the_host_has_them() -> None:
    system = find_visible_system([])
    for path in ("/bin", "/lib"):
        assert (os.readlink(path), path) in system.links if os.path.islink(path) else path in system.binds


def test_a_directory_is_shown_at_its_own_path_also_behind_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    system = find_visible_system([link])
    assert str(real) in system.binds
    assert (str(real), str(link)) in system.links


def test_what_is_shown_below_etc_gets_a_place_or_a_link_there(tmp_path: Path) -> None:
    below = next(path for path in sorted(Path("/etc").iterdir()) if path.is_dir() and not path.is_symlink())
    assert find_visible_system([below]).in_etc == ((str(below), None),)
    assert find_visible_system([tmp_path]).in_etc == ()
    linked = [path for path in Path("/etc").rglob("*") if path.is_symlink() and path.is_dir()]
    for path in linked[:1]:
        system = find_visible_system([path])
        assert (str(path), os.path.realpath(path)) in system.in_etc
        assert str(path) not in [place for _, place in system.links]


def test_what_is_shown_already_is_not_shown_twice() -> None:
    assert find_visible_system([Path("/usr/lib")]).binds == find_visible_system([]).binds
    prefix = os.path.realpath(sys.base_prefix)
    assert find_visible_system([Path(prefix), Path(prefix) / "lib"]).binds.count(prefix) <= 1
