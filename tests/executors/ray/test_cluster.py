"""Three real Ray nodes on loopback: promises, placement, loss of a node, fencing, checkpoints. One cluster for all."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from openskills.artifacts import Scope
from openskills.errors import (
    CommandDenied,
    ExecutorUnavailable,
    InvalidArgument,
    InvalidSkill,
    SkillError,
    TooManyRequests,
)
from openskills.executors import Command, RunRequest, RunResult
from openskills.executors.approval import ApprovalRequest
from openskills.executors.commands import CommandRules, CommandRunner, open_command_runner
from openskills.executors.open import open_executor
from openskills.executors.ray.client import RemoteWorkspace
from openskills.executors.ray.executor import RayExecutor
from openskills.executors.requests import InstallMode, PackageOptions
from openskills.executors.spec import EndReason
from openskills.executors.staging.packages import PackageSet
from openskills.settings import Settings
from openskills.testing.checks import read_content, read_until
from openskills.testing.executor import GROUPS, check_executor
from tests.cli.ran import TIMEOUT, Ran
from tests.executors.ray.nodes import move_away
from tests.executors.running import eventually, is_stopped
from tests.executors.wheels import make_index
from tests.host.host_process import host_process
from tests.host.hosting import key_in, served
from tests.long_form import cases
from tests.servers.s3 import S3Server
from tests.servers.started import free_port
from tests.servers.warm_openskills import openskills_line

LEASE = 3.0
# Long enough for the restart of an agent on a busy machine: a lost node would be replaced without the files.
RESTART = 30.0
SECRET = "a key of the driver"
# Set before Ray is imported: no statistics, no upload of the working directory, no idle workers, and quick detection of
# lost nodes.
_VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "4",
    # The server for a driver through Ray Client starts slowly on a busy machine.
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "120",
}


@dataclass(slots=True)
class RayNodes:
    """A cluster, and executors for it."""

    address: str
    directory: Path
    cluster: Any
    client_port: int

    def settings(self, *, storage: bool | Mapping[str, str] = False, name: str = "driver") -> Settings:
        """The settings of a driver."""
        env = {"OPENSKILL_STATE_DIR": str(self.directory / name), "PATH": "/usr/bin:/bin"}
        env["AWS_SECRET_ACCESS_KEY"] = SECRET
        if storage is True:
            storage = {"OPENSKILL_STORAGE": str(self.directory / "storage")}
        return Settings.from_env(env | dict(storage or {}))

    def executor(
        self,
        *,
        storage: bool | Mapping[str, str] = False,
        namespace: str = "tests",
        name: str = "driver",
        **options: Any,
    ) -> RayExecutor:
        """A driver of a namespace; the first one decides about its agents."""
        given: dict[str, Any] = {"namespace": namespace, "lease": LEASE, "host": "127.0.0.1", **options}
        given["state_dir"] = self.directory / namespace
        settings = self.settings(storage=storage, name=name)
        found = open_executor(f"ray:{self.address}", settings, checkpoint_delay=0.05, **given)
        assert isinstance(found, RayExecutor)
        return found

    @contextmanager
    def another_node(self, **about: Any) -> Generator[str]:
        """One more node; gives its id."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            node = self.cluster.add_node(num_cpus=1, object_store_memory=80_000_000, **about)
        try:
            yield node.node_id
        finally:
            self.cluster.remove_node(node)

    def find_agent(self, namespace: str, node: str) -> int:
        """The pid of the agent of a node."""
        places = (self.directory / namespace / "ray").glob("*/agent.lock")
        return next(int(lock.read_text()) for lock in places if _owner(lock.parent) == node)


@pytest.fixture(scope="module")
def nodes() -> Generator[RayNodes]:
    """Three nodes."""
    if shutil.which("bwrap") is None:
        pytest.skip("needs bwrap")
    # Not below pytest's directory: paths of sockets are limited to 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="openskills-ray-", dir="/tmp"))
    directory.chmod(0o755)
    variables = {**_VARIABLES, "RAY_TMPDIR": str(directory), "OPENSKILL_STATE_DIR": str(directory / "nodes")}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    ray: Any = import_module("ray")
    cluster_utils: Any = import_module("ray.cluster_utils")
    small = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_log_monitor": False}
    client_port = free_port()
    head = {**small, "include_dashboard": False, "no_monitor": True, "ray_client_server_port": client_port}
    with warnings.catch_warnings():
        # Ray leaves the logs of its Ray Client server open.
        warnings.simplefilter("ignore", ResourceWarning)
        cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            cluster.add_node(**small)
        yield RayNodes(cluster.address, directory, cluster, client_port)
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(directory, ignore_errors=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# What the executor of a node sees to is tested without a cluster, and in the long form with one.
OF_NODES = ("environment", "isolation", "limits", "links")


@pytest.mark.parametrize("group", cases((group for group in GROUPS if group not in OF_NODES), OF_NODES))
async def test_the_cluster_keeps_the_promises_of_an_executor(group: str, nodes: RayNodes) -> None:
    await check_executor(nodes.executor, groups=[group])


async def test_new_workspaces_are_spread_and_existing_ones_stay(nodes: RayNodes) -> None:
    async with nodes.executor() as executor:
        keys = [f"spread-{number}" for number in range(6)]
        first = {key: (await executor.open(key)).node for key in keys}
        status = await executor.status()
        assert len(status["nodes"]) == 3
        assert sorted(list(first.values()).count(node["node"]) for node in status["nodes"]) == [2, 2, 2]
        assert {node["isolation"] for node in status["nodes"]} == {"bubblewrap"}
        assert all(node["address"].startswith("127.0.0.1:") for node in status["nodes"])
        assert "token" not in json.dumps(status)
    async with nodes.executor() as other:
        assert {key: (await other.open(key)).node for key in keys} == first
        for key in keys:
            await other.remove(key)


async def test_a_restarted_directory_knows_where_workspaces_are(nodes: RayNodes) -> None:
    async with nodes.executor() as executor:
        keys = [f"known-{number}" for number in range(4)]
        workspaces = [await executor.open(key) for key in keys]
        places = [(workspace.node, workspace.attachment.epoch) for workspace in workspaces]
        await workspaces[0].write("work/kept", b"kept")
        ray: Any = import_module("ray")
        ray.kill(ray.get_actor("openskills-directory", namespace="tests"), no_restart=False)
        # What is open goes on without the directory.
        assert await read_content(workspaces[0], "work/kept") == b"kept"
        for workspace in workspaces:
            await workspace.close()
        again = [await executor.open(key) for key in keys]
        assert [(workspace.node, workspace.attachment.epoch) for workspace in again] == places
        assert await read_content(again[0], "work/kept") == b"kept"
        for key in keys:
            await executor.remove(key)


async def test_the_workspace_of_one_driver_is_not_opened_by_another(nodes: RayNodes) -> None:
    async with nodes.executor() as first, nodes.executor() as second:
        await first.open("mine")
        with pytest.raises(ExecutorUnavailable, match="in use by another driver"):
            await second.open("mine")


def test_a_host_runs_scripts_of_skill_folders_on_the_cluster_and_others_in_its_own_sandbox(
    nodes: RayNodes, tmp_path: Path
) -> None:
    folder = tmp_path / "skills" / "where"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: where\ndescription: Tells where it runs.\n---\nRun it.\n")
    (folder / "scripts" / "tell.py").write_text('if __name__ == "__main__":\n    print(__file__)\n')
    environment = {"OPENSKILL_EXECUTOR": f"ray:{nodes.address}", "OPENSKILL_ALLOW_LOCAL": "0"}
    with host_process(tmp_path, "--skills", str(tmp_path / "skills"), **environment) as host:
        echoed = host.invoke("echo", {"text": "hello"})
        assert echoed.json()["data"] == {"echoed": "hello"}, echoed.text
        told = host.invoke("where.tell", {})
        assert "skills/where/scripts/tell.py" in str(told.json()["data"]), told.text
        greeting = host.errors.read_text()
        assert "2 skills of type cli:python or cli:exec in the sandbox here" in greeting
    assert list((nodes.directory / "nodes" / "ray").glob("*/snapshots/*/scripts/tell.py"))


_CLIENT = """
import asyncio, sys
from openskills.executors import Command
from openskills.executors.open import open_executor
from openskills.settings import Settings

async def main():
    settings = Settings.from_env({"OPENSKILL_STATE_DIR": sys.argv[2]})
    async with open_executor(sys.argv[1], settings, namespace="tests") as executor:
        workspace = await executor.open("through Ray Client")
        await workspace.write("work/file", b"content")
        ended = await (await workspace.start(Command(("cat", "work/file")))).wait()
        print(ended.stdout.text(), workspace.isolation, len((await executor.status())["nodes"]))
        await executor.remove("through Ray Client")

asyncio.run(main())
"""


async def test_a_driver_uses_the_cluster_through_ray_client(nodes: RayNodes, tmp_path: Path) -> None:
    async with nodes.executor() as executor:
        await executor.check()
    argv = [sys.executable, "-c", _CLIENT, f"ray://127.0.0.1:{nodes.client_port}", str(tmp_path)]
    driver = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, errors = await driver.communicate()
    assert output.decode() == "content bubblewrap 3\n", errors[-2000:]


_DRIVER = """
import asyncio, sys
from pathlib import Path
from openskills.executors import Command
from openskills.executors.open import open_executor
from openskills.settings import Settings

async def main():
    settings = Settings.from_env({"OPENSKILL_STATE_DIR": sys.argv[2] + "/dying"})
    executor = open_executor("ray:" + sys.argv[1], settings, namespace="tests")
    workspace = await executor.open("dying")
    command = "setsid flock work/lock sleep 600 & flock work/other sleep 600 & echo begun; wait"
    process = await workspace.start(Command(("sh", "-c", command), readable=True))
    await process.read(0, wait=30)
    print("begun", flush=True)
    await process.wait()

asyncio.run(main())
"""


async def test_the_death_of_a_driver_kills_its_commands(nodes: RayNodes) -> None:
    argv = [sys.executable, "-c", _DRIVER, nodes.address, str(nodes.directory)]
    driver = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert driver.stdout is not None
    assert driver.stderr is not None
    assert await driver.stdout.readline() == b"begun\n", (await driver.stderr.read())[-2000:]
    driver.send_signal(signal.SIGKILL)
    await driver.wait()
    async with nodes.executor() as executor:
        workspace = await executor.open("dying")
        command = Command(("sh", "-c", "flock -w 20 work/lock flock -w 20 work/other echo free"))
        ended = await (await workspace.start(command)).wait()
        assert ended.stdout.text() == "free\n"
        await executor.remove("dying")


def make_skill(directory: Path, text: str = "print('hello')") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\nRun it.\n")
    (directory / "run.py").write_text(text)
    (directory / "big.bin").write_bytes(bytes(range(256)) * 8192)
    return directory


def list_received(nodes: RayNodes, namespace: str, digest: str) -> int:
    return sum(1 for _ in (nodes.directory / namespace / "ray").glob(f"*/snapshots/{digest}"))


async def test_a_skill_reaches_a_node_once_and_only_nodes_that_use_it(nodes: RayNodes, tmp_path: Path) -> None:
    async with nodes.executor() as executor:
        snapshot = await executor.snapshot("greet", make_skill(tmp_path / "greet", f"print('{uuid4()}')"))
        workspace = await executor.open("skill-0")
        await workspace.stage(snapshot)
        assert list_received(nodes, "tests", snapshot.digest) == 1
        ended = await (await workspace.start(Command(("python3", "run.py"), skill="greet", cwd="skills/greet"))).wait()
        assert ended.exit_code == 0
        same_node = workspace.node
        for number in range(1, 4):
            other = await executor.open(f"skill-{number}")
            if other.node == same_node:
                await other.stage(snapshot)
        assert list_received(nodes, "tests", snapshot.digest) == 1
        for number in range(4):
            await executor.remove(f"skill-{number}")


async def test_packages_are_built_once_per_node_and_found_by_its_workspaces_and_its_restarted_agent(
    nodes: RayNodes, tmp_path: Path
) -> None:
    rules = CommandRules(index=make_index(nodes.directory / "wheels"))
    folder = make_skill(tmp_path / "greet", "import tiny; print(tiny.VERSION)")
    (folder / "requirements.txt").write_text("tiny\n")
    always, lines = PackageOptions(install=InstallMode.ALWAYS), list[str]()
    built = nodes.directory / "restarted" / "ray"

    async with nodes.executor(namespace="restarted", lease=RESTART) as executor:

        async def open_runner(number: int) -> tuple[CommandRunner, str]:
            scope = Scope("app", "user", f"packages-{number}")
            runner = await open_command_runner(executor, nodes.settings(), scope, rules=rules)
            await runner.stage("greet", folder)
            assert isinstance(runner.workspace, RemoteWorkspace)
            return runner, runner.workspace.node

        async def run(runner: CommandRunner) -> str:
            provided = await runner.provide_packages("greet", "python3 run.py", always, progress=lines.append)
            return (await runner.run(RunRequest("python3 run.py", skill="greet", packages=provided.environment))).stdout

        # Two on each node, at once.
        runners = [await open_runner(number) for number in range(6)]
        assert await asyncio.gather(*(run(runner) for runner, _ in runners)) == ["tiny 1.0\n"] * 6
        stored = {path: path.stat().st_mtime_ns for path in built.glob("*/environments/*/about.json")}
        assert len(stored) == 3
        assert lines.count("installed tiny==1.0") == 3
        runner, node = runners[0]
        os.kill(nodes.find_agent("restarted", node), signal.SIGKILL)
        async with asyncio.timeout(90):
            while True:
                try:
                    assert await run(runner) == "tiny 1.0\n"
                    break
                except ExecutorUnavailable:
                    await asyncio.sleep(0.1)
        assert {path: path.stat().st_mtime_ns for path in built.glob("*/environments/*/about.json")} == stored
        missing = PackageOptions(PackageSet(("no-such-package",)))
        with pytest.raises(InvalidSkill, match="the index has no package 'no-such-package' for this Python"):
            await runner.provide_packages("greet", "python3 run.py", missing)
        assert lines.count("installed tiny==1.0") == 3
        for one, _ in runners:
            await one.close()
            await executor.remove(one.key)


async def test_a_command_with_packages_runs_on_the_node_to_which_its_workspace_moved(
    nodes: RayNodes, tmp_path: Path
) -> None:
    rules = CommandRules(index=make_index(nodes.directory / "more wheels"))
    folder = make_skill(tmp_path / "greet", "import tiny; print(tiny.VERSION, tiny.__file__)")
    (folder / "requirements.txt").write_text("tiny\n")
    async with nodes.executor(storage=True) as executor:
        settings = nodes.settings(storage=True)
        runner = await open_command_runner(executor, settings, Scope("app", "user", "moving"), rules=rules)
        await runner.stage("greet", folder)
        workspace = runner.workspace
        assert isinstance(workspace, RemoteWorkspace)
        provided = await runner.provide_packages("greet", "python3 run.py", PackageOptions(install=InstallMode.ALWAYS))
        request = RunRequest("python3 run.py", skill="greet", packages=provided.environment)
        first, before = (await runner.run(request)).stdout, workspace.node
        await executor.drain(before)
        try:
            await move_away(workspace, before)
            second = (await runner.run(request)).stdout
        finally:
            await executor.drain(before, is_draining=False)
        assert first.startswith("tiny 1.0 ")
        assert second.startswith("tiny 1.0 ")
        # Each node has its own.
        assert first.split(" ")[2] != second.split(" ")[2]
        await runner.close()
        await executor.remove(runner.key)


async def test_a_paused_node_loses_its_workspace_and_runs_nothing_when_it_resumes(nodes: RayNodes) -> None:
    async with nodes.executor(storage=True) as executor:
        workspace = await executor.open("paused")
        await workspace.write("work/kept", b"saved")
        await (await workspace.start(Command(("sh", "-c", "echo one > out/one")))).wait()
        await wait_until_saved(executor, nodes, workspace.id, "out/one")
        running = await workspace.start(Command(("sh", "-c", "echo begun; sleep 600"), readable=True))
        await read_until(running, b"begun")
        before, epoch = workspace.node, workspace.attachment.epoch
        agent = nodes.find_agent("tests", before)
        os.kill(agent, signal.SIGSTOP)
        # Other threads go on until the first one gets a processor.
        assert await eventually(lambda: is_stopped(agent))
        try:
            # This request is in the socket of the paused node when it resumes.
            late = asyncio.ensure_future(workspace.start(Command(("sh", "-c", "echo late > out/late"))))
            assert (await running.wait()).ending is EndReason.INTERRUPTED
            with pytest.raises(ExecutorUnavailable):
                await late
            ended = await (await workspace.start(Command(("cat", "work/kept", "out/one")))).wait()
            assert ended.stdout.text() == "savedone\n"
            assert any(f"node {before[:12]} was lost" in note and "files of" in note for note in ended.notes)
            assert workspace.node != before
            assert workspace.attachment.epoch > epoch
        finally:
            os.kill(agent, signal.SIGCONT)
        await wait_for_report(executor, before)
        listing = await workspace.list(["out/**"])
        assert [info.path for info in listing.files] == ["out/one"]
        old = nodes.directory / "tests" / "ray"
        assert not [path for path in old.glob("*/workspaces/*/tree/out/late") if path.exists()]
        await executor.remove("paused")


async def wait_for_report(executor: RayExecutor, node: str) -> None:
    async with asyncio.timeout(60):
        while not any(
            one["node"] == node and not one["is_lost"] and one["seen_seconds_ago"] < LEASE
            for one in (await executor.status())["nodes"]
        ):
            await asyncio.sleep(0.1)


async def wait_until_saved(executor: RayExecutor, nodes: RayNodes, id_: str, path: str) -> None:
    stored = nodes.directory / "storage" / "objects" / "workspaces" / id_
    async with asyncio.timeout(60):
        while not any(json.dumps(path).encode() in one.read_bytes() for one in stored.glob("*")):
            await asyncio.sleep(0.05)


async def test_an_agent_that_crashes_is_restarted_with_its_files(nodes: RayNodes) -> None:
    async with nodes.executor(namespace="restarted", lease=RESTART) as executor:
        workspace = await executor.open("crashed")
        await workspace.write("work/kept", b"on disk")
        before = workspace.node
        os.kill(nodes.find_agent("restarted", before), signal.SIGKILL)
        async with asyncio.timeout(60):
            while True:
                try:
                    assert await read_content(workspace, "work/kept") == b"on disk"
                    break
                except ExecutorUnavailable:
                    await asyncio.sleep(0.1)
        assert workspace.node == before
        await executor.remove("crashed")


async def test_a_request_that_was_lost_with_its_connection_does_not_run_again(nodes: RayNodes) -> None:
    async with nodes.executor(namespace="restarted", lease=RESTART) as executor:
        runner = await open_command_runner(executor, nodes.settings(), Scope("app", "user", "once"))
        workspace = runner.workspace
        assert isinstance(workspace, RemoteWorkspace)
        request = RunRequest("echo ran >> $OUTPUT_DIR/runs; sleep 600", request_id="lost")
        running = asyncio.ensure_future(runner.run(request))
        async with asyncio.timeout(60):
            while not (await workspace.list(["out/runs"])).files:
                await asyncio.sleep(0.05)
        os.kill(nodes.find_agent("restarted", workspace.node), signal.SIGKILL)
        (first,) = await asyncio.gather(running, return_exceptions=True)
        (again,) = await asyncio.gather(runner.run(request), return_exceptions=True)
        if isinstance(first, RunResult):
            assert isinstance(again, RunResult)
            assert (again.ended.ending, again.replayed) == (first.ended.ending, True)
            assert first.ended.ending is EndReason.INTERRUPTED
        else:
            # It died before it had said that the command began.
            assert isinstance(first, ExecutorUnavailable)
            assert isinstance(again, SkillError)
            assert first.message in again.message
        with pytest.raises(InvalidArgument, match="'lost' was used for another request"):
            await runner.run(RunRequest("true", request_id="lost"))
        await runner.close()
        await wait_for_report(executor, workspace.node)
        reopened = await executor.open(runner.key)
        assert await read_content(reopened, "out/runs") == b"ran\n"
        await executor.remove(runner.key)
        assert not (nodes.directory / "driver" / "journals" / workspace.id).exists()


async def test_a_request_is_answered_after_a_move_and_refused_by_another_driver(nodes: RayNodes) -> None:
    scope = Scope("app", "user", "moved")
    request = RunRequest("echo ran >> $OUTPUT_DIR/runs; cat $OUTPUT_DIR/runs", request_id="moved")
    async with nodes.executor(storage=True) as executor:
        runner = await open_command_runner(executor, nodes.settings(storage=True), scope)
        workspace = runner.workspace
        assert isinstance(workspace, RemoteWorkspace)
        before = workspace.node
        assert (await runner.run(request)).stdout == "ran\n"
        await executor.drain(before)
        try:
            async with asyncio.timeout(60):
                while workspace.node == before:
                    await runner.run(RunRequest("true"))
        finally:
            await executor.drain(before, is_draining=False)
        again = await runner.run(request)
        assert (again.stdout, again.replayed) == ("ran\n", True)
        await runner.close()
    async with nodes.executor(storage=True, name="other") as executor:
        runner = await open_command_runner(executor, nodes.settings(storage=True, name="other"), scope)
        refused = await runner.run(request)
        assert refused.ended.ending is EndReason.INTERRUPTED
        assert "began on another machine" in refused.ended.detail
        assert (await runner.run(RunRequest("cat $OUTPUT_DIR/runs", request_id="new"))).stdout == "ran\n"
        await runner.close()
        await executor.remove(runner.key)
    assert not [path for path in (nodes.directory / "storage/objects/requests").rglob("*") if path.is_file()]


async def test_a_denied_request_may_be_allowed_by_another_driver(nodes: RayNodes) -> None:
    scope, request = Scope("app", "user", "denied"), RunRequest("echo ran", request_id="denied")

    async def deny(_: ApprovalRequest) -> bool:
        return False

    async with nodes.executor(storage=True) as executor:
        settings = nodes.settings(storage=True)
        runner = await open_command_runner(executor, settings, scope, rules=CommandRules(approve=deny))
        with pytest.raises(CommandDenied):
            await runner.run(request)
        await runner.close()
    async with nodes.executor(storage=True, name="other") as executor:
        runner = await open_command_runner(executor, nodes.settings(storage=True, name="other"), scope)
        assert (await runner.run(request)).stdout == "ran\n"
        await runner.close()
        await executor.remove(runner.key)


@pytest.mark.parametrize("storage", ["directory", "s3"])
async def test_a_drained_node_gets_no_work_and_its_workspaces_move_with_their_files(
    storage: str, nodes: RayNodes, s3_server: S3Server
) -> None:
    remote = {"OPENSKILL_STORAGE": s3_server.url(s3_server.new_bucket(), "saved"), **s3_server.environment}
    async with nodes.executor(storage=remote if storage == "s3" else True) as executor:
        workspace = await executor.open("drained")
        await workspace.write("work/kept", b"moves")
        before = workspace.node
        with pytest.raises(InvalidArgument, match="unknown node 'nowhere'; known nodes are"):
            await executor.drain("nowhere")
        assert (await executor.drain(before[:12]))["is_draining"]
        notes: tuple[str, ...] = ()
        try:
            async with asyncio.timeout(60):
                while workspace.node == before:
                    ended = await (await workspace.start(Command(("cat", "work/kept")))).wait()
                    assert ended.stdout.text() == "moves"
                    notes = ended.notes
            assert any("is being drained" in note for note in notes)
            assert all([(await executor.open(f"elsewhere-{number}")).node != before for number in range(4)])
        finally:
            await executor.drain(before, is_draining=False)
        for key in ("drained", *(f"elsewhere-{number}" for number in range(4))):
            await executor.remove(key)


async def test_idle_workspaces_leave_a_drained_node_by_themselves_and_busy_ones_when_their_command_ends(
    nodes: RayNodes,
) -> None:
    async with nodes.executor(storage=True) as executor:
        workspaces = [await executor.open(f"leaving-{number}") for number in range(4)]
        before = workspaces[0].node
        busy, *_ = there = [one for one in workspaces if one.node == before]
        for workspace in there:
            await workspace.write("work/kept", workspace.id.encode())
        waits = "echo begun; until test -e work/go; do sleep 0.1; done; cp work/go out/end"
        process = await busy.start(Command(("sh", "-c", waits), readable=True))
        await read_until(process, b"begun")
        try:
            await executor.drain(before)
            await wait_for_load(executor, before, workspaces=1)
            assert busy.node == before
            await busy.write("work/go", b"done\n")
            assert (await process.wait()).exit_code == 0
            await wait_for_load(executor, before, workspaces=0)
            for workspace in there:
                assert await read_content(workspace, "work/kept") == workspace.id.encode()
                assert workspace.node != before
            assert await read_content(busy, "out/end") == b"done\n"
        finally:
            await executor.drain(before, is_draining=False)
        for number in range(4):
            await executor.remove(f"leaving-{number}")


async def wait_for_load(executor: RayExecutor, node: str, **load: int) -> None:
    """Wait until the node has reported this load."""
    async with asyncio.timeout(60):
        while not any({"node": node, **load}.items() <= one.items() for one in (await executor.status())["nodes"]):
            await asyncio.sleep(0.1)


async def run_cluster(nodes: RayNodes, *arguments: str, namespace: str = "tests", **more: str) -> Ran:
    """`openskills cluster` in a process of its own."""
    env = {"HOME": str(nodes.directory), "PATH": os.defpath, "LANG": "C.UTF-8"}
    env |= {"OPENSKILL_EXECUTOR": f"ray:{nodes.address}", **more}
    argv = openskills_line("cluster", *arguments, "--namespace", namespace)
    done = await asyncio.to_thread(lambda: subprocess.run(argv, env=env, capture_output=True, timeout=TIMEOUT))
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


async def test_the_command_shows_and_drains_nodes(nodes: RayNodes) -> None:
    async with nodes.executor(storage=True) as executor:
        workspace = await executor.open("commanded")
        await workspace.write("work/kept", b"moves")
        before = workspace.node
        shown = await run_cluster(nodes, "status", "--json")
        assert shown.code == 0, shown.err
        found = {node["node"]: node for node in shown.json["cluster"]["nodes"]}
        assert (len(found), found[before]["workspaces"], shown.json["hosts"]) == (3, 1, None)
        try:
            drained = await run_cluster(nodes, "drain", before[:16])
            assert (drained.code, drained.lines[0]) == (0, f"node {before[:12]} is empty"), drained.err
            assert await read_content(workspace, "work/kept") == b"moves"
            assert workspace.node != before
            listed = {line.split("\t")[0]: line.split("\t")[2] for line in (await run_cluster(nodes, "status")).lines}
            assert sorted(listed.values()) == ["bubblewrap", "bubblewrap", "drained"]
            assert listed[before[:12]] == "drained"
        finally:
            undone = await run_cluster(nodes, "drain", before, "--undo")
        assert (undone.code, undone.lines) == (0, [f"node {before[:12]} gets work again"])
        process = await workspace.start(Command(("sleep", "600")))
        await wait_for_load(executor, workspace.node, workspaces=1, commands=1)
        late = await run_cluster(nodes, "drain", workspace.node, "--timeout", "1s")
        await executor.drain(workspace.node, is_draining=False)
        assert late.code == 1
        assert "still has 1 workspace and 1 command after 1s" in late.err
        await process.kill()
        await executor.remove("commanded")


async def test_the_command_refuses_unknown_nodes_and_clusters_without_our_nodes(nodes: RayNodes) -> None:
    async with nodes.executor() as executor:
        await executor.check()
    unknown = await run_cluster(nodes, "drain", "nowhere")
    assert unknown.code == 2
    assert "unknown node 'nowhere'; known nodes are" in unknown.err
    other = await run_cluster(nodes, "status", namespace="unused")
    assert other.code == 1
    assert "no nodes of OpenSkill in the namespace 'unused'" in other.err
    for name in ("status", "drain"):
        wrong = await run_cluster(nodes, name, *(["x"] if name == "drain" else []), OPENSKILL_EXECUTOR="local")
        assert wrong.code == 2
        assert "--executor: the executor is 'local', not a cluster; use --executor ray:HOST:PORT" in wrong.err


async def test_a_host_shows_its_nodes_in_routes_metrics_and_the_console_and_drains_them(
    nodes: RayNodes, tmp_path: Path
) -> None:
    # The host uses the namespace that is not given in its settings.
    async with nodes.executor(namespace="openskills") as executor:
        workspace = await executor.open("hosted")
        await asyncio.to_thread(check_host, tmp_path, nodes.address, workspace.node)
        await executor.remove("hosted")


def check_host(directory: Path, address: str, node: str) -> None:
    headers = {"Authorization": f"Bearer {key_in(directory, 'chief', role='admin')}"}
    with (
        served(directory, executor=f"ray:{address}") as host,
        httpx2.Client(verify=False, base_url=host.url, headers=headers, timeout=60) as client,
    ):
        # It does not wait for the cluster.
        assert "openskills_cluster_up 0" in client.get("/metrics").text
        data = client.get("/admin/cluster").json()["data"]
        assert data["hosts"] is None
        assert {one["node"]: one["workspaces"] for one in data["cluster"]["nodes"]}[node] == 1
        metrics = client.get("/metrics").text
        assert "openskills_cluster_up 1" in metrics
        assert f'openskills_node_up{{node="{node}"}} 1' in metrics
        assert f'openskills_node_workspaces{{node="{node}"}} 1' in metrics
        assert f'openskills_node_commands{{node="{node}"}} 0' in metrics
        assert f'openskills_node_disk_full{{node="{node}"}} 0' in metrics

        assert client.post(f"/admin/cluster/nodes/{node[:20]}:drain").json()["data"]["is_draining"]
        page = client.get("/console/cluster").text
        assert f"{node[:12]}</code>" in page
        assert "being drained" in page
        assert 'href="/console/cluster" aria-current="page"' in page
        undone = client.post(f"/console/cluster/nodes/{node}/drain", data={"undo": "1"}, headers={"Origin": host.url})
        assert undone.status_code == 303
        assert "being drained" not in client.get("/console/cluster").text
        wrong = client.post("/admin/cluster/nodes/nowhere:drain", json={"undo": "yes"})
        assert (wrong.status_code, "undo: expected true or false" in wrong.text) == (400, True)
        assert "unknown node 'nowhere'" in client.post("/admin/cluster/nodes/nowhere:drain").text


async def test_a_node_has_no_credentials_of_the_driver_and_no_files_of_other_nodes(nodes: RayNodes) -> None:
    async with nodes.executor(storage=True) as executor:
        workspaces = [await executor.open(f"secret-{number}") for number in range(3)]
        assert len({workspace.node for workspace in workspaces}) == 3
        for number, workspace in enumerate(workspaces):
            await workspace.write("work/secret", f"only for {number}".encode())
            await wait_until_saved(executor, nodes, workspace.id, "work/secret")
        for number, workspace in enumerate(workspaces):
            agent = nodes.find_agent("tests", workspace.node)
            variables = Path(f"/proc/{agent}/environ").read_bytes()
            assert b"OPENSKILL_STORAGE" not in variables
            assert SECRET.encode() not in variables
            places = [path for path in (nodes.directory / "tests" / "ray").iterdir() if _owner(path) == workspace.node]
            texts = [path.read_text() for place in places for path in place.glob("workspaces/*/tree/work/secret")]
            assert texts == [f"only for {number}"]
        for number in range(3):
            await executor.remove(f"secret-{number}")


def _owner(directory: Path) -> str:
    return (directory / "node").read_text()


async def test_a_node_that_cannot_isolate_gets_no_work_and_says_why(nodes: RayNodes) -> None:
    programs = nodes.directory / "programs"
    programs.mkdir()
    # As where the kernel or a container forbids namespaces.
    refusing = "bwrap: No permissions to create a new namespace"
    (programs / "bwrap").write_text(f"#!/bin/sh\necho '{refusing}' >&2\nexit 1\n")
    (programs / "bwrap").chmod(0o755)
    with nodes.another_node(env_vars={"PATH": f"{programs}:/usr/bin:/bin"}) as unable:
        # The agents of the others run already.
        async with nodes.executor(namespace="restarted", lease=RESTART) as executor:
            await executor.check()
            keys = [f"able-{number}" for number in range(4)]
            assert unable not in [(await executor.open(key)).node for key in keys]
            found: dict[str, Any] | None = None
            while found is None:
                # Its agent may still be starting.
                known = (await executor.status())["nodes"]
                found = next((node for node in known if node["node"] == unable), None)
            assert refusing in found["reason"]
            assert (found["isolation"], found["stored_workspaces"]) == ("", 0)


async def test_only_nodes_that_declare_the_resource_are_used_and_its_amount_is_their_limit(nodes: RayNodes) -> None:
    with nodes.another_node(resources={"openskills": 2}) as declared:
        async with nodes.executor(namespace="declared", queue_timeout=0.5) as executor:
            assert [(await executor.open(f"declared-{number}")).node for number in range(2)] == [declared] * 2
            with pytest.raises(TooManyRequests, match=r"open workspaces: \w+ 2/2;"):
                await executor.open("declared-2")
            assert [node["node"] for node in (await executor.status())["nodes"]] == [declared]


async def test_a_conversation_survives_the_loss_of_its_node_and_the_user_is_told(
    nodes: RayNodes, tmp_path: Path
) -> None:
    # Last: this node does not come back.
    settings = nodes.settings(storage=True)
    async with nodes.executor(storage=True) as executor:
        head = nodes.cluster.head_node.node_id
        # New workspaces are spread, so that one of two is not on the head node.
        runners = [
            await open_command_runner(executor, settings, Scope("app", "user", f"lost-{number}")) for number in range(2)
        ]
        places = [one.workspace for one in runners]
        runner, workspace = next(
            (one, place)
            for one, place in zip(runners, places, strict=True)
            if isinstance(place, RemoteWorkspace) and place.node != head
        )
        await runner.stage("greet", make_skill(tmp_path / "greet"))
        await runner.run(RunRequest("echo kept > $OUTPUT_DIR/kept", skill="greet"))
        await wait_until_saved(executor, nodes, workspace.id, "out/kept")
        before = workspace.node
        lost = next(one for one in nodes.cluster.worker_nodes if one.node_id == before)
        nodes.cluster.remove_node(lost, allow_graceful=False)
        async with asyncio.timeout(90):
            while True:
                try:
                    found = await runner.run(RunRequest("cat $OUTPUT_DIR/kept && python3 run.py", skill="greet"))
                    # Until its lease ends, an agent that Ray has given up may still be there.
                    if workspace.node != before and found.ended.ending is EndReason.EXITED:
                        break
                except ExecutorUnavailable:
                    await asyncio.sleep(0.1)
        assert found.ended.stdout.text() == "kept\nhello\n"
        assert any("was lost" in warning and "files of" in warning for warning in found.warnings)
        for one in runners:
            await one.close()
