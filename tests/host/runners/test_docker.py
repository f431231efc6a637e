"""The container of a call.

Images as skills, with a real engine.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.container.engine import ContainerEngine, ContainerOutputCallback, OneShotEngine
from openskills.host.model import HostLimits, ManifestFault, Registration, SkillOutputEvent
from openskills.host.runners.docker import DockerRunner, build_container_environment, build_container_request
from tests.container_engine import TestEngine
from tests.host.calls_made import called, open_runner, settings


def test_a_container_is_shut_in() -> None:
    limits = HostLimits(memory_bytes=100, processes=5)
    request = build_container_request(Registration("s", "docker", "image:1", "1", limits=limits), {"A": "1"}, "mark")
    host = request["HostConfig"]
    assert request["User"] == "65534:65534"
    assert request["NetworkDisabled"] is True
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"]) == ("none", True, ["ALL"])
    assert (host["Memory"], host["PidsLimit"], host["Mounts"]) == (100, 5, [])
    assert request["Env"] == ["A=1"]


def test_the_root_is_mounted_read_only_unless_it_is_writable() -> None:
    for writable in (False, True):
        skill = Registration("s", "docker", "i", "1", allowed_root=Path("/d"), writable=writable)
        (mount,) = build_container_request(skill, {}, "")["HostConfig"]["Mounts"]
        assert (mount["Source"], mount["Target"], mount["ReadOnly"]) == ("/d", "/data", not writable)


@pytest.mark.parametrize(
    "user",
    [
        "root",
        "0",
        "0:5",
        0,
        "00",
        "+0",
        "",
        " 0",
        "-0",
        "1000:0",
        "toor",
        "1e3",
        "0x0",
        "4294967296",
        "1:4294967296",
        None,
        True,
    ],
)
def test_root_is_refused(user: object) -> None:
    with pytest.raises(ManifestFault, match="root"):
        build_container_request(Registration("s", "docker", "i", "1", options={"user": user}), {}, "")


def test_variables_are_those_of_every_skill_with_the_paths_of_the_container() -> None:
    env = build_container_environment(Registration("s", "docker", "i", "1", allowed_root=Path("/d")), {"X": "1"})
    assert (env["OPENSKILL_ALLOWED_ROOT"], env["X"], "PATH" in env) == ("/data", "1", False)


ECHO = """
import json, os, sys
request = json.load(sys.stdin)
print(json.dumps({"success": True, "data": {"echoed": request["input"]["text"], "user": os.getuid()}}))
"""


def image_skill(engine: TestEngine, code: str, **more: Any) -> Registration:
    """A skill that is the image of the test engine with some Python."""
    options = {"args": ["python3", "-c", code], **more.pop("options", {})}
    return Registration("skill", "docker", engine.image, "1", options=options, **more)


def left(engine: TestEngine) -> list[str]:
    """The containers of skills that are still there."""
    connection = ContainerEngine(engine.address)
    try:
        return [container for container, _ in connection.list_by_label("openskills.skill")]
    finally:
        connection.close()


async def test_a_container_answers_as_somebody_who_is_not_root(tmp_path: Path, container_engine: TestEngine) -> None:
    skill = image_skill(container_engine, ECHO)
    async with open_runner(tmp_path, skill, DOCKER_HOST=container_engine.address) as runner:
        outcome = await runner.invoke(skill, called({"text": "hello"}))
    assert outcome.data == {"echoed": "hello", "user": 65534}
    assert outcome.notes["isolation"] == "container"
    assert left(container_engine) == []


async def test_a_container_has_no_network_and_a_root_that_cannot_be_written_to(
    tmp_path: Path, container_engine: TestEngine
) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    (tmp_path / "data" / "a.txt").write_text("something")
    code = """
import json, os
def attempt(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return error.strerror
    return "written"
print(json.dumps({"net": sorted(os.listdir("/sys/class/net")), "root": attempt("/new"), "tmp": attempt("/tmp/new"),
                  "data": [open(os.environ["OPENSKILL_ALLOWED_ROOT"] + "/a.txt").read(), attempt("/data/new")]}))
"""
    skill = image_skill(container_engine, code, allowed_root=tmp_path / "data")
    async with open_runner(tmp_path, skill, DOCKER_HOST=container_engine.address) as runner:
        outcome = await runner.invoke(skill, called())
    assert outcome.data == {
        "net": ["lo"],
        "root": "Read-only file system",
        "tmp": "written",
        "data": ["something", "Read-only file system"],
    }


async def test_at_the_deadline_the_container_is_removed(tmp_path: Path, container_engine: TestEngine) -> None:
    skill = image_skill(container_engine, "import time; print('half', flush=True); time.sleep(600)")

    async with open_runner(tmp_path, skill, DOCKER_HOST=container_engine.address) as runner:
        await runner.prepare(skill)
        failure = (await runner.invoke(skill, called(seconds=5))).failure
        assert failure is not None
        assert (failure.code, failure.details["stdout"]) == (504, "half")
    assert left(container_engine) == []


async def test_a_cancelled_call_removes_its_container(tmp_path: Path, container_engine: TestEngine) -> None:
    skill = image_skill(container_engine, "import time; print('on', flush=True); time.sleep(600)")

    async with open_runner(tmp_path, skill, DOCKER_HOST=container_engine.address) as runner:
        began = asyncio.Event()
        task = asyncio.ensure_future(runner.invoke(skill, called(listener=lambda _: began.set())))
        await asyncio.wait_for(began.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert left(container_engine) == []


async def test_an_endless_answer_is_cut(tmp_path: Path, container_engine: TestEngine) -> None:
    skill = image_skill(container_engine, "while True: print('x' * 1000)", limits=HostLimits(output_bytes=50_000))
    async with open_runner(tmp_path, skill, DOCKER_HOST=container_engine.address) as runner:
        outcome = await runner.invoke(skill, called())
    assert outcome.failure is not None
    assert outcome.failure.details["limit_bytes"] == 50_000


async def test_lines_are_told_while_a_container_works_and_its_exit_status_counts(
    tmp_path: Path, container_engine: TestEngine
) -> None:
    code = 'import sys; print(\'{"event": "progress", "n": 1}\', file=sys.stderr); sys.exit(3)'
    skill = image_skill(container_engine, code)
    told: list[SkillOutputEvent] = []
    async with open_runner(tmp_path, skill, DOCKER_HOST=container_engine.address) as runner:
        outcome = await runner.invoke(skill, called(listener=told.append))
    assert told == [SkillOutputEvent("progress", {"n": 1})]
    assert outcome.failure is not None
    assert outcome.failure.details["exit_code"] == 3


async def test_an_image_that_is_not_there_cannot_be_prepared(tmp_path: Path, container_engine: TestEngine) -> None:
    skill = Registration("skill", "docker", "no-such-image:1", "1")
    async with open_runner(tmp_path, skill, DOCKER_HOST=container_engine.address) as runner:
        with pytest.raises(ExecutorUnavailable, match="docker pull no-such-image:1"):
            await runner.prepare(skill)


class Hanging(OneShotEngine):
    """An engine whose containers end when they are removed, and not before."""

    def __init__(self, address: str | None) -> None:
        self.address = address or ""
        self.removed: dict[str, threading.Event] = {}

    def check(self) -> None:
        """It can do everything."""

    def list_by_label(self, label: str) -> Sequence[tuple[str, Mapping[str, str]]]:  # noqa: ARG002
        return ()

    def run(
        self, request: Mapping[str, Any], stdin: bytes, hear: ContainerOutputCallback, began: Callable[[str], None]
    ) -> int:
        del request, stdin, hear
        container = str(threading.get_ident())
        self.removed[container] = threading.Event()
        began(container)
        self.removed[container].wait(60)
        return -1

    def remove(self, container: str) -> None:
        self.removed[container].set()

    def close(self) -> None:
        """Nothing was opened."""


@pytest.mark.parametrize("calls", [2, 5])
async def test_as_many_containers_that_hang_as_there_are_threads_are_ended_at_their_deadline(
    tmp_path: Path, calls: int
) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    runner = DockerRunner(settings(tmp_path, OPENSKILL_HOST_CONCURRENCY="2"), Hanging)
    skill = Registration("skill", "docker", "image", "1")
    async with asyncio.timeout(30):
        outcomes = await asyncio.gather(*(runner.invoke(skill, called(seconds=0.2)) for _ in range(calls)))
    await runner.close()

    assert [outcome.failure.code for outcome in outcomes if outcome.failure is not None] == [504] * calls


async def test_an_engine_that_does_not_answer_is_reported(tmp_path: Path) -> None:
    skill = Registration("skill", "docker", "image", "1")
    async with open_runner(tmp_path, skill, DOCKER_HOST=f"unix://{tmp_path}/none.sock") as runner:
        with pytest.raises(ExecutorUnavailable, match="does not respond"):
            await runner.prepare(skill)
