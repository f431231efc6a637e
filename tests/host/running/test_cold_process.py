"""One call as a process that is started cold."""

import asyncio
import os
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
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
