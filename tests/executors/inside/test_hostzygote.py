"""The process that serves the calls of one slot. What its calls do: `tests/host/running/test_python_runner.py`."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openskills.host.running.fork_mother import Mother
from openskills.host.running.fork_protocol import Ended
from tests.host.mothers import call, with_mothers

Begin = Callable[[], Awaitable[Mother]]


def ends(tmp_path: Path, text: str, times: int = 1, **more: object) -> list[Ended]:
    """How a few calls of a script in one slot end."""

    async def work(begin: Begin) -> list[Ended]:
        mother = await begin()
        slot = mother.open()
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
