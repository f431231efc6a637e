"""The host as a server of its own: how it starts, ends, and what is left when it is killed."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from openskills.errors import InvalidArgument
from openskills.host.auth import read_keys
from openskills.host.server import open_socket, resolve_auth, socket_url
from tests.host.host_process import host_process, is_alive, is_ready, variables, write_skills
from tests.host.hosting import eventually, settings_in
from tests.long_form import cases
from tests.servers.warm_openskills import openskills_line


def test_a_port_that_is_taken_is_reported_with_what_to_do() -> None:
    with open_socket("127.0.0.1", 0) as first, pytest.raises(InvalidArgument, match=r"in use .* --port 0"):
        open_socket("127.0.0.1", first.getsockname()[1])


def test_an_address_that_is_not_ours_is_reported() -> None:
    with pytest.raises(InvalidArgument, match=r"--host: cannot listen on 192\.0\.2\.1"):
        open_socket("192.0.2.1", 0)


@pytest.mark.parametrize(("host", "begins"), [("127.0.0.1", "http://127.0.0.1:"), ("::1", "http://[::1]:")])
def test_the_address_of_a_socket_can_be_opened(host: str, begins: str) -> None:
    with open_socket(host, 0) as found:
        assert socket_url(found).startswith(begins)
        with socket.create_connection(found.getsockname()[:2], timeout=5):
            pass


def test_on_loopback_no_key_is_needed_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert resolve_auth(settings_in(tmp_path), "127.0.0.1", no_auth=False).host_auth == "auto"
    with pytest.raises(InvalidArgument, match="openskills keys new"):
        resolve_auth(settings_in(tmp_path, host_auth="on"), "127.0.0.1", no_auth=False)


@pytest.mark.parametrize("auth", ["auto", "on", "off"])
def test_elsewhere_it_does_not_listen_without_keys_unless_that_is_said(tmp_path: Path, auth: str) -> None:
    settings = settings_in(tmp_path, host_auth=auth)
    with pytest.raises(InvalidArgument, match="--no-auth"):
        resolve_auth(settings, "0.0.0.0", no_auth=False)
    assert resolve_auth(settings, "0.0.0.0", no_auth=True).host_auth == "off"


def test_with_a_key_it_listens_elsewhere_and_wants_it(tmp_path: Path) -> None:
    line, env = openskills_line("keys", "new", "me"), variables(tmp_path)
    subprocess.run(line, env=env, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    settings = settings_in(tmp_path)
    assert len(read_keys(settings.host_keys)) == 1
    assert resolve_auth(settings, "0.0.0.0", no_auth=False).host_auth == "on"


def test_when_told_to_end_it_finishes_what_runs_and_takes_nothing_new(tmp_path: Path) -> None:
    with host_process(tmp_path) as host, ThreadPoolExecutor(1) as pool:
        running = pool.submit(host.slow)
        eventually(lambda: bool(host.children()))
        host.process.send_signal(signal.SIGTERM)
        eventually(lambda: host.client.get("/readyz").status_code == 503)
        refused = host.invoke("echo", {"text": "a"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert refused.json()["error"]["details"]["reason"] == "DRAINING"
        assert host.client.get("/healthz").status_code == 200
        (host.folder / "go").touch()
        assert running.result(60).json()["data"] == {"slow": True}
        assert host.process.wait(60) == 0


def test_what_does_not_finish_in_time_is_interrupted_and_says_so(tmp_path: Path) -> None:
    with host_process(tmp_path, "--grace", "0.2") as host, ThreadPoolExecutor(1) as pool:
        running = pool.submit(host.slow)
        eventually(lambda: bool(host.children()))
        started = host.client.post("/skills/slow:invoke?mode=async", json={"input": {"folder": str(host.folder)}})
        eventually(lambda: len(host.children()) == 2)
        with host.client.stream("GET", f"{started.headers['location']}/events") as events:
            parts = events.iter_raw()
            assert b"start" in next(parts)
            assert host.end() == 0
            for _ in parts:
                pass
        answer = running.result(60)
        assert (answer.status_code, answer.json()["error"]["details"]["reason"]) == (503, "INTERRUPTED")
        assert not [pid for pid in host.children() if is_alive(pid)]
    assert [line["error.code"] for line in host.lines()] == [503, 503]


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    with host_process(tmp_path) as host, ThreadPoolExecutor(1) as pool:
        running = pool.submit(host.slow)
        eventually(lambda: bool(host.children()))
        host.process.send_signal(signal.SIGTERM)
        eventually(lambda: host.client.get("/readyz").status_code == 503)
        host.end()
        assert running.exception(60) is not None or running.result().status_code == 503
        eventually(lambda: not any(map(is_alive, host.children())))


def test_a_host_that_is_killed_leaves_no_child_behind(tmp_path: Path) -> None:
    with host_process(tmp_path) as host, ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(host.slow) for _ in range(3)]
        eventually(lambda: len(host.children()) == 3)
        host.end(signal.SIGKILL)
        eventually(lambda: not any(map(is_alive, host.children())))
        assert all(isinstance(call.exception(60), httpx2.TransportError) for call in calls)


def test_several_workers_share_a_port_and_die_with_who_started_them(tmp_path: Path) -> None:
    with host_process(tmp_path, "--workers", "2") as host:
        eventually(lambda: len(_children_of(host.process.pid)) >= 2)
        for _ in range(20):
            assert host.invoke("echo", {"text": "a"}).status_code == 200
        run = host.client.post("/skills/echo:invoke?mode=async", json={"input": {"text": "a"}}).headers["location"]
        for _ in range(10):
            with httpx2.Client(verify=False, base_url=host.url) as another:
                assert another.get(run).status_code == 200
        workers = _children_of(host.process.pid)
        host.end(signal.SIGKILL)
        eventually(lambda: not any(map(is_alive, workers)), 60)


def test_the_port_of_killed_workers_is_free_while_their_skills_would_still_run(tmp_path: Path) -> None:
    with host_process(tmp_path, "--workers", "2", "--grace", "1000") as host, ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(host.slow) for _ in range(2)]
        eventually(lambda: len(host.children()) == 2, 60)
        workers = _children_of(host.process.pid)
        host.end(signal.SIGKILL)
        # Nothing tells the skills to end, and the grace is longer than anybody waits here.
        eventually(lambda: not any(map(is_alive, workers | host.children())))
        open_socket("127.0.0.1", int(host.url.rpartition(":")[2])).close()
        assert all(call.exception(60) is not None or call.result().status_code == 503 for call in calls)


def test_several_workers_end_together_when_they_are_told_to(tmp_path: Path) -> None:
    with host_process(tmp_path, "--workers", "2") as host:
        workers = _children_of(host.process.pid)
        assert host.invoke("echo", {"text": "a"}).status_code == 200
        assert host.end() == 0
        eventually(lambda: not any(map(is_alive, workers)))
        assert "openskills_invocations_total{" not in host.errors.read_text()


def test_skills_that_come_while_it_runs_are_served(tmp_path: Path) -> None:
    with host_process(tmp_path) as host:
        assert host.invoke("late", {"text": "a"}).status_code == 404
        (tmp_path / "skills_cli" / "late.py").write_text((tmp_path / "skills_cli" / "echo.py").read_text())
        eventually(lambda: host.invoke("late", {"text": "a"}).status_code == 200)
        (tmp_path / "skills_cli" / "late.py").unlink()
        eventually(lambda: host.invoke("late", {"text": "a"}).status_code == 404)


def test_a_hangup_has_it_read_everything_again(tmp_path: Path) -> None:
    with host_process(tmp_path) as host:
        host.process.send_signal(signal.SIGHUP)
        assert host.invoke("echo", {"text": "a"}).status_code == 200
        assert host.end() == 0


def test_any_asgi_server_can_serve_the_application(tmp_path: Path) -> None:
    write_skills(tmp_path)
    with open_socket("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    line = [sys.executable, "-m", "uvicorn", "openskills.host.app:app", "--port", str(port)]
    with (tmp_path / "out").open("wb") as out:
        server = subprocess.Popen(line, cwd=tmp_path, env=variables(tmp_path), stdout=out, stderr=out)
    try:
        with httpx2.Client(verify=False, base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            eventually(lambda: is_ready(client), 60)
            answer = client.post("/skills/echo:invoke", json={"input": {"text": "hello"}})
            assert answer.json()["data"] == {"echoed": "hello"}
    finally:
        server.terminate()
        server.wait(60)
    assert '"skill_id":"echo"' in (tmp_path / "out").read_text()


HOSTILE = """\
import asyncio
import subprocess
import threading

class Unprintable(BaseException):
    def __str__(self):
        raise SystemExit(3)

class Own(BaseException):
    pass

ERRORS = {
    "exit": lambda: SystemExit(3),
    "interrupt": lambda: KeyboardInterrupt(),
    "stop": lambda: StopIteration(5),
    "generator_exit": lambda: GeneratorExit(),
    "cancelled": lambda: asyncio.CancelledError(),
    "own": lambda: Own("own"),
    "unprintable": lambda: Unprintable(),
    "group": lambda: BaseExceptionGroup("two", [SystemExit(3), KeyboardInterrupt()]),
}

def plain(given):
    raise ERRORS[given["error"]]()

async def awaited(given):
    await asyncio.sleep(0)
    raise ERRORS[given["error"]]()

async def task(given):
    await asyncio.create_task(awaited(given))

def generator(given):
    yield 1
    raise ERRORS[given["error"]]()

async def async_generator(given):
    yield 1
    raise ERRORS[given["error"]]()

def fine(given):
    print("noise of a function")
    threading.Thread(target=print, args=("noise of a thread",)).start()
    subprocess.run(["echo", "noise of a process"], check=True)
    return {"fine": True}

def hangs(given):
    threading.Event().wait()
"""
HOSTILE_FUNCTIONS = ("plain", "awaited", "task", "generator", "async_generator")
HOSTILE_ERRORS = ("exit", "interrupt", "stop", "generator_exit", "cancelled", "own", "unprintable", "group")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_whatever_a_function_raises_is_a_result_and_the_host_goes_on(tmp_path: Path, workers: str) -> None:
    (tmp_path / "hostile.py").write_text(HOSTILE)
    (tmp_path / "dies.py").write_text("raise SystemExit(3)")
    (tmp_path / "skills_cli").mkdir()
    for entry in (*(f"hostile:{name}" for name in (*HOSTILE_FUNCTIONS, "fine", "hangs")), "dies:f"):
        path = tmp_path / "skills_cli" / f"{entry.replace(':', '_')}.yaml"
        path.write_text(f"id: {path.stem}\ntype: inproc\nentry: {entry}\ntimeout_ms: 20000\n")
    with host_process(tmp_path, "--workers", workers) as host:
        processes = {host.process.pid, *_children_of(host.process.pid)}
        for function in HOSTILE_FUNCTIONS:
            for error in HOSTILE_ERRORS:
                path, body = f"/skills/hostile_{function}", {"input": {"error": error}}
                expected = 502 if "generator" in function else 500
                answer = host.client.post(f"{path}:invoke", json=body)
                assert (answer.status_code, answer.json()["error"]["code"]) == (expected, expected), answer.text
                streamed = host.client.post(f"{path}:stream", json=body)
                result = json.loads(streamed.text.rpartition("event: result\ndata: ")[2])
                assert (streamed.status_code, result["error"]["code"]) == (200, expected)
                started = host.client.post(f"{path}:invoke?mode=async", json=body).headers["location"]
                eventually(lambda started=started: host.client.get(started).json()["data"]["ended"] is not None)
                run = host.client.get(started).json()["data"]
                assert (run["state"], run["result"]["error"]["code"]) == ("failed", expected)
        (broken,) = [one for one in host.client.get("/skills").json()["data"]["skills"] if one["id"] == "dies_f"]
        assert broken["status"] == "unavailable"
        assert "SystemExit" in str(broken["problems"])
        assert host.invoke("dies_f", {}).status_code == 422
        assert host.invoke("hostile_fine", {}).json()["data"] == {"fine": True}
        # Their thread goes on, but does not keep the host from ending.
        with pytest.raises(httpx2.TimeoutException):
            host.invoke("hostile_hangs", {}, timeout=0.5)
        assert all(map(is_alive, processes))
        assert host.end() == 0
    assert {line["logger"] for line in host.lines()} == {"openskills.host.access"}


COUNTER = """\
import json, os, sys, time
given = json.load(sys.stdin)["input"]
with open(given["file"], "a") as file:
    file.write("x")
deadline = time.monotonic() + 60
while not os.path.exists(given["file"] + ".go") and time.monotonic() < deadline:
    time.sleep(0.01)
print(json.dumps({"success": True, "data": {"count": os.path.getsize(given["file"])}}))
"""


class KeyedCalls:
    """Calls of a skill that appends a character to a file, with one idempotency key."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "data" / "count"
        self.go = directory / "data" / "count.go"
        (directory / "skills_cli").mkdir()
        (directory / "skills_cli" / "counter.py").write_text(COUNTER)

    def call(self, url: str, verb: str = "invoke", timeout: float = 60) -> httpx2.Response:
        with httpx2.Client(verify=False, base_url=url, timeout=timeout) as client:
            body, headers = {"input": {"file": str(self.file)}}, {"Idempotency-Key": "k"}
            return client.post(f"/skills/counter:{verb}", json=body, headers=headers)

    def executions(self) -> int:
        return self.file.stat().st_size if self.file.exists() else 0


def _result(answer: httpx2.Response) -> dict[str, Any]:
    return json.loads(answer.text.rpartition("event: result\ndata: ")[2])


VERBS_AND_WORKERS = [("invoke", "1"), ("stream", "1"), ("stream", "2")]


@pytest.mark.parametrize(("verb", "workers"), VERBS_AND_WORKERS)
def test_a_keyed_call_goes_on_without_its_caller_and_a_retry_gets_its_answer(
    tmp_path: Path, verb: str, workers: str
) -> None:
    calls = KeyedCalls(tmp_path)
    with host_process(tmp_path, "--workers", workers) as host:
        for _ in range(3):
            with suppress(httpx2.TimeoutException):
                assert calls.call(host.url, verb, timeout=1).status_code == 409
            eventually(lambda: calls.executions() == 1)
        busy = calls.call(host.url, verb)
        assert (busy.status_code, busy.headers["retry-after"]) == (409, "1")
        calls.go.touch()
        eventually(lambda: calls.call(host.url, verb).status_code == 200)
        for again in ("invoke", "stream"):
            answer = calls.call(host.url, again)
            assert answer.headers["idempotent-replayed"] == "true"
            assert _result(answer)["data"] == {"count": 1}
    assert calls.executions() == 1


@pytest.mark.parametrize(
    ("number", "verb", "workers"),
    cases(
        [(signal.SIGKILL, "invoke", "1"), (signal.SIGKILL, "stream", "2"), (signal.SIGTERM, "stream", "1")],
        [(signal.SIGKILL, "stream", "1"), (signal.SIGTERM, "invoke", "1"), (signal.SIGTERM, "stream", "2")],
    ),
)
def test_a_keyed_call_that_was_cut_off_is_interrupted_and_never_runs_again(
    tmp_path: Path, number: signal.Signals, verb: str, workers: str
) -> None:
    calls = KeyedCalls(tmp_path)
    with host_process(tmp_path, "--workers", workers, "--grace", "0") as host, ThreadPoolExecutor(1) as pool:
        first = pool.submit(calls.call, host.url, verb)
        eventually(lambda: calls.executions() == 1)
        host.end(number)
        assert first.exception(60) is not None or _result(first.result())["error"]["code"] == 503
    (tmp_path / "data" / "slow" / "go").unlink()
    (tmp_path / "data" / "slow").rmdir()
    with host_process(tmp_path, "--workers", workers) as host:
        calls.go.touch()
        for again in ("invoke", "stream"):
            error = _result(calls.call(host.url, again))["error"]
            assert (error["code"], error["details"]["reason"]) == (503, "INTERRUPTED")
    assert calls.executions() == 1


def test_when_one_worker_dies_the_other_answers_its_key_at_once(tmp_path: Path) -> None:
    calls = KeyedCalls(tmp_path)
    with host_process(tmp_path, "--workers", "2") as host, ThreadPoolExecutor(1) as pool:
        first = pool.submit(calls.call, host.url)
        eventually(lambda: calls.executions() == 1)
        lock = next(tmp_path.rglob("host.db.workers/*"))
        (owner,) = [pid for pid in _children_of(host.process.pid) if str(lock) in _open_files(pid)]
        os.kill(owner, signal.SIGKILL)
        assert first.exception(60) is not None
        assert calls.call(host.url).json()["error"]["details"]["reason"] == "INTERRUPTED"
    assert calls.executions() == 1


def test_a_worker_that_dies_while_it_is_asked_whether_it_is_alive_is_replaced_at_once(tmp_path: Path) -> None:
    with host_process(tmp_path, "--workers", "2") as host:
        children = _children_of(host.process.pid)
        workers = [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(workers) == 2
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        eventually(lambda: "poll" in Path(f"/proc/{host.process.pid}/wchan").read_text())
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: is_ready(host.client))


def test_a_run_of_a_host_that_was_killed_is_interrupted_as_soon_as_the_next_one_serves(tmp_path: Path) -> None:
    with host_process(tmp_path) as host:
        run = host.client.post("/skills/slow:invoke?mode=async", json={"input": {"folder": str(host.folder)}})
        eventually(lambda: bool(host.children()))
        host.end(signal.SIGKILL)
    for path in host.folder.iterdir():
        path.unlink()
    host.folder.rmdir()
    with host_process(tmp_path) as host:
        assert host.client.get(run.headers["location"]).json()["data"]["state"] == "interrupted"


def test_a_key_is_free_again_when_its_skill_was_never_called(tmp_path: Path) -> None:
    calls = KeyedCalls(tmp_path)
    calls.go.parent.mkdir()
    with host_process(tmp_path, "--concurrency", "1", "--queue", "0") as host, ThreadPoolExecutor(1) as pool:
        running = pool.submit(host.slow)
        eventually(lambda: bool(host.children()))
        assert calls.call(host.url).status_code == 429
        (host.folder / "go").touch()
        running.result(60)
        calls.go.touch()
        assert calls.call(host.url).json()["data"] == {"count": 1}


@pytest.mark.parametrize("example", [True, False])
def test_behind_a_real_nginx_a_key_is_required(
    tmp_path: Path, example: bool, require_program: Callable[[str], str]
) -> None:
    nginx = require_program("nginx")
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "host.md").read_text()
    server = guide.partition("```nginx\n")[2].partition("```")[0]
    with open_socket("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    server = re.sub(r"listen .*;", f"listen 127.0.0.1:{port};", re.sub(r".*ssl_certificate.*\n", "", server))
    if not example:
        # A proxy that adds no header: then a key has to exist.
        server = re.sub(r".*proxy_set_header.*\n", "", server)
    with host_process(tmp_path) as host:
        line = openskills_line("keys", "new", "me")
        made = subprocess.run(line, env=variables(tmp_path), cwd=tmp_path, check=True, capture_output=True, timeout=60)
        key = {"Authorization": f"Bearer {made.stdout.decode().strip()}"}
        config = tmp_path / "nginx.conf"
        server = server.replace("http://127.0.0.1:8000", host.url)
        paths = "".join(
            f"{kind}_temp_path {tmp_path};" for kind in ("proxy", "client_body", "fastcgi", "uwsgi", "scgi")
        )
        top = f"daemon off; pid {tmp_path}/nginx.pid; error_log stderr; events {{}}"
        config.write_text(f"{top} http {{ access_log off; {paths} {server} }}")
        with (tmp_path / "nginx.log").open("wb") as log:
            proxy = subprocess.Popen([nginx, "-p", str(tmp_path), "-c", str(config)], stderr=log)
        try:
            with httpx2.Client(verify=False, base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                eventually(lambda: is_ready(client), 60)
                body = {"input": {"text": "a"}}
                for path in ("/skills/echo:invoke", "/skills/echo:stream"):
                    assert client.post(path, json=body).status_code == 401
                    assert client.post(path, json=body, headers=key).status_code == 200
                for path in ("/skills", "/metrics", "/tools", "/openapi.json", "/runs/run_1"):
                    assert client.get(path).status_code == 401
                assert client.get("/skills", headers=key).status_code == 200
        finally:
            proxy.terminate()
            proxy.wait(60)


def _open_files(pid: int) -> set[str]:
    with suppress(OSError):
        return {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
    return set()


def _children_of(pid: int) -> set[int]:
    """Processes of ours that serve, as the system knows them."""
    found: set[int] = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                text = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            if int(text.rpartition(")")[2].split()[1]) == pid:
                found.add(int(name))
    return found


async def test_calls_of_a_killed_host_are_in_the_history_as_soon_as_somebody_looks(tmp_path: Path) -> None:
    with host_process(tmp_path) as host, ThreadPoolExecutor(2) as pool:
        assert host.invoke("echo", {"text": "x"}).status_code == 200
        eventually(lambda: len(_rows(tmp_path)) == 1)
        calls = [pool.submit(host.slow) for _ in range(2)]
        eventually(lambda: len(host.children()) == 2)
        assert len(_rows(tmp_path)) == 1
        host.end(signal.SIGKILL)
        found = _rows(tmp_path)
        assert [(row["skill_id"], row["code"], row["success"]) for row in found[:2]] == [("slow", 503, False)] * 2
        assert "how far the skill got is unknown" in found[0]["message"]
        assert found[0]["bytes_in"] > 0
        assert [row["skill_id"] for row in found[2:]] == ["echo"]
        assert _rows(tmp_path) == found
        assert list(tmp_path.rglob("host.db.workers/*")) == []
        for call in calls:
            assert call.exception(60) is not None


def _rows(directory: Path) -> list[dict[str, Any]]:
    argv = openskills_line("runs", "list", "--json")
    done = subprocess.run(argv, cwd=directory, env=variables(directory), capture_output=True, check=True)
    return json.loads(done.stdout)["runs"] if done.stdout.startswith(b"{") else json.loads(done.stdout)
