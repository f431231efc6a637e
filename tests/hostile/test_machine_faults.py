"""Faults of machines and connections: no acknowledged result is lost, and no request is executed twice.

Killed hosts and a restarted PostgreSQL are in `tests/host/test_several_hosts.py`, killed and paused runtimes in
`tests/runtime/test_leases.py`, killed and paused nodes in `tests/executors/ray/test_cluster.py`.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from openskills.artifacts.objects import S3ObjectStore
from openskills.errors import ArtifactsUnavailable
from openskills.executors.checkpoints import restore_workspace, save_workspace
from openskills.executors.open import open_executor
from openskills.executors.ray.executor import RayExecutor
from openskills.executors.records.leases import make_skeleton
from openskills.settings import Settings
from tests.artifacts.buckets import config_of
from tests.conftest import needs_root
from tests.executors.ray.test_cluster import RayNodes
from tests.host.host_cluster import HostCluster
from tests.host.host_process import HostProcess
from tests.host.hosting import eventually
from tests.hostile.machine_load import ConversationLoad, NodeLoad
from tests.long_form import LONG, ROUNDS
from tests.servers import s3
from tests.servers.postgres import PostgresServer
from tests.servers.relay import TcpRelay, relay_to
from tests.servers.s3 import S3Server

ROOT = Path(__file__).parents[2]
KEY = {"Idempotency-Key": "one"}


class CutOffHost:
    """Two hosts; the first one reaches the database through a relay, and executes a request."""

    def __init__(self, first: HostProcess, second: HostProcess, relay: TcpRelay) -> None:
        self.first = first
        self.second = second
        self.relay = relay
        self.asked = {"folder": str(first.folder)}
        self._answers: list[httpx2.Response] = []
        self._caller = threading.Thread(target=self._call)
        self._caller.start()
        eventually(lambda: bool(first.children()), 60)

    def _call(self) -> None:
        with httpx2.Client(verify=False, base_url=self.first.url, timeout=120) as client:
            self._answers.append(client.post("/skills/slow:invoke", json={"input": self.asked}, headers=KEY))

    def end_skill(self) -> httpx2.Response:
        """Let the skill end, and return the answer to its caller."""
        (self.first.folder / "go").touch()
        self._caller.join(120)
        return self._answers[0]

    def ask(self, host: HostProcess) -> httpx2.Response:
        """Send the same request again."""
        return host.invoke("slow", self.asked, headers=KEY)


@pytest.fixture
def cut_off(postgres_server: PostgresServer, tmp_path: Path) -> Generator[CutOffHost]:
    url = postgres_server.new_database()
    cluster = HostCluster(url, tmp_path)
    with relay_to(postgres_server.port) as relay:
        try:
            first = cluster.add_host(url.replace(f":{postgres_server.port}/", f":{relay.port}/"))
            yield CutOffHost(first, cluster.add_host(), relay)
        finally:
            relay.restore()
            cluster.close()


def reason_of(answer: httpx2.Response) -> str | None:
    error = answer.json()["error"]
    return error and error["details"]["reason"]


def test_a_result_that_cannot_be_stored_is_given_after_the_connection_is_back(cut_off: CutOffHost) -> None:
    cut_off.relay.cut()
    answer = cut_off.end_skill()
    assert (answer.status_code, reason_of(answer)) == (503, "STORE_UNAVAILABLE")
    assert "send the request again with the same Idempotency-Key to get the result" in answer.text
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["details"]["executed"] is True
    cut_off.relay.restore()
    eventually(lambda: cut_off.ask(cut_off.first).status_code == 200, 60)
    answers = [cut_off.ask(host) for host in (cut_off.first, cut_off.second)]
    assert answers[0].json()["data"] == {"slow": True}
    assert answers[0].content == answers[1].content
    assert len(cut_off.first.children()) == 1


def test_a_host_that_dies_with_a_result_that_it_could_not_store_has_not_given_it(cut_off: CutOffHost) -> None:
    cut_off.relay.cut()
    assert cut_off.end_skill().status_code == 503
    cut_off.first.process.send_signal(signal.SIGKILL)
    cut_off.first.process.wait(60)
    eventually(lambda: reason_of(cut_off.ask(cut_off.second)) == "INTERRUPTED", 60)
    assert len(cut_off.first.children()) == 1


def test_a_host_that_was_cut_off_for_long_gives_the_answer_of_the_others(cut_off: CutOffHost) -> None:
    cut_off.relay.cut()
    eventually(lambda: reason_of(cut_off.ask(cut_off.second)) == "INTERRUPTED", 60)
    assert cut_off.end_skill().status_code == 503
    assert reason_of(cut_off.ask(cut_off.first)) == "STORE_UNAVAILABLE"
    cut_off.relay.restore()
    eventually(lambda: reason_of(cut_off.ask(cut_off.first)) == "INTERRUPTED", 60)
    assert cut_off.ask(cut_off.first).content == cut_off.ask(cut_off.second).content
    assert len(cut_off.first.children()) == 1


def test_a_stream_whose_result_cannot_be_stored_ends_with_an_error_and_can_be_repeated(cut_off: CutOffHost) -> None:
    lines: list[str] = []
    more = {"Idempotency-Key": "two"}

    def read() -> None:
        with (
            httpx2.Client(verify=False, base_url=cut_off.first.url, timeout=120) as client,
            client.stream("POST", "/skills/slow:stream", json={"input": cut_off.asked}, headers=more) as answer,
        ):
            lines.extend(answer.iter_lines())

    reader = threading.Thread(target=read)
    reader.start()
    eventually(lambda: len(cut_off.first.children()) == 2, 60)
    cut_off.relay.cut()
    cut_off.end_skill()
    reader.join(120)
    assert lines[-2:][0].startswith("data: ")
    assert '"STORE_UNAVAILABLE"' in "\n".join(lines)
    cut_off.relay.restore()
    eventually(lambda: cut_off.first.invoke("slow", cut_off.asked, headers=more).status_code == 200, 60)
    assert len(cut_off.first.children()) == 2


def new_tree(directory: Path) -> Path:
    directory.mkdir()
    make_skeleton(directory / "tree", None)
    return directory / "tree"


def write_version(tree: Path, number: int) -> None:
    """Files that belong together, so that a mixture of two versions is seen."""
    for name in "abc":
        (tree / "work" / name).write_text(f"{name} {number}\n" * 1000)


def read_version(tree: Path) -> int:
    found = {(tree / "work" / name).read_text() for name in "abc"}
    numbers = {int(line.split()[1]) for text in found for line in text.splitlines()}
    assert len(numbers) == 1, numbers
    return numbers.pop()


def wait_for_length(values: list[int], count: int) -> None:
    eventually(lambda: len(values) >= count, 60)


async def save_until_it_fails(tree: Path, store: S3ObjectStore, saved: list[int]) -> str:
    """Save one version after the other, and return the message of the error that ends it."""
    while True:
        write_version(tree, saved[-1] + 1)
        try:
            await save_workspace(tree, store, "key", 1)
        except ArtifactsUnavailable as error:
            return error.message
        saved.append(saved[-1] + 1)


async def test_a_save_fails_while_the_storage_is_killed_and_the_next_one_succeeds(tmp_path: Path) -> None:
    tree = new_tree(tmp_path / "a")
    with s3.running(durable=True) as server:
        store = S3ObjectStore(server.new_bucket(), "p", config=config_of(server))
        saved = [0]
        for round_ in range(2 if LONG else 1):
            enough = len(saved) + 3
            saving = asyncio.ensure_future(save_until_it_fails(tree, store, saved))
            await asyncio.to_thread(wait_for_length, saved, enough)
            # In the middle of whatever it does now.
            await asyncio.to_thread(server.started.end, signal.SIGKILL)
            assert "the storage s3://" in await saving
            await asyncio.to_thread(server.restart)
            other = new_tree(tmp_path / f"restored-{round_}")
            restored = await restore_workspace(other, store, "key", 1)
            assert restored is not None
            assert restored.missing == ()
            # The save that failed may have been complete, but for its response.
            assert read_version(other) in {saved[-1], saved[-1] + 1}
            saved.append(saved[-1] + 2)
            write_version(tree, saved[-1])
            await save_workspace(tree, store, "key", 1)
            await restore_workspace(other, store, "key", 1)
            assert read_version(other) == saved[-1]


@pytest.mark.parametrize("after", [100, 500_000, 3_000_000])
async def test_a_connection_that_is_cut_during_an_upload_leaves_the_earlier_checkpoint(
    s3_server: S3Server, tmp_path: Path, after: int
) -> None:
    tree, other = new_tree(tmp_path / "a"), new_tree(tmp_path / "b")
    with relay_to(s3_server.port) as relay:
        config = {**config_of(s3_server), "endpoint": f"http://127.0.0.1:{relay.port}"}
        store = S3ObjectStore(s3_server.new_bucket(), "p", config=config)
        write_version(tree, 1)
        await save_workspace(tree, store, "key", 1)
        write_version(tree, 2)
        (tree / "work" / "large").write_bytes(bytes(6_000_000))
        relay.cut_after(after)
        with pytest.raises(ArtifactsUnavailable, match="s3://"):
            await save_workspace(tree, store, "key", 1)
        assert relay.is_cut
        relay.restore()
        await restore_workspace(other, store, "key", 1)
        assert read_version(other) == 1
        assert not (other / "work" / "large").exists()
        await save_workspace(tree, store, "key", 1)
        await restore_workspace(other, store, "key", 1)
        assert read_version(other) == 2
        assert (other / "work" / "large").stat().st_size == 6_000_000


@needs_root("mounts a small disk")
def test_a_node_with_a_full_disk_refuses_work_keeps_what_it_has_and_recovers(tmp_path: Path) -> None:
    small, storage = tmp_path / "nodes", tmp_path / "storage"
    small.mkdir()
    storage.mkdir()
    mounts = f"mount -t tmpfs -o size=290m none '{small}' && mount -t tmpfs -o size=1g none '{storage}'"
    program = f"exec '{sys.executable}' -m tests.hostile.full_disk '{tmp_path}' '{storage}'"
    # In a mount namespace of its own, which ends with the program.
    command = ["unshare", "--mount", "sh", "-c", f"{mounts} && {program}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout)
    # Whichever is first: the end of the disk, or the watchdog.
    filled = told["filled"]
    assert "No space left on device" in filled["stderr"] or "of disk space are left" in filled["detail"], filled
    assert "bytes left, and 268,435,456 must stay free; free some space" in told["refused"]
    assert told["other"].startswith("TOO_MANY_REQUESTS: no node had room for the workspace within 0.5 s")
    assert "disk full: 1" in told["other"]
    assert told["elsewhere"] == ["roomy"] * 3
    assert told["again"] == "node-0"
    assert told["kept"] == "acknowledged"
    assert told["removed"] is True
    assert told["after"]["stdout"] == "acknowledgedone\n"


PAUSE_SECONDS = 30.0
LEASE = 3.0


@dataclass(frozen=True)
class Servers:
    """The servers that all machines use, and the connection between one of the hosts and the database."""

    postgres: PostgresServer
    storage: S3Server
    relay: TcpRelay


class Machines:
    """Three Ray nodes, two hosts, PostgreSQL, an S3 server and a process with a conversation: each can fail."""

    def __init__(self, nodes: RayNodes, hosts: HostCluster, talk: ConversationLoad, servers: Servers) -> None:
        self.nodes = nodes
        self.hosts = hosts
        self.talk = talk
        self.servers = servers
        self.faults: dict[str, Callable[[], None] | None] = {
            "host is killed": self._kill_host,
            "host is paused": self._pause_host,
            "runtime is killed": talk.kill,
            "PostgreSQL is restarted": self._restart_database,
            "PostgreSQL is killed": self._kill_database,
            "storage is killed": self._kill_storage,
            "connection to PostgreSQL is cut": self._cut,
            "connection to PostgreSQL stalls": self._stall,
            "agent of a node is killed": self._kill_agent,
            "agent of a node is paused": self._pause_agent,
            "node is killed": None,
        }

    def _kill_host(self) -> None:
        # The second one; the first one is behind the relay.
        self.hosts.replace_host(self.hosts.hosts[1])

    def _pause_host(self) -> None:
        self._pause(self.hosts.hosts[0].process.send_signal)

    def _pause(self, send: Callable[[signal.Signals], None]) -> None:
        send(signal.SIGSTOP)
        # So long that others take over: that is the fault.
        self.hosts.stop.wait(PAUSE_SECONDS)
        # Ray may have killed an agent that did not answer.
        with suppress(ProcessLookupError):
            send(signal.SIGCONT)

    def _restart_database(self) -> None:
        self.servers.postgres.started.end(signal.SIGQUIT)
        self.servers.postgres.started.start()

    def _kill_database(self) -> None:
        self.servers.postgres.started.end(signal.SIGKILL)
        eventually(self._start_database, 60)

    def _start_database(self) -> bool:
        try:
            self.servers.postgres.started.start()
        except RuntimeError:
            # Processes of the one that was killed have not ended yet.
            return False
        return True

    def _kill_storage(self) -> None:
        self.servers.storage.started.end(signal.SIGKILL)
        self.servers.storage.restart()

    def _cut(self) -> None:
        self.servers.relay.cut()
        self.hosts.stop.wait(PAUSE_SECONDS / 4)
        self.servers.relay.restore()

    def _stall(self) -> None:
        self.servers.relay.stall()
        self.hosts.stop.wait(PAUSE_SECONDS)
        self.servers.relay.restore()

    def _find_agent(self) -> int:
        """The pid of the agent of a node that is not the head."""
        found: list[int] = []

        def find() -> bool:
            for one in list(self.nodes.cluster.worker_nodes):
                # A new node may not have an agent yet, and one whose agent was killed has the pid of the dead one.
                with suppress(StopIteration, ProcessLookupError):
                    pid = self.nodes.find_agent("faults", one.node_id)
                    os.kill(pid, 0)
                    found.append(pid)
            return bool(found)

        eventually(find, 120)
        return found[0]

    def _kill_agent(self) -> None:
        os.kill(self._find_agent(), signal.SIGKILL)

    def _pause_agent(self) -> None:
        self._pause(partial(os.kill, self._find_agent()))

    def kill_node(self) -> None:
        """Kill a node with all its processes, and add another. Ray wants that from the main thread."""
        cluster = self.nodes.cluster
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        cluster.add_node(num_cpus=1, object_store_memory=80_000_000)


@pytest.mark.skipif(not ROUNDS, reason="the long form: OPENSKILL_HOSTILE=long")
@pytest.mark.timeout(0)
async def test_whatever_fails_on_whichever_machine_nothing_is_lost_or_done_twice(
    nodes: RayNodes, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url = postgres_server.new_database()
    with ExitStack() as stack:
        storage = stack.enter_context(s3.running(durable=True))
        relay = stack.enter_context(relay_to(postgres_server.port))
        hosts = HostCluster(url, tmp_path)
        stack.callback(hosts.close)
        stack.callback(relay.restore)
        stack.callback(hosts.stop.set)
        await asyncio.to_thread(hosts.add_host, url.replace(f":{postgres_server.port}/", f":{relay.port}/"))
        await asyncio.to_thread(hosts.add_host)
        talk = ConversationLoad(postgres_server.new_database(), tmp_path / "talk")
        stack.callback(talk.close)
        machines = Machines(nodes, hosts, talk, Servers(postgres_server, storage, relay))
        env = {
            **storage.environment,
            "PATH": "/usr/bin:/bin",
            "OPENSKILL_STATE_DIR": str(nodes.directory / "faults-driver"),
            "OPENSKILL_STORAGE": storage.url(storage.new_bucket()),
        }
        options: dict[str, Any] = {"namespace": "faults", "lease": LEASE, "host": "127.0.0.1", "executor": "local"}
        options |= {"state_dir": nodes.directory / "faults", "checkpoint_delay": 0.05}
        executor = open_executor(f"ray:{nodes.address}", Settings.from_env(env), **options)
        assert isinstance(executor, RayExecutor)
        async with executor:
            load = NodeLoad(executor, nodes.directory / "executed.txt")
            working = [asyncio.ensure_future(load.run(f"w{number}")) for number in range(3)]
            callers = [threading.Thread(target=hosts.call, args=(name,), daemon=True) for name in ("a", "b", "c")]
            for caller in callers:
                caller.start()
            chance = random.Random(7)
            known = [*machines.faults]
            # Each of them once before one comes again.
            names = [name for _ in range(ROUNDS) for name in chance.sample(known, len(known))][:ROUNDS]
            for name in names:
                before = len(load.acknowledged)
                await asyncio.to_thread(hosts.progress)
                await asyncio.to_thread(talk.progress)
                async with asyncio.timeout(120):
                    while len(load.acknowledged) < before + 5:
                        await asyncio.sleep(0.1)
                sys.stderr.write(f"{name}: {len(hosts.answers)} answers, {len(load.acknowledged)} commands, ")
                sys.stderr.write(f"{len(talk.acknowledged)} events, failed commands: {load.failures}\n")
                if (cause := machines.faults[name]) is None:
                    machines.kill_node()
                else:
                    await asyncio.to_thread(cause)
            await asyncio.to_thread(hosts.progress)
            await asyncio.to_thread(talk.progress)
            load.is_stopped = True
            await asyncio.gather(*working)
            load.check()
        hosts.stop.set()
        for caller in callers:
            await asyncio.to_thread(caller.join, 120)
        await asyncio.to_thread(hosts.check)
        await asyncio.to_thread(talk.close)
        await asyncio.to_thread(talk.check)
