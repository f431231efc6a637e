"""The program that keeps the interpreter of a hosted skill. Calls: `tests/host/runners/test_python.py`.

The process that serves the calls of one slot. What its calls do: `tests/host/runners/test_python.py`.
"""

import asyncio
import os
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.zygote import WorkerResult
from tests.host.mothers import call, fork_servers


async def test_nothing_of_the_program_can_be_seen_from_a_script(tmp_path: Path) -> None:
    text = (
        "import sys; print(sorted(name for name in globals() if name[0] != '_'), sys.argv, 'exit' in dir(__builtins__))"
    )

    async with fork_servers(tmp_path, text) as begin:
        mother = await begin()
        said = (await call(mother.open_worker())).stdout
        await mother.close()
        assert said.decode() == f"['sys'] ['{tmp_path}/skill.py'] True\n"


async def test_when_the_host_hangs_up_the_interpreter_ends_with_its_zygotes(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, "import os; print(os.getppid())") as begin:
        mother = await begin()
        parents = [int((await call(mother.open_worker())).stdout) for _ in range(2)]
        await mother.close()
        async with asyncio.timeout(20):
            while any(os.path.exists(f"/proc/{pid}") for pid in parents):
                await asyncio.sleep(0.01)
        assert len(set(parents)) == 2


async def test_a_slot_that_has_ended_by_itself_can_be_ended_and_harms_no_other(tmp_path: Path) -> None:
    text = (
        "import os, signal\nif os.getenv('KILL'): os.kill(os.getppid(), 9); signal.pause()\nprint(os.getppid(), end='')"
    )

    async with fork_servers(tmp_path, text) as begin:
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
        assert found == (True, 0)


async def test_a_changed_script_is_not_executed(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, "print('old')") as begin:
        mother = await begin()
        slot = mother.open_worker()
        (tmp_path / "skill.py").write_text("print('new code')", "utf-8")
        ended = await call(slot)
        await mother.close()
        assert (ended.stale, ended.stdout) == (True, b"")


async def ends(tmp_path: Path, text: str, times: int = 1, **more: object) -> list[WorkerResult]:
    """How a few calls of a script in one slot end."""
    async with fork_servers(tmp_path, text, **more) as begin:
        mother = await begin()
        slot = mother.open_worker()
        found = [await call(slot) for _ in range(times)]
        await mother.close()
        return found


async def test_a_call_that_changes_its_pipe_does_not_change_it_for_the_next(tmp_path: Path) -> None:
    text = """
        import os
        print(os.get_blocking(1), os.get_blocking(2), end="")
        os.set_blocking(1, False)
        os.set_blocking(2, False)
    """
    assert [ended.stdout for ended in await ends(tmp_path, text, 3)] == [b"True True"] * 3


async def test_output_is_counted_beyond_what_is_kept(tmp_path: Path) -> None:
    (ended,) = await ends(tmp_path, "import sys; sys.stderr.write('x' * 5000); print('y' * 10)", stderr=1000)
    assert (len(ended.stderr), ended.stderr_bytes, ended.stdout_bytes, ended.cut) == (1000, 5000, 11, False)


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 262_144, 300_000, 2_000_000])
async def test_output_of_any_size_comes_whole(tmp_path: Path, size: int) -> None:
    (ended,) = await ends(tmp_path, f"print('x' * {size}, end='')", stdout=5_000_000)
    assert ended.stdout == b"x" * size


async def test_processor_time_and_memory_are_measured(tmp_path: Path) -> None:
    (ended,) = await ends(tmp_path, "x = bytearray(50_000_000); sum(range(2_000_000))")
    assert ended.cpu_ms > 5
    assert ended.memory_kib > 50_000


async def test_a_child_that_writes_to_stdout_after_the_end_is_not_heard_in_the_next_call(tmp_path: Path) -> None:
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
    for ended in await ends(tmp_path, text, 5):
        assert set(ended.stdout.split(b"late")) <= {b""}
        assert ended.clean
    assert [ended.stdout for ended in await ends(tmp_path, "pass", 2)] == [b"", b""]
