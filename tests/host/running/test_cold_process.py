"""One call as a process that is started cold."""

import asyncio
import os
import resource
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.processes.keeping import Kept
from openskills.host.registration import HostLimits, Registration
from openskills.host.running.cold_process import STDERR_BYTES, run_cold
from openskills.host.running.fork_protocol import Ended
from openskills.host.running.local_place import LocalPlace
from openskills.sync import run


def ended(tmp_path: Path, text: str, stdin: bytes = b"", *, seconds: float = 20.0, most: int = 1000) -> Ended:
    """How a shell with this text ends."""
    skill = Registration("s", "cli:exec", "/bin/sh", "1", limits=HostLimits(output_bytes=most))

    async def work() -> Ended:
        place = LocalPlace(tmp_path)
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            return await run_cold(place, skill, ("/bin/sh", "-c", text), place.environment(skill), stdin, deadline)
        finally:
            await place.close()

    return run(work())


def test_both_streams_and_the_status_come_back(tmp_path: Path) -> None:
    found = ended(tmp_path, "cat; echo err >&2; exit 3", b"input")
    assert (found.returncode, found.stdout, found.stderr, found.cut) == (3, b"input", b"err\n", False)


def test_a_large_input_arrives_whole(tmp_path: Path) -> None:
    assert ended(tmp_path, "wc -c", b"x" * 3_000_000).stdout.strip() == b"3000000"


def test_a_signal_is_a_negative_status(tmp_path: Path) -> None:
    assert ended(tmp_path, "kill -9 $$").returncode == -9


def test_what_writes_too_much_is_stopped(tmp_path: Path) -> None:
    found = ended(tmp_path, "yes")
    assert found.cut
    assert len(found.stdout) == 1000
    assert found.stdout_bytes > 1000


def test_much_on_stderr_is_cut_and_nobody_is_stopped_for_it(tmp_path: Path) -> None:
    found = ended(tmp_path, f"head -c {STDERR_BYTES * 2} /dev/zero >&2; echo done")
    assert (found.stdout, len(found.stderr), found.returncode) == (b"done\n", STDERR_BYTES, 0)


def test_who_keeps_the_pipe_open_does_not_delay_the_end(tmp_path: Path) -> None:
    assert ended(tmp_path, "sleep 600 & echo done").stdout == b"done\n"


def test_the_deadline_is_kept(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        ended(tmp_path, "trap '' TERM; while :; do sleep 1; done", seconds=0.3)


def test_a_program_that_cannot_be_started_leaves_no_descriptor_open(tmp_path: Path) -> None:
    skill = Registration("s", "cli:exec", "/no/such", "1")

    async def work() -> tuple[int, int]:
        place = LocalPlace(tmp_path)
        found: list[int] = []
        for _ in range(3):
            with pytest.raises(InvalidArgument):
                await run_cold(place, skill, ("/no/such",), {}, b"", asyncio.get_running_loop().time() + 5)
            found.append(len(os.listdir("/proc/self/fd")))
        await place.close()
        return found[1], found[2]

    before, after = run(work())
    assert before == after


@contextmanager
def descriptors_left(count: int) -> Generator[None]:
    """In this block so many files can be opened, and no more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    fill: list[int] = []
    with open(os.devnull, "rb") as null:
        highest = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + count + 1, before[1]))
        try:
            while True:
                try:
                    fill.append(os.dup(null.fileno()))
                except OSError:
                    break
            for _ in range(count):
                os.close(fill.pop())
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            for descriptor in fill:
                os.close(descriptor)


@pytest.mark.parametrize("left", range(5))
def test_a_host_that_has_no_descriptors_left_does_not_lose_those_that_it_has(tmp_path: Path, left: int) -> None:
    skill = Registration("s", "cli:exec", "/bin/true", "1")

    async def work() -> tuple[int, int]:
        place = LocalPlace(tmp_path)
        deadline = asyncio.get_running_loop().time() + 20
        before = len(os.listdir("/proc/self/fd"))
        with descriptors_left(left), pytest.raises(OSError, match="Too many open files"):
            await run_cold(place, skill, ("/bin/true",), {}, b"input", deadline)
        after = len(os.listdir("/proc/self/fd"))
        await place.close()
        return before, after

    before, after = run(work())
    assert before == after


class Unreadable(LocalPlace):
    """A place in which our ends of the pipes become something that cannot be read."""

    async def start(
        self, registration: Registration, argv: Sequence[str], env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> Kept:
        pipes = [os.readlink(f"/proc/self/fd/{descriptor}") for descriptor in stdio[1:]]
        directory = os.open("/", os.O_RDONLY | os.O_CLOEXEC)
        for descriptor in set(map(int, os.listdir("/proc/self/fd"))) - {*stdio}:
            with suppress(FileNotFoundError):
                if os.readlink(f"/proc/self/fd/{descriptor}") in pipes:
                    os.dup2(directory, descriptor, inheritable=False)
        os.close(directory)
        return await super().start(registration, argv, env, stdio)


def test_pipes_that_cannot_be_read_have_ended(tmp_path: Path) -> None:
    skill = Registration("s", "cli:exec", "/bin/sh", "1")

    async def work() -> Ended:
        place = Unreadable(tmp_path)
        deadline = asyncio.get_running_loop().time() + 20
        try:
            return await run_cold(place, skill, ("/bin/sh", "-c", "exit 3"), {}, b"", deadline)
        finally:
            await place.close()

    found = run(work())
    assert (found.returncode, found.stdout, found.stderr) == (3, b"", b"")
