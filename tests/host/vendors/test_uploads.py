"""Hostile clients of `/v1`: broken bodies, lying names, archives that are two things, races, dialect confusion."""

import io
import json
import os
import socket
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from openskills.host.parts import HostOptions
from openskills.host.vendors.api import MAX_UPLOADS_PER_KEY
from tests.host.hosting import Served, eventually
from tests.host.vendors.uploading import form_of, skill_files, uploading_host, zip_of

ANTHROPIC = {"anthropic-version": "2023-06-01"}
SKILL = skill_files()["SKILL.md"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def shared_host(directory: Path) -> Iterator[Served]:
    options = HostOptions(watch=False, body_seconds=1.0)
    with uploading_host(directory, options=options, host_upload_size=1 << 20) as one:
        yield one


@pytest.fixture
def host(shared_host: Served) -> Iterator[Served]:
    yield shared_host
    left = shared_host.client.get("/v1/skills").json()["data"]
    for one in left:
        shared_host.client.delete(f"/v1/skills/{one['id']}")
    assert left == []


@pytest.fixture
def uploads(directory: Path) -> Path:
    return directory / ".local/state/openskills/uploads"


def post(host: Served, files: Any, **more: Any) -> httpx2.Response:
    return host.client.post("/v1/skills", files=files, **more)


def message(response: httpx2.Response) -> str:
    return str(response.json()["error"]["message"])


def nothing_arrives(uploads: Path) -> bool:
    return not any((uploads / "incoming").iterdir())


def raw(host: Served, data: bytes, *, read: bool = True) -> bytes:
    """Send bytes over a connection of our own, and close it."""
    with socket.create_connection(("127.0.0.1", httpx2.URL(host.url).port or 0), timeout=10) as connection:
        connection.sendall(data)
        if not read:
            return b""
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


def head(length: int | None = None, extra: bytes = b"", path: bytes = b"/v1/skills") -> bytes:
    size = b"" if length is None else b"Content-Length: %d\r\n" % length
    kind = b"Content-Type: multipart/form-data; boundary=XX\r\n"
    return b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%b%b%b\r\n" % (path, kind, size, extra)


def part(name: bytes, data: bytes, more: bytes = b"") -> bytes:
    disposition = b'Content-Disposition: form-data; name="files[]"; filename="%b"' % name
    return b"--XX\r\n%b\r\n%b\r\n%b\r\n" % (disposition, more, data)


def test_a_cancelled_upload_leaves_nothing(host: Served, uploads: Path) -> None:
    raw(host, head(100_000) + part(b"greeter/SKILL.md", SKILL), read=False)
    eventually(lambda: nothing_arrives(uploads))


def test_slow_uploads_of_one_caller_are_limited(host: Served, uploads: Path) -> None:
    start = head(100_000) + part(b"greeter/SKILL.md", SKILL)
    port = httpx2.URL(host.url).port or 0
    slow = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(MAX_UPLOADS_PER_KEY)]
    for connection in slow:
        connection.sendall(start)
    eventually(lambda: len(os.listdir(uploads / "incoming")) == MAX_UPLOADS_PER_KEY)
    refused = post(host, form_of(skill_files()))
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    for connection in slow:
        connection.close()
    eventually(lambda: nothing_arrives(uploads))


def test_an_upload_that_stops_is_refused_in_time(host: Served, uploads: Path) -> None:
    answer = raw(host, head(100_000) + part(b"greeter/SKILL.md", SKILL))
    assert answer.startswith(b"HTTP/1.1 408")
    assert b'"error"' in answer
    eventually(lambda: nothing_arrives(uploads))


def test_a_body_without_its_last_boundary_is_refused(host: Served) -> None:
    body = part(b"greeter/SKILL.md", SKILL)
    answer = raw(host, head(len(body)) + body)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"has no end" in answer


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"", 400, b"has no end"),
        (b"garbage", 400, b"not valid multipart"),
        (b"--XX--\r\n", 400, b"files"),
        (part(b"a", b"x", b"X-Long: " + b"y" * 5000 + b"\r\n") + b"--XX--\r\n", 400, b"not valid multipart"),
        (
            part(b"a", b"x", b"".join(b"X-%d: y\r\n" % n for n in range(20))) + b"--XX--\r\n",
            400,
            b"not valid multipart",
        ),
        (b"--XX\r\nContent-Type: text/plain\r\n\r\nx\r\n--XX--\r\n", 400, b"Content-Disposition"),
        (b'--XX\r\nContent-Disposition: attachment; name="files"\r\n\r\nx\r\n--XX--\r\n', 400, b"Content-Disposition"),
        (part(b"a\xff", b"x") + b"--XX--\r\n", 400, b"UTF-8"),
        (part(b"", b"x") + b"--XX--\r\n", 400, b"files"),
        (part(b"greeter/SKILL.md", SKILL) + part(b"greeter/a\0b", b"x") + b"--XX--\r\n", 400, b"files"),
    ],
)
def test_malformed_bodies_are_refused_with_a_reason(host: Served, body: bytes, status: int, reason: bytes) -> None:
    answer = raw(host, head(len(body)) + body)
    assert answer.startswith(b"HTTP/1.1 %d" % status), answer
    assert reason in answer


def test_fields_that_are_kept_in_memory_are_limited(host: Served) -> None:
    field = b'--XX\r\nContent-Disposition: form-data; name="f%d"\r\n\r\n%b\r\n'
    for count, size in ((3, 30_000), (21, 1)):
        body = b"".join(field % (number, b"y" * size) for number in range(count)) + b"--XX--\r\n"
        answer = raw(host, head(len(body)) + body)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"besides files" in answer


def test_too_many_parts_are_refused(host: Served) -> None:
    body = b"".join(part(b"greeter/%d.txt" % number, b"x") for number in range(1100)) + b"--XX--\r\n"
    answer = raw(host, head(len(body)) + body)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"too many parts" in answer


def test_a_body_that_is_too_large_is_refused_before_it_is_read(host: Served) -> None:
    answer = raw(host, head(1 << 40))
    assert answer.startswith(b"HTTP/1.1 413")
    for headers, kind in (({}, "invalid_request_error"), (ANTHROPIC, "request_too_large")):
        refused = post(host, form_of({**skill_files(), "big.bin": b"x" * (3 << 20)}), headers=headers)
        assert refused.status_code == 413
        assert refused.json()["error"]["type"] == kind


def test_other_content_types_are_refused(host: Served) -> None:
    assert host.client.post("/v1/skills", json={"files": []}).status_code == 415
    assert (
        host.client.post("/v1/skills", content=b"x", headers={"Content-Type": "multipart/form-data"}).status_code == 400
    )
    coded = {"Content-Encoding": "gzip"}
    assert post(host, form_of(skill_files()), headers=coded).status_code == 415


@pytest.mark.parametrize(
    "name",
    [
        "../SKILL.md",
        "/etc/passwd",
        "greeter/../../x",
        "greeter/a\\b",
        "C:/x",
        "greeter/" + "a/" * 40 + "b",
        "greeter/" + "n" * 1100,
        "greeter/SKILL.md/x",
        "GREETER/skill.MD",
        "other/file.txt",
        "greeter/sub/SKILL.md",
        ".",
    ],
)
def test_names_that_lie_are_refused(host: Served, name: str) -> None:
    refused = post(host, [*form_of(skill_files()), ("files[]", (name, b"x"))])
    assert refused.status_code in {400, 413}, refused.text
    assert refused.json()["error"]["param"] in {"files", "body"}


def test_the_same_name_twice_is_refused(host: Served) -> None:
    refused = post(host, [*form_of(skill_files()), *form_of(skill_files())])
    assert (refused.status_code, "twice" in message(refused)) == (400, True)


def archive(change: Callable[[zipfile.ZipFile], None]) -> bytes:
    made = io.BytesIO(zip_of(skill_files()))
    with zipfile.ZipFile(made, "a") as opened:
        change(opened)
    return made.getvalue()


def special(name: str, mode: int, data: bytes = b"target") -> Callable[[zipfile.ZipFile], None]:
    def add(opened: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo(name)
        info.create_system, info.external_attr = 3, mode << 16
        opened.writestr(info, data)

    return add


def merged(before: bytes, after: bytes) -> bytes:
    return before + after


GOOD, OTHER = zip_of(skill_files()), zip_of(skill_files("other", "Evil"), "other")
ARCHIVES = {
    "link": (archive(special("greeter/link", stat.S_IFLNK | 0o777)), "symbolic link"),
    "device": (archive(special("greeter/dev", stat.S_IFCHR | 0o666)), "device"),
    "fifo": (archive(special("greeter/pipe", stat.S_IFIFO | 0o666)), "named pipe"),
    "dots": (archive(special("../evil", stat.S_IFREG | 0o644)), "evil"),
    "absolute": (archive(special("/evil", stat.S_IFREG | 0o644)), "evil"),
    "bomb": (archive(special("greeter/zeros", stat.S_IFREG | 0o644, bytes(900_000) * 5)), "limit"),
    "duplicate": (archive(special("greeter/skill.md", stat.S_IFREG | 0o644)), "differ only in case"),
    "two zips": (merged(GOOD, OTHER), "another archive"),
    "prepended": (merged(b"PK\x03\x04" + b"x" * 100, GOOD), "another archive"),
    "appended": (merged(GOOD, b"trailing"), ""),
    "truncated": (GOOD[:-30], "damaged"),
    "not a zip": (b"PK\x03\x04 no, it is not", "damaged"),
    "text": (b"hello", "not a zip archive"),
    "empty": (b"", "not a zip archive"),
    "empty zip": (b"PK\x05\x06" + bytes(18), "SKILL.md"),
    "no skill": (zip_of({"README.md": b"x"}), "SKILL.md"),
    "two folders": (zip_of({"a/SKILL.md": SKILL, "b/x": b"x"}, ""), "one folder"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_hostile_archives_are_refused_with_a_reason(host: Served, uploads: Path, kind: str) -> None:
    data, reason = ARCHIVES[kind]
    refused = post(host, {"files": ("skill.zip", data)})
    assert refused.status_code in {400, 413}, refused.text
    assert reason in message(refused)
    assert str(uploads) not in refused.text
    assert nothing_arrives(uploads)


def test_an_archive_that_hides_another_in_its_comment_is_refused(host: Served) -> None:
    made = io.BytesIO(GOOD)
    with zipfile.ZipFile(made, "a") as opened:
        opened.comment = OTHER[-200:]
    refused = post(host, {"files": ("skill.zip", made.getvalue())})
    # Python reads the last directory that it finds.
    assert (refused.status_code, "'other/SKILL.md' has no header" in message(refused)) == (400, True)


def test_the_dialect_is_that_of_the_caller(host: Served) -> None:
    made = post(host, form_of(skill_files())).json()
    try:
        # OpenAI's paths do not exist for Anthropic's clients.
        refused = host.client.get(f"/v1/skills/{made['id']}/content", headers=ANTHROPIC)
        assert (refused.status_code, refused.json()["error"]["type"]) == (404, "not_found_error")
        refused = host.client.post(f"/v1/skills/{made['id']}", json={"default_version": "1"}, headers=ANTHROPIC)
        assert (refused.status_code, refused.json()["type"]) == (405, "error")
        assert "POST" not in refused.headers["allow"]
        for path in ("/v1", "/v1/", "/v1/nothing", "/v1/skills/", "/v1/skills/a/b", "/v1/messages"):
            assert "message" in host.client.get(path).json()["error"], path
        refused = host.client.get("/v1/skills", params={"limit": "1e9"})
        assert refused.json()["error"]["param"] == "limit"
        refused = host.client.get("/v1/skills", params={"order": "up"})
        assert refused.json()["error"]["param"] == "order"
        assert host.client.get("/v1/skills", params={"limit": "1000"}, headers=ANTHROPIC).status_code == 200
        found = host.client.get(
            f"/v1/skills/{made['id']}", headers={**ANTHROPIC, "anthropic-beta": "skills-2025-10-02"}
        )
        assert found.json()["source"] == "custom"
        assert host.client.get(f"/v1/skills/{made['id']}", headers=ANTHROPIC).json()["source"] == {"type": "custom"}
        twice = [("Authorization", "Bearer a"), ("Authorization", "Bearer b"), ("anthropic-version", "1")]
        assert host.client.get("/v1/skills", headers=twice).json()["type"] == "error"
    finally:
        host.client.delete(f"/v1/skills/{made['id']}")


def test_of_two_uploads_of_one_name_at_the_same_time_one_wins(host: Served) -> None:
    answers: list[httpx2.Response] = []

    def upload(word: str) -> None:
        with httpx2.Client(verify=False, base_url=host.url, timeout=60) as client:
            answers.append(client.post("/v1/skills", files=form_of(skill_files(word=word))))

    threads = [threading.Thread(target=upload, args=(f"W{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.status_code for one in answers) == [200, 409, 409, 409, 409, 409]
    made = next(one for one in answers if one.status_code == 200).json()
    versions: list[str] = []

    def add(word: str) -> None:
        with httpx2.Client(verify=False, base_url=host.url, timeout=60) as client:
            found = client.post(f"/v1/skills/{made['id']}/versions", files=form_of(skill_files(word=word)))
            versions.append(found.json()["version"])

    threads = [threading.Thread(target=add, args=(f"V{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(versions) == ["2", "3", "4", "5", "6", "7"]
    host.client.delete(f"/v1/skills/{made['id']}")


def test_contents_are_stored_once_and_versions_keep_their_numbers(host: Served, uploads: Path) -> None:
    files = skill_files(word="Once")
    made = post(host, form_of(files)).json()
    versions = f"/v1/skills/{made['id']}/versions"
    before = set(os.listdir(uploads / "blobs"))
    second = host.client.post(versions, files={"files": ("x.zip", zip_of(files, "any-name"))}).json()
    first = host.client.get(f"{versions}/1").json()
    assert second["digest"] == first["digest"]
    assert set(os.listdir(uploads / "blobs")) == before
    assert host.client.delete(f"{versions}/latest").json()["version"] == "2"
    assert host.client.post(versions, files=form_of(files)).json()["version"] == "3"
    for name in ("2", "0", "x", "999999999999999999999", "%2e%2e", "%00", first["id"] + "x"):
        assert host.client.get(f"{versions}/{name}").status_code in {404, 405}, name
    refused = host.client.post(f"/v1/skills/{made['id']}", json={"default_version": 2})
    assert refused.json()["error"]["param"] == "default_version"
    assert host.client.post(f"/v1/skills/{made['id']}", content=b"{").status_code == 400
    assert host.client.post(f"/v1/skills/{made['id']}", json={"default_version": "2"}).status_code == 404
    other = host.client.post(versions, files=form_of(skill_files("another"), "another"))
    assert (other.status_code, "must be 'greeter'" in message(other)) == (400, True)
    host.client.delete(f"/v1/skills/{made['id']}")


def test_a_version_that_is_running_can_be_deleted(host: Served) -> None:
    slow = b"import json, os, sys, time\ntime.sleep(1)\nfrom late import word\nprint(json.dumps({'word': word}))\n"
    files = {**skill_files(), "scripts/invoke.py": slow, "scripts/late.py": b"word = 'kept'\n"}
    made = post(host, form_of(files)).json()
    said: list[Any] = []
    thread = threading.Thread(target=lambda: said.append(host.invoke("greeter", {}).json()))
    thread.start()
    eventually(lambda: host.parts.host.in_flight > 0)
    assert host.client.delete(f"/v1/skills/{made['id']}").status_code == 200
    thread.join()
    assert said[0]["data"] == {"word": "kept"}


def test_downloads_are_never_shown_as_pages(host: Served) -> None:
    made = host.client.post("/v1/files", files={"file": ("a/b\\evil\r\n.html", b"<script>", "text/html")}).json()
    assert "/" not in made["filename"]
    found = host.client.get(f"/v1/files/{made['id']}/content")
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["content-disposition"].startswith("attachment")
    host.client.delete(f"/v1/files/{made['id']}")
    assert host.client.post("/v1/files", files={"other": ("a", b"x")}).status_code == 400
    assert host.client.post("/v1/files", files={"file": ("a", b"x")}, data={"purpose": "x"}).status_code == 400
    expiring = {"expires_in_seconds": "1"}
    refused = host.client.post("/v1/files", files={"file": ("a", b"x")}, data=expiring, headers=ANTHROPIC)
    assert "expires_in_seconds" in message(refused)


def test_what_a_killed_host_left_is_finished_or_removed(tmp_path: Path) -> None:
    root = tmp_path / ".local/state/openskills/uploads"
    with uploading_host(tmp_path) as host:
        made = post(host, form_of(skill_files())).json()
        digest = host.client.get(f"/v1/skills/{made['id']}/versions/1").json()["digest"].removeprefix("sha256:")
    (root / "live/shared/greeter").unlink()
    (root / "live/shared/stale").symlink_to("nowhere")
    for path in sorted((root / "trees" / digest).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (root / "trees" / digest).rmdir()
    orphan = root / "blobs" / ("0" * 64)
    orphan.write_bytes(b"x")
    os.utime(orphan, (1, 1))
    with uploading_host(tmp_path) as host:
        assert host.invoke("greeter", {"name": "A"}).json()["data"] == {"greeting": "Hello A"}
        assert not orphan.exists()
        assert os.listdir(root / "live/shared") == ["greeter"]


def test_an_error_of_the_disk_does_not_say_where_uploads_are(tmp_path: Path) -> None:
    with uploading_host(tmp_path) as host:
        incoming = tmp_path / ".local/state/openskills/uploads/incoming"
        incoming.rmdir()
        incoming.write_text("not a directory")
        refused = post(host, form_of(skill_files()), headers=ANTHROPIC)
        assert (refused.status_code, refused.json()["error"]["type"]) == (503, "overloaded_error")
        assert str(tmp_path) not in refused.text


def test_uploads_can_be_switched_off(tmp_path: Path) -> None:
    with uploading_host(tmp_path, host_uploads=None) as host:
        assert post(host, form_of(skill_files())).status_code == 404
        assert not (tmp_path / ".local/state/openskills/uploads").exists()


def test_a_bug_is_an_error_of_the_dialect(host: Served, uploads: Path) -> None:
    made = host.client.post("/v1/files", files={"file": ("a.txt", b"unique bytes")}).json()
    (blob,) = [path for path in (uploads / "blobs").iterdir() if path.read_bytes() == b"unique bytes"]
    blob.unlink()
    refused = host.client.get(f"/v1/files/{made['id']}/content", headers=ANTHROPIC)
    assert refused.status_code == 500
    assert refused.json()["error"]["type"] == "api_error"
    assert "blobs" not in json.dumps(refused.json())
    host.client.delete(f"/v1/files/{made['id']}")
