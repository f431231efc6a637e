"""Two real `openskills serve` processes on one PostgreSQL: they agree, and one goes on when the other is killed."""

import json
import random
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from openskills.host.auth import create_key
from openskills.host.keys import open_key_store
from openskills.settings import Settings
from openskills.sync import run
from tests.host.host_cluster import HostCluster
from tests.host.host_process import HostProcess, host_process
from tests.host.hosting import eventually
from tests.host.vendors.uploading import form_of, skill_files
from tests.long_form import LONG
from tests.servers.postgres import PostgresServer


@contextmanager
def two_hosts(url: str, tmp_path: Path, **more: str) -> Generator[tuple[HostProcess, HostProcess]]:
    """Two hosts with directories of their own that share a database."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    more = {"OPENSKILL_HOST_DATABASE": url, "OPENSKILL_TIMEOUT_MS": "120000", **more}
    with host_process(tmp_path / "a", **more) as first, host_process(tmp_path / "b", **more) as second:
        yield first, second


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    return postgres_server.new_database()


def start_slow(host: HostProcess) -> str:
    """Start a run of the slow skill, and wait until it is running."""
    answer = host.invoke("slow", {"folder": str(host.folder)}, headers={"Prefer": "respond-async"})
    assert answer.status_code == 202, answer.text
    eventually(lambda: bool(host.children()), 60)
    return answer.json()["data"]["id"]


def read_run(host: HostProcess, run_id: str) -> dict[str, Any]:
    return host.client.get(f"/runs/{run_id}").json()["data"]


def read_stream(host: HostProcess, run_id: str, **headers: str) -> list[tuple[int, str]]:
    """Ids and kinds of the events, up to the last one."""
    text = host.client.get(f"/runs/{run_id}/events", headers=headers).text
    found: list[tuple[int, str]] = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "id" in fields:
            found.append((int(fields["id"]), fields["event"]))
    return found


def add_key(url: str, tmp_path: Path, name: str, **changes: Any) -> str:
    """A key in the database, as `openskills keys new` adds it."""
    key, stored = create_key(name, now=datetime.now(UTC))
    settings = Settings.from_env({"HOME": str(tmp_path), "OPENSKILL_HOST_DATABASE": url})

    async def add() -> None:
        store = open_key_store(settings)
        await store.add(replace(stored, **changes))
        await store.close()

    run(add())
    return key


def test_a_run_of_one_host_is_watched_streamed_and_cancelled_on_the_other(url: str, tmp_path: Path) -> None:
    with two_hosts(url, tmp_path) as (first, second):
        run_id = start_slow(first)
        assert read_run(second, run_id)["state"] in {"queued", "running"}
        events: list[tuple[int, str]] = []
        reader = threading.Thread(target=lambda: events.extend(read_stream(second, run_id)))
        reader.start()
        assert httpx2.post(f"{second.url}/runs/{run_id}:cancel").status_code in {200, 202}
        reader.join(60)
        assert events[-1][1] == "result"
        assert [number for number, _ in events] == list(range(1, len(events) + 1))
        assert read_run(first, run_id)["state"] == read_run(second, run_id)["state"] == "cancelled"
        after = {"Last-Event-ID": str(events[-2][0])} if len(events) > 1 else {}
        assert read_stream(first, run_id, **after) == events[-1:]
        assert run_id in second.client.get("/runs").text


def test_a_conversation_goes_on_at_another_host_with_its_files(url: str, tmp_path: Path) -> None:
    with two_hosts(url, tmp_path, OPENSKILL_STORAGE=str(tmp_path / "shared")) as (first, second):
        where = f"/conversations/{first.client.post('/conversations', json={'model': 'rule'}).json()['data']['id']}"

        def send(host: HostProcess, name: str, content: bytes) -> None:
            files = {"files": (name, content)}
            assert host.client.post(f"{where}/messages", data={"text": "hello"}, files=files).status_code == 202
            eventually(lambda: second.client.get(where).json()["data"]["status"] == "idle", 60)

        send(first, "a.csv", b"a,b\n")
        send(second, "b.csv", b"c,d\n")
        for host in (first, second):
            found = host.client.get(where).json()["data"]
            assert [item["author"] for item in found["items"]] == ["user", "assistant"] * 2
            assert sorted(file["name"] for file in found["files"]) == ["uploads/a.csv", "uploads/b.csv"]
            assert host.client.get(f"{where}/files/uploads/a.csv").content == b"a,b\n"
            assert host.client.get(f"{where}/files/uploads/b.csv").content == b"c,d\n"


def test_the_same_key_sent_to_both_is_executed_once_and_after_a_kill_it_is_interrupted(
    url: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    with two_hosts(url, tmp_path) as (first, second):
        headers = {"Idempotency-Key": "one"}
        answers = [host.invoke("echo", {"text": "hi"}, headers=headers) for host in (first, second)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].content == answers[1].content
        assert answers[1].headers["idempotent-replayed"] == "true"

        asked = {"folder": str(first.folder)}
        failed: list[str] = []

        def call() -> None:
            try:
                with httpx2.Client(verify=False, base_url=first.url, timeout=60) as client:
                    client.post("/skills/slow:invoke", json={"input": asked}, headers={"Idempotency-Key": "two"})
            except httpx2.TransportError as error:
                failed.append(str(error))

        run_id = start_slow(first)
        calling = threading.Thread(target=call)
        calling.start()
        eventually(lambda: len(first.children()) == 2, 60)
        again = {"Idempotency-Key": "two"}
        assert second.invoke("slow", asked, headers=again).status_code == 409
        # Calls are noted in batches, every 50 ms.
        noted = "SELECT count(*) FROM openskills_host.history_starts"
        eventually(lambda: postgres_server.fetch(noted, database=url.rpartition("/")[2]) == [(2,)])
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(60)
        calling.join(60)
        assert failed
        eventually(lambda: read_run(second, run_id)["state"] == "interrupted", 60)
        eventually(lambda: second.invoke("slow", asked, headers=again).status_code == 503, 60)
        answer = second.invoke("slow", asked, headers=again)
        assert answer.json()["error"]["details"]["reason"] == "INTERRUPTED"
        # Nothing was executed a second time.
        assert len(first.children()) == 2
        states = [one["state"] for one in second.client.get("/runs", params={"skill": "slow"}).json()["data"]["runs"]]
        # The run and the call that were cut off; the request that had to wait; the last one was not a call.
        assert sorted(states) == ["failed", "interrupted", "interrupted"]


def test_keys_rate_limits_uploads_and_reloads_agree(url: str, tmp_path: Path) -> None:
    admin = add_key(url, tmp_path, "ops", role="admin", scopes=("*", "skills:publish"))
    limited = add_key(url, tmp_path, "slowly", rate_per_second=0.001, burst=3)
    with two_hosts(url, tmp_path) as (first, second):
        as_admin, as_limited = ({"Authorization": f"Bearer {key}"} for key in (admin, limited))
        assert first.invoke("echo", {"text": "a"}).status_code == 401
        codes = [host.invoke("echo", {"text": "a"}, headers=as_limited).status_code for host in (first, second) * 3]
        assert sorted(codes) == [200] * 3 + [429] * 3

        made = first.client.post("/admin/keys", json={"name": "new"}, headers=as_admin).json()["data"]["key"]
        as_new = {"Authorization": f"Bearer {made}"}
        eventually(lambda: second.invoke("echo", {"text": "a"}, headers=as_new).status_code == 200)
        assert first.client.delete("/admin/keys/new", headers=as_admin).status_code == 200
        eventually(lambda: second.invoke("echo", {"text": "a"}, headers=as_new).status_code == 401)

        uploaded = first.client.post("/v1/skills", files=form_of(skill_files()), headers=as_admin)
        assert uploaded.status_code == 200, uploaded.text

        def greet() -> bool:
            answer = second.invoke("greeter", {"name": "Ada"}, headers=as_admin)
            return answer.status_code == 200 and answer.json()["data"] == {"greeting": "Hello Ada"}

        eventually(greet, 60)
        assert first.client.post("/admin/reload", headers=as_admin).status_code == 200


def test_while_postgresql_restarts_calls_get_503_and_no_acknowledged_result_is_lost(
    url: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    with two_hosts(url, tmp_path) as (first, second):
        acknowledged: dict[str, bytes] = {}
        refused: list[httpx2.Response] = []
        stop = threading.Event()

        def call(host: HostProcess, name: str) -> None:
            with httpx2.Client(verify=False, base_url=host.url, timeout=60) as client:
                number = 0
                while not stop.is_set():
                    number += 1
                    key = f"{name}-{number}"
                    asked = {"input": {"text": key}}
                    answer = client.post("/skills/echo:invoke", json=asked, headers={"Idempotency-Key": key})
                    if answer.status_code == 200:
                        acknowledged[key] = answer.content
                    else:
                        refused.append(answer)

        callers = [threading.Thread(target=call, args=(host, name)) for host, name in ((first, "a"), (second, "b"))]
        for caller in callers:
            caller.start()
        try:
            eventually(lambda: len(acknowledged) > 10, 60)
            postgres_server.started.end(signal.SIGQUIT)
            try:
                eventually(lambda: len(refused) > 2, 60)
            finally:
                postgres_server.started.start()
            before = len(acknowledged)
            eventually(lambda: len(acknowledged) > before + 10, 60)
        finally:
            stop.set()
            for caller in callers:
                caller.join(60)
        assert {answer.status_code for answer in refused} <= {503, 409}
        assert [one.text for one in refused if one.status_code == 503 and "retry-after" not in one.headers] == []

        def is_stored(key: str, content: bytes) -> bool:
            other = second if key.startswith("a") else first
            again = other.invoke("echo", {"text": key}, headers={"Idempotency-Key": key})
            return again.content == content

        # A result is given only after it was stored.
        assert [key for key, content in acknowledged.items() if not is_stored(key, content)] == []
        assert json.loads(next(iter(acknowledged.values())))["success"] is True


FAULTS = ("kill", "restart", "pause")
PAUSE_SECONDS = 7.0


def test_whatever_fails_no_answer_is_lost_and_no_request_is_executed_twice(
    url: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    chance = random.Random(7)
    faults = [chance.choice(FAULTS) for _ in range(100)] if LONG else ["kill", "restart"]
    cluster = HostCluster(url, tmp_path)
    callers = [threading.Thread(target=cluster.call, args=(name,)) for name in ("a", "b", "c")]
    try:
        cluster.add_host()
        cluster.add_host()
        for caller in callers:
            caller.start()
        for fault in faults:
            cluster.progress()
            victim = cluster.hosts[0]
            if fault == "restart":
                postgres_server.started.end(signal.SIGQUIT)
                postgres_server.started.start()
            elif fault == "kill":
                cluster.replace_host(victim)
            else:
                victim.process.send_signal(signal.SIGSTOP)
                # As long as others need to take it for dead: that is the fault.
                cluster.stop.wait(PAUSE_SECONDS)
                victim.process.send_signal(signal.SIGCONT)
        cluster.progress()
        cluster.stop.set()
        for caller in callers:
            caller.join(120)
        cluster.check()
    finally:
        cluster.stop.set()
        for caller in callers:
            if caller.is_alive():
                caller.join(120)
        cluster.close()
