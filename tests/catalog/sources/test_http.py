"""Time for a whole exchange is bounded, whoever drips.

Downloads are bounded, checked, kept, and survive the loss of the network.
"""

import hashlib
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from openskills.catalog.sources.http import DownloadDeadline, Downloader, DownloadLimits, SourceDownload
from openskills.errors import (
    DeadlineExceeded,
    ForbiddenPath,
    InvalidSkill,
    LimitExceeded,
    SkillError,
    SourceUnavailable,
    UnsupportedMedia,
)
from openskills.skillmd.problem import Severity
from tests.catalog.sources.web_server import Page, Web, serving


class Stream:
    """What an HTTP client says about a new connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def get_extra_info(self, _: str) -> Any:
        return self._connection


def test_a_thread_that_waits_for_bytes_is_woken_when_time_is_over() -> None:
    here, there = socket.socketpair()
    with here, there:
        alarm = DownloadDeadline("u", 0.05, WeakSet())
        with alarm:
            alarm.watch("connection.connect_tcp.complete", {"return_value": Stream(here)})
            assert here.recv(1) == b""
        assert alarm.expired


def test_a_connection_made_after_time_is_over_is_cut_at_once() -> None:
    here, there = socket.socketpair()
    with here, there:
        alarm = DownloadDeadline("u", 0, WeakSet())
        with alarm:
            while not alarm.expired:
                threading.Event().wait(0.005)
            alarm.watch("connection.start_tls.complete", {"return_value": Stream(here)})
            assert here.recv(1) == b""


def test_what_ends_in_time_is_left_alone() -> None:
    here, there = socket.socketpair()
    with here, there:
        alarm = DownloadDeadline("u", 60, WeakSet())
        with alarm:
            alarm.watch("http11.send_request_headers.complete", {"return_value": None})
            alarm.watch("connection.connect_tcp.complete", {"return_value": Stream(here)})
        there.send(b"x")
        assert here.recv(1) == b"x"
        assert not alarm.expired


QUICK = DownloadLimits(size=100_000, connect=2, read=2, total=0.4)


def get(url: str, cache: Path, *, pin: str | None = None, limits: DownloadLimits | None = None) -> SourceDownload:
    with Downloader(cache, limits or DownloadLimits(size=100_000)) as downloads:
        return downloads.get(url, pin=pin)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_body_arrives_with_its_digest_in_a_private_directory(web: Web, tmp_path: Path) -> None:
    body = os.urandom(50_000)
    web.pages["/a.zip"] = Page(body, headers={"Content-Type": "application/zip"})
    done = get(f"{web.url}/a.zip", tmp_path / "cache")
    assert (done.path.read_bytes(), done.sha256, done.content_type) == (body, sha256(body), "application/zip")
    assert stat.S_IMODE(done.path.parent.stat().st_mode) == 0o700
    assert done.problems == ()


@pytest.mark.parametrize("validator", [{"ETag": '"1"'}, {"Last-Modified": "Mon, 01 Jun 2026 00:00:00 GMT"}])
def test_an_unchanged_body_is_not_sent_twice(validator: dict[str, str], web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"one", headers=validator)
    first = get(f"{web.url}/a", tmp_path)
    web.pages["/a"] = Page(b"never seen", headers=validator)
    assert get(f"{web.url}/a", tmp_path) == first
    assert first.path.read_bytes() == b"one"
    assert len(web.requests) == 2


def test_a_changed_body_replaces_the_copy(web: Web, tmp_path: Path) -> None:
    for number in range(4):
        web.pages["/a"] = Page(b"%d" % number, headers={"ETag": f'"{number}"'})
        assert get(f"{web.url}/a", tmp_path).path.read_bytes() == b"%d" % number
    assert len(web.requests) == 4


def test_processes_that_fetch_a_changing_body_do_not_take_it_from_each_other(web: Web, tmp_path: Path) -> None:
    answers: list[SourceDownload] = []
    for number in range(4):
        web.pages["/a"] = Page(b"%d" % number)
        answers.append(get(f"{web.url}/a", tmp_path))
    assert [answer.path.read_bytes() for answer in answers] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("name", ["ETag", "Last-Modified"])
def test_what_cannot_be_sent_back_is_not_sent_back(name: str, web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"one", headers={name: '"\xe9"'})
    for _ in range(2):
        assert get(f"{web.url}/a", tmp_path).path.read_bytes() == b"one"
    assert not web.requests[1][1].keys() & {"If-None-Match", "If-Modified-Since"}


@pytest.mark.parametrize("host", ["a" * 64, "a..b", "."])
def test_a_redirect_to_a_host_that_cannot_be_is_refused(host: str, web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(status=302, headers={"Location": f"http://{host}/x"})
    with pytest.raises(SkillError, match="1 to 63 characters"):
        get(f"{web.url}/a", tmp_path)


def test_a_pinned_body_is_asked_for_only_once(web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"one")
    for _ in range(3):
        assert get(f"{web.url}/a", tmp_path, pin=sha256(b"one")).path.read_bytes() == b"one"
    assert len(web.requests) == 1


def test_a_body_with_another_digest_than_the_pin_is_refused_and_not_kept(web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"good")
    get(f"{web.url}/a", tmp_path)
    web.pages["/a"] = Page(b"evil")
    with pytest.raises(InvalidSkill, match=f"sha256 is {sha256(b'evil')}, expected {'0' * 64}"):
        get(f"{web.url}/a", tmp_path, pin="0" * 64)
    with Downloader(tmp_path) as downloads:
        kept = downloads.find_cached(f"{web.url}/a")
    assert kept
    assert kept.path.read_bytes() == b"good"


def test_a_pin_is_checked_although_the_server_says_that_nothing_changed(web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"one", headers={"ETag": '"1"'})
    get(f"{web.url}/a", tmp_path)
    with pytest.raises(InvalidSkill, match=r"sha256 is .*, expected"):
        get(f"{web.url}/a", tmp_path, pin="0" * 64)


def test_without_a_network_the_copy_from_before_is_used_and_said_so(tmp_path: Path) -> None:
    with serving() as web:
        web.pages["/a"] = Page(b"one")
        url = f"{web.url}/a"
        get(url, tmp_path)
    done = get(url, tmp_path)
    assert done.path.read_bytes() == b"one"
    [problem] = done.problems
    assert (problem.rule, problem.severity) == ("source-stale", Severity.WARNING)
    assert url in problem.message
    assert "using the cached copy" in problem.message


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_a_server_in_trouble_leads_to_the_copy_from_before(status: int, web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"one")
    get(f"{web.url}/a", tmp_path)
    web.pages["/a"] = Page(b"oops", status)
    done = get(f"{web.url}/a", tmp_path)
    assert done.path.read_bytes() == b"one"
    assert str(status) in done.problems[0].message


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_what_the_server_took_away_is_not_served_from_the_copy(status: int, web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"one")
    get(f"{web.url}/a", tmp_path)
    web.pages["/a"] = Page(b"gone", status)
    with pytest.raises(SourceUnavailable, match=f"/a: the server responded {status}") as caught:
        get(f"{web.url}/a", tmp_path)
    assert caught.value.details["status"] == status


def test_without_a_network_and_without_a_copy_the_address_and_the_reason_are_named(tmp_path: Path) -> None:
    with serving() as web:
        url = f"{web.url}/a.zip"
    with pytest.raises(SourceUnavailable, match=r"http://127\.0\.0\.1:\d+/a\.zip: .*refused"):
        get(url, tmp_path)


def test_a_declared_length_over_the_limit_is_refused_before_reading(web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"", declared=10**12)
    with pytest.raises(LimitExceeded, match="larger than 100,000 bytes"):
        get(f"{web.url}/a", tmp_path)


def test_more_bytes_than_the_limit_are_refused_while_they_come(web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(bytes(200_000), headers={"Transfer-Encoding": "broken"}, declared=0)
    with pytest.raises((LimitExceeded, SourceUnavailable)):
        get(f"{web.url}/a", tmp_path)
    web.pages["/b"] = Page(bytes(100_001), headers={"Connection": "close"})
    with pytest.raises(LimitExceeded):
        get(f"{web.url}/b", tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_body_that_ends_too_early_is_not_kept(web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"half", declared=8)
    with pytest.raises(SourceUnavailable, match="/a: "):
        get(f"{web.url}/a", tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("slow_head", [False, True], ids=["body", "head"])
def test_a_server_that_drips_is_cut_off_when_time_is_over(slow_head: bool, web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(bytes(10_000), pause=0.01, slow_head=slow_head)
    with pytest.raises(DeadlineExceeded, match=r"/a: timed out after 0\.4 s"):
        get(f"{web.url}/a", tmp_path, limits=QUICK)


def test_a_drip_on_a_connection_that_is_used_again_is_cut_off_too(web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"one")
    web.pages["/b"] = Page(bytes(10_000), pause=0.01)
    with Downloader(tmp_path, QUICK) as downloads:
        downloads.get(f"{web.url}/a")
        with pytest.raises(DeadlineExceeded):
            downloads.get(f"{web.url}/b")
        assert downloads.get(f"{web.url}/a").path.read_bytes() == b"one"


def test_a_server_that_says_nothing_runs_into_the_read_timeout(web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"ab", pause=30)
    with pytest.raises(SourceUnavailable, match="/a: "):
        get(f"{web.url}/a", tmp_path, limits=DownloadLimits(read=0.2))


def test_redirects_are_followed_and_the_last_address_is_known(web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(status=302, headers={"Location": "/b/c"})
    web.pages["/b/c"] = Page(b"here")
    done = get(f"{web.url}/a", tmp_path)
    assert (done.path.read_bytes(), done.url) == (b"here", f"{web.url}/b/c")


def test_a_chain_of_redirects_ends_after_five(web: Web, tmp_path: Path) -> None:
    for number in range(6):
        web.pages[f"/{number}"] = Page(status=301, headers={"Location": f"/{number + 1}"})
    web.pages["/6"] = Page(b"end")
    assert get(f"{web.url}/1", tmp_path).path.read_bytes() == b"end"
    with pytest.raises(SourceUnavailable, match="/0: more than 5 redirects"):
        get(f"{web.url}/0", tmp_path)


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/a", "gopher://x/"])
def test_a_redirect_to_another_scheme_is_refused(target: str, web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(status=302, headers={"Location": target})
    with pytest.raises((ForbiddenPath, SourceUnavailable)) as caught:
        get(f"{web.url}/a", tmp_path)
    assert "/a" in str(caught.value)


def test_an_unexpected_compression_is_refused(web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"x", headers={"Content-Encoding": "br"})
    with pytest.raises(UnsupportedMedia, match="Content-Encoding 'br'"):
        get(f"{web.url}/a", tmp_path)


def test_credentials_are_sent_but_never_shown(web: Web, tmp_path: Path) -> None:
    url = web.url.replace("http://", "http://me:hunter2@") + "/a?token=hunter2"
    with pytest.raises(SourceUnavailable) as caught:
        get(url, tmp_path)
    assert "hunter2" not in str(caught.value)
    assert web.requests[0][1]["Authorization"].startswith("Basic ")
    web.pages["/a?token=hunter2"] = Page(b"secret skill")
    done = get(url, tmp_path)
    assert "hunter2" not in repr(done)
    record = next(tmp_path.rglob("record.json")).read_text()
    assert "me:hunter2" not in record


def test_credentials_do_not_travel_to_another_server(web: Web, tmp_path: Path) -> None:
    with serving() as other:
        other.pages["/b"] = Page(b"here")
        web.pages["/a"] = Page(status=302, headers={"Location": f"{other.url}/b"})
        get(web.url.replace("http://", "http://me:hunter2@") + "/a", tmp_path)
        assert "Authorization" not in other.requests[0][1]


def test_progress_is_reported(web: Web, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    web.pages["/a"] = Page(bytes(1000))
    with Downloader(tmp_path) as downloads:
        downloads.get(f"{web.url}/a", progress=lambda what, done, total: seen.append((what, done, total)))
    assert seen[-1] == (f"downloading {web.url}/a", 1000, 1000)


@pytest.mark.parametrize("damage", [b"", b"[]", b"{}", b'{"sha256": 1}', b"\xff"])
def test_a_damaged_record_means_downloading_again(damage: bytes, web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"one", headers={"ETag": '"1"'})
    get(f"{web.url}/a", tmp_path)
    next(tmp_path.rglob("record.json")).write_bytes(damage)
    assert get(f"{web.url}/a", tmp_path).path.read_bytes() == b"one"
    assert "If-None-Match" not in web.requests[-1][1]


def test_a_body_that_was_cut_in_the_cache_is_downloaded_again(web: Web, tmp_path: Path) -> None:
    web.pages["/a"] = Page(b"one", headers={"ETag": '"1"'})
    get(f"{web.url}/a", tmp_path).path.write_bytes(b"")
    assert get(f"{web.url}/a", tmp_path).path.read_bytes() == b"one"


# In a network namespace of its own, where an address of the internet is on the loopback interface.
REDIRECTS = """
import fcntl, http.server, pathlib, socket, struct, sys, threading
def ioctl(number, name, data):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, number, struct.pack("16s", name) + data)
ioctl(0x8914, b"lo", struct.pack("h14x", 0x41))
for number, address in enumerate(("93.184.215.14", "10.1.2.3", "169.254.169.254"), 1):
    ioctl(0x8916, b"lo:%d" % number, struct.pack("hH4s8x", socket.AF_INET, 0, socket.inet_aton(address)))
asked = []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked.append(self.path)
        target = self.path.partition("?to=")[2]
        self.send_response(302 if target else 200)
        self.send_header("Location", target or "none")
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_): pass
hosts = ("93.184.215.14", "127.0.0.1", "10.1.2.3", "169.254.169.254")
servers = [http.server.ThreadingHTTPServer((host, 0), Handler) for host in hosts]
for server in servers: threading.Thread(target=server.serve_forever, daemon=True).start()
public, private, intranet, metadata = (
    f"http://{server.server_address[0]}:{server.server_address[1]}" for server in servers
)
from openskills.catalog.sources.http import Downloader
from openskills.errors import ForbiddenPath
with Downloader(pathlib.Path(sys.argv[1])) as downloader:
    downloader.get(f"{public}/a?to={public}/b")
    downloader.get(f"{private}/c?to={private}/d")
    downloader.get(f"{private}/e?to={public}/f")
    downloader.get(f"{intranet}/i?to={intranet}/j")
    downloader.get(f"{private}/k?to={intranet}/l")
    ways = [(public, private), (public, private), (intranet, private), (intranet, metadata), (private, metadata)]
    for number, (start, end) in enumerate(ways):
        try:
            downloader.get(f"{start}/{number}?to={end}/secret")
        except ForbiddenPath as error:
            print(error)
print([path for path in asked if "secret" in path and "?" not in path])
"""


@pytest.mark.parametrize("fresh", [True, False], ids=["new connection", "open connection"])
def test_a_redirect_from_the_internet_does_not_reach_this_machine(tmp_path: Path, fresh: bool) -> None:
    text = REDIRECTS.replace('downloader.get(f"{private}/c?to={private}/d")', "pass") if fresh else REDIRECTS
    text = text.replace('downloader.get(f"{private}/e?to={public}/f")', "pass") if fresh else text
    argv = ["unshare", "--net", "--map-root-user", sys.executable, "-c", text, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    first, second, *others, asked = done.stdout.splitlines()
    assert "leads from a public address to a loopback one; use the final URL" in first
    assert "leads from a public address to a loopback one" in second
    expected = ("private address to a loopback", "private address to a cloud metadata", "loopback address to a cloud")
    assert [words in said for words, said in zip(expected, others, strict=True)] == [True] * 3
    # On a connection that was open already, the request has been sent; its answer is not used.
    assert asked == "[]" or not fresh
