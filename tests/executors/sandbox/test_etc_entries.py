import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from openskills.executors.sandbox.etc_entries import digest, etc_entries

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
    passwd = etc_entries({}, str(etc))["passwd"]
    assert isinstance(passwd, bytes)
    assert [line.partition(b":")[0] for line in passwd.splitlines()] == [b"root", b"u", b"nobody"]


def test_public_files_are_copied_and_links_stay_links(etc: Path) -> None:
    (etc / "ld.so.cache").write_bytes(b"cache")
    (etc / CERTIFICATES / "sub").mkdir()
    (etc / CERTIFICATES / "sub" / "all.pem").write_bytes(b"certificate")
    (etc / CERTIFICATES / "0a.0").symlink_to("/usr/share/one.crt")
    (etc / CERTIFICATES / "link-to-secret").symlink_to("/etc/shadow")
    entries = etc_entries({}, str(etc))
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
    entries = etc_entries({}, str(etc))
    assert not [path for path in entries if path.startswith(CERTIFICATES)]
    assert "ld.so.cache" not in entries


def test_a_directory_behind_a_link_is_taken_only_where_everybody_gets_to_it(etc: Path) -> None:
    elsewhere = etc.parent / "elsewhere" / "certs"
    elsewhere.mkdir(parents=True)
    (elsewhere / "one.pem").write_bytes(b"one")
    (etc / CERTIFICATES).rmdir()
    (etc / CERTIFICATES).symlink_to(elsewhere)
    assert etc_entries({}, str(etc))[f"{CERTIFICATES}/one.pem"] == b"one"
    elsewhere.parent.chmod(0o700)
    assert f"{CERTIFICATES}/one.pem" not in etc_entries({}, str(etc))


def test_a_file_behind_a_link_is_taken_only_where_everybody_gets_to_it(etc: Path) -> None:
    home = etc.parent / "home"
    home.mkdir()
    (home / "secret.cnf").write_bytes(b"secret")
    (etc / "ssl" / "openssl.cnf").symlink_to(home / "secret.cnf")
    assert etc_entries({}, str(etc))["ssl/openssl.cnf"] == b"secret"
    home.chmod(0o700)
    assert "ssl/openssl.cnf" not in etc_entries({}, str(etc))


def test_the_time_zone_is_a_link_into_the_system_or_a_copy(etc: Path) -> None:
    (etc / "localtime").symlink_to("/usr/share/zoneinfo/UTC")
    assert etc_entries({}, str(etc))["localtime"] == "/usr/share/zoneinfo/UTC"
    (etc / "localtime").unlink()
    (etc / "localtime").write_bytes(b"TZif")
    assert etc_entries({}, str(etc))["localtime"] == b"TZif"


def test_room_is_made_for_what_is_shown_below(etc: Path) -> None:
    entries = etc_entries({"/etc/tool/data": None, "/etc/other": "/opt/other"}, str(etc))
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
    assert len({digest(entries) for entries in different}) == len(different)
    assert digest({"a": b"1", "b": b"2"}) == digest({"b": b"2", "a": b"1"})


def test_this_machine_has_certificates_and_no_secrets_to_show() -> None:
    entries = etc_entries({})
    assert not [path for path in entries if "private" in path or "shadow" in path]
    assert not [path for path, entry in entries.items() if isinstance(entry, bytes) and b"PRIVATE KEY" in entry]
