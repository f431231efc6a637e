"""The end of a host.

Temporary directories of hosts that live, that ended, and that were killed.
"""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

import pytest

from openskills.host.lifecycle import DIRECTORY_PREFIX, HostDirectory, drain, drain_on_signals, remove_orphaned_dirs
from openskills.host.model import InvokeResult
from openskills.host.service import Host
from tests.conftest import needs_root
from tests.host.host_process import host_process, is_alive
from tests.host.hosting import Function, Waiting, eventually
from tests.host.test_service import host_of, invoke


async def begun(host: Host, waiting: Waiting) -> "asyncio.Task[InvokeResult]":
    task = asyncio.create_task(invoke(host, "waiting"))
    while not waiting.began.is_set():
        await asyncio.sleep(0.001)
    return task


def hear(heard: list[str]) -> Callable[[int, FrameType | None], None]:
    """Who had the signals before: a server."""

    def handler(_: int, __: FrameType | None) -> None:
        heard.append("server")

    return handler


def functions(waiting: Waiting) -> Mapping[str, Function]:
    return {"waiting": waiting}


async def test_what_runs_may_finish() -> None:
    waiting = Waiting()

    host = host_of(functions(waiting))
    task = await begun(host, waiting)
    ending = asyncio.create_task(drain(host, 60.0))
    await asyncio.sleep(0.01)
    assert host.draining
    assert not ending.done()
    waiting.may_end.set()
    await ending

    assert (await task).status == 200


async def test_what_does_not_finish_is_interrupted() -> None:
    waiting = Waiting()

    host = host_of(functions(waiting))
    task = await begun(host, waiting)
    await drain(host, 0.01)

    assert (await task).status == 503
    assert waiting.cancelled.is_set()


async def test_invocations_are_served_until_load_balancers_had_time_to_notice() -> None:
    waiting = Waiting()
    waiting.may_end.set()
    host = host_of(functions(waiting))

    ending = asyncio.create_task(drain(host, 60.0, delay=3600.0))
    while not host.stopping:
        await asyncio.sleep(0)

    assert not host.draining
    assert (await (await begun(host, waiting))).status == 200
    # A second signal does not wait for the delay.
    host.interrupt()
    assert (await (await begun(host, waiting))).status == 503
    ending.cancel()


async def test_a_signal_drains_first_and_reaches_the_server_then() -> None:
    waiting = Waiting()
    heard: list[str] = []

    before = signal.signal(signal.SIGTERM, hear(heard))
    try:
        host = host_of(functions(waiting))
        with drain_on_signals(host, 60.0, lambda: heard.append("ended")):
            task = await begun(host, waiting)
            os.kill(os.getpid(), signal.SIGTERM)
            while not host.draining:
                await asyncio.sleep(0.001)
            assert heard == []
            waiting.may_end.set()
            await task
            while len(heard) < 2:
                await asyncio.sleep(0.001)
        assert heard == ["ended", "server"]
        # What was there before is there again.
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard[-1] == "server"
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_a_second_signal_interrupts() -> None:
    waiting = Waiting()
    heard: list[str] = []

    before = signal.signal(signal.SIGTERM, hear(heard))
    try:
        host = host_of(functions(waiting))
        with drain_on_signals(host, 60.0, lambda: None):
            task = await begun(host, waiting)
            os.kill(os.getpid(), signal.SIGTERM)
            while not host.draining:
                await asyncio.sleep(0.001)
            os.kill(os.getpid(), signal.SIGTERM)
            assert (await task).status == 503
        assert "server" in heard
    finally:
        signal.signal(signal.SIGTERM, before)


def test_in_another_thread_signals_stay_with_whom_they_belong_to() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[bool] = []

    async def go() -> None:
        with drain_on_signals(host_of({}), 1.0, lambda: None):
            seen.append(signal.getsignal(signal.SIGTERM) is before)

    thread = threading.Thread(target=lambda: asyncio.run(go()))
    thread.start()
    thread.join()
    assert seen == [True]


OWNER = """
import sys
from pathlib import Path
from openskills.host.lifecycle import HostDirectory
made = HostDirectory(Path(sys.argv[1]))
(made.path / "deep" / "er").mkdir(parents=True)
(made.path / "deep" / "file").write_text("x")
print(made.path, flush=True)
sys.stdin.read()
"""


def killed(parent: Path) -> Path:
    """The directory of a process that was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        made = Path(owner.stdout.readline().decode().strip())
        assert remove_orphaned_dirs(parent) == 0
        assert made.is_dir()
        owner.kill()
    return made


def test_it_is_for_this_user_alone_and_goes_with_everything_in_it(tmp_path: Path) -> None:
    made = HostDirectory(tmp_path)
    (made.path / "file").write_text("x")
    (whole,) = tmp_path.iterdir()
    assert whole.stat().st_mode & 0o777 == 0o700
    made.remove()
    assert list(tmp_path.iterdir()) == []


def test_that_of_a_killed_process_is_removed_and_of_a_living_one_is_not(tmp_path: Path) -> None:
    dead, living = killed(tmp_path), HostDirectory(tmp_path)
    assert remove_orphaned_dirs(tmp_path) == 1
    assert not dead.parent.exists()
    assert living.path.is_dir()
    living.remove()


def test_a_living_host_keeps_its_directory_when_a_skill_has_cleared_it(tmp_path: Path) -> None:
    living = HostDirectory(tmp_path)
    living.path.rmdir()
    assert remove_orphaned_dirs(tmp_path) == 0
    (whole,) = tmp_path.iterdir()
    assert (whole / "lease").exists()
    living.remove()


def test_what_nobody_has_signed_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / f"{DIRECTORY_PREFIX}old").mkdir()
    (tmp_path / f"{DIRECTORY_PREFIX}begun").mkdir()
    (tmp_path / f"{DIRECTORY_PREFIX}begun" / "lease").touch()
    (tmp_path / f"{DIRECTORY_PREFIX}file").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "lease").write_text("1")
    (tmp_path / f"{DIRECTORY_PREFIX}link").symlink_to(tmp_path / "other")
    before = sorted(tmp_path.rglob("*"))
    assert remove_orphaned_dirs(tmp_path) == 0
    assert sorted(tmp_path.rglob("*")) == before


@needs_root("only root can make something somebody else's")
@pytest.mark.parametrize("part", [".", "lease"])
def test_what_belongs_to_another_user_is_left_alone(tmp_path: Path, part: str) -> None:
    whole = killed(tmp_path).parent
    os.chown(whole / part, 65534, 65534)
    assert remove_orphaned_dirs(tmp_path) == 0
    assert whole.is_dir()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_host_that_starts_removes_the_homes_of_one_that_was_killed(tmp_path: Path, workers: str) -> None:
    temporary = tmp_path / "temporary"
    for directory in (temporary, tmp_path / "a", tmp_path / "b", tmp_path / "c"):
        directory.mkdir()
    with host_process(tmp_path / "a", "--workers", workers, TMPDIR=str(temporary)) as first:
        assert first.invoke("echo", {"text": "x"}).status_code == 200
        left = set(temporary.glob(f"{DIRECTORY_PREFIX}*"))
        assert left
        pid = first.process.pid
        started = list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
        first.process.kill()
        first.process.wait(60)
        # A worker process notices it a moment later, and may have created its directory only now.
        eventually(lambda: not any(map(is_alive, started)), 60)
        left |= set(temporary.glob(f"{DIRECTORY_PREFIX}*"))
    with host_process(tmp_path / "b", TMPDIR=str(temporary)) as second:
        assert second.invoke("echo", {"text": "x"}).status_code == 200
        eventually(lambda: not left & set(temporary.glob(f"{DIRECTORY_PREFIX}*")), 30)
        living = set(temporary.glob(f"{DIRECTORY_PREFIX}*"))
        assert living
        with host_process(tmp_path / "c", TMPDIR=str(temporary)) as third:
            assert third.invoke("echo", {"text": "x"}).status_code == 200
            assert living <= set(temporary.glob(f"{DIRECTORY_PREFIX}*"))
    assert set(temporary.glob(f"{DIRECTORY_PREFIX}*")) == set()
