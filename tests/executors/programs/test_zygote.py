"""The program that keeps the interpreter of a hosted skill. Calls: `tests/host/running/test_python_runner.py`.

The process that serves the calls of one slot. What its calls do: `tests/host/running/test_python_runner.py`.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.zygote import ForkServer, WorkerResult
from tests.host.mothers import call, with_mothers

Begin = Callable[[], Awaitable[ForkServer]]


def test_nothing_of_the_program_can_be_seen_from_a_script(tmp_path: Path) -> None:
    text = (
        "import sys; print(sorted(name for name in globals() if name[0] != '_'), sys.argv, 'exit' in dir(__builtins__))"
    )

    async def work(begin: Begin) -> bytes:
        mother = await begin()
        said = (await call(mother.open_worker())).stdout
        await mother.close()
        return said

    assert with_mothers(tmp_path, text, work).decode() == f"['sys'] ['{tmp_path}/skill.py'] True\n"


def test_when_the_host_hangs_up_the_interpreter_ends_with_its_zygotes(tmp_path: Path) -> None:
    async def work(begin: Begin) -> list[int]:
        mother = await begin()
        parents = [int((await call(mother.open_worker())).stdout) for _ in range(2)]
        await mother.close()
        async with asyncio.timeout(20):
            while any(os.path.exists(f"/proc/{pid}") for pid in parents):
                await asyncio.sleep(0.01)
        return parents

    assert len(set(with_mothers(tmp_path, "import os; print(os.getppid())", work))) == 2


def test_a_slot_that_has_ended_by_itself_can_be_ended_and_harms_no_other(tmp_path: Path) -> None:
    text = (
        "import os, signal\nif os.getenv('KILL'): os.kill(os.getppid(), 9); signal.pause()\nprint(os.getppid(), end='')"
    )

    async def work(begin: Begin) -> tuple[bool, int]:
        mother = await begin()
        first = mother.open_worker()
        zygote = int((await call(first)).stdout)
        with pytest.raises(ExecutorUnavailable):
            await call(first, KILL="1")
        async with asyncio.timeout(20):
            while os.path.exists(f"/proc/{zygote}"):
                await asyncio.sleep(0.01)
        # It answers one after the other: what it had to say of the first has come before this.
        second = mother.open_worker()
        await call(second)
        await mother.kill_worker(first)
        found = mother.is_usable, (await call(second)).returncode
        await mother.close()
        return found

    assert with_mothers(tmp_path, text, work) == (True, 0)


def test_a_changed_script_is_not_executed(tmp_path: Path) -> None:
    async def work(begin: Begin) -> tuple[bool, bytes]:
        mother = await begin()
        slot = mother.open_worker()
        (tmp_path / "skill.py").write_text("print('new code')", "utf-8")
        ended = await call(slot)
        await mother.close()
        return ended.stale, ended.stdout

    assert with_mothers(tmp_path, "print('old')", work) == (True, b"")


def ends(tmp_path: Path, text: str, times: int = 1, **more: object) -> list[WorkerResult]:
    """How a few calls of a script in one slot end."""

    async def work(begin: Begin) -> list[WorkerResult]:
        mother = await begin()
        slot = mother.open_worker()
        found = [await call(slot) for _ in range(times)]
        await mother.close()
        return found

    return with_mothers(tmp_path, text, work, **more)


def test_a_call_that_changes_its_pipe_does_not_change_it_for_the_next(tmp_path: Path) -> None:
    text = """
        import os
        print(os.get_blocking(1), os.get_blocking(2), end="")
        os.set_blocking(1, False)
        os.set_blocking(2, False)
    """
    assert [ended.stdout for ended in ends(tmp_path, text, 3)] == [b"True True"] * 3


def test_output_is_counted_beyond_what_is_kept(tmp_path: Path) -> None:
    (ended,) = ends(tmp_path, "import sys; sys.stderr.write('x' * 5000); print('y' * 10)", stderr=1000)
    assert (len(ended.stderr), ended.stderr_bytes, ended.stdout_bytes, ended.cut) == (1000, 5000, 11, False)


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 262_144, 300_000, 2_000_000])
def test_output_of_any_size_comes_whole(tmp_path: Path, size: int) -> None:
    (ended,) = ends(tmp_path, f"print('x' * {size}, end='')", stdout=5_000_000)
    assert ended.stdout == b"x" * size


def test_processor_time_and_memory_are_measured(tmp_path: Path) -> None:
    (ended,) = ends(tmp_path, "x = bytearray(50_000_000); sum(range(2_000_000))")
    assert ended.cpu_ms > 5
    assert ended.memory_kib > 50_000


def test_a_child_that_writes_to_stdout_after_the_end_is_not_heard_in_the_next_call(tmp_path: Path) -> None:
    text = """
        import os, time
        if os.fork() == 0:
            os.setsid()
            while True:
                os.write(1, b"late")
                time.sleep(.001)
        time.sleep(.01)
        os._exit(0)
    """
    for ended in ends(tmp_path, text, 5):
        assert set(ended.stdout.split(b"late")) <= {b""}
        assert ended.clean
    assert [ended.stdout for ended in ends(tmp_path, "pass", 2)] == [b"", b""]
