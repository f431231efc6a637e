"""The process of a call. What scripts see of it: `tests/host/running/test_python_runner.py`."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openskills.host.running.fork_mother import Mother
from openskills.host.running.fork_protocol import Ended
from tests.host.mothers import call, with_mothers

Begin = Callable[[], Awaitable[Mother]]


def test_a_call_that_comes_in_pieces_is_put_together(tmp_path: Path) -> None:
    async def work(begin: Begin) -> list[bytes]:
        mother = await begin()
        slot = mother.open()
        sizes = (0, 1, 65_536, 65_537, 1_000_000)
        found = [(await call(slot, b"x" * size, A="ä=1", EMPTY="")).stdout for size in sizes]
        await mother.close()
        return found

    text = "import os, sys; print(len(sys.stdin.read()), os.environ['A'], repr(os.environ['EMPTY']), end='')"
    expected = [f"{size} ä=1 ''".encode() for size in (0, 1, 65_536, 65_537, 1_000_000)]
    assert with_mothers(tmp_path, text, work) == expected


@pytest.mark.parametrize(("reuse", "processes"), [(0, 6), (1, 6), (3, 2), (100, 1)])
def test_a_process_serves_as_many_calls_as_it_may(tmp_path: Path, reuse: int, processes: int) -> None:
    async def work(begin: Begin) -> list[Ended]:
        mother = await begin()
        slot = mother.open()
        found = [await call(slot, str(number).encode()) for number in range(6)]
        await mother.close()
        return found

    text = "import os, sys; print(os.getpid(), sys.stdin.read())"
    found = [ended.stdout.split() for ended in with_mothers(tmp_path, text, work, reuse=reuse)]
    assert len({pid for pid, _ in found}) == processes
    assert [number for _, number in found] == [b"0", b"1", b"2", b"3", b"4", b"5"]
