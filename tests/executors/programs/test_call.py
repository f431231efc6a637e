"""The process of a call. What scripts see of it: `tests/host/running/test_python_runner.py`.

The end of a call. That it is that of a cold start: `tests/host/running/test_python_runner.py`.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openskills.executors.zygote import ForkServer, WorkerResult
from tests.host.mothers import call, with_mothers

Begin = Callable[[], Awaitable[ForkServer]]


def test_a_call_that_comes_in_pieces_is_put_together(tmp_path: Path) -> None:
    async def work(begin: Begin) -> list[bytes]:
        mother = await begin()
        slot = mother.open_worker()
        sizes = (0, 1, 65_536, 65_537, 1_000_000)
        found = [(await call(slot, b"x" * size, A="ä=1", EMPTY="")).stdout for size in sizes]
        await mother.close()
        return found

    text = "import os, sys; print(len(sys.stdin.read()), os.environ['A'], repr(os.environ['EMPTY']), end='')"
    expected = [f"{size} ä=1 ''".encode() for size in (0, 1, 65_536, 65_537, 1_000_000)]
    assert with_mothers(tmp_path, text, work) == expected


@pytest.mark.parametrize(("reuse", "processes"), [(0, 6), (1, 6), (3, 2), (100, 1)])
def test_a_process_serves_as_many_calls_as_it_may(tmp_path: Path, reuse: int, processes: int) -> None:
    async def work(begin: Begin) -> list[WorkerResult]:
        mother = await begin()
        slot = mother.open_worker()
        found = [await call(slot, str(number).encode()) for number in range(6)]
        await mother.close()
        return found

    text = "import os, sys; print(os.getpid(), sys.stdin.read())"
    found = [ended.stdout.split() for ended in with_mothers(tmp_path, text, work, reuse=reuse)]
    assert len({pid for pid, _ in found}) == processes
    assert [number for _, number in found] == [b"0", b"1", b"2", b"3", b"4", b"5"]


def ended(tmp_path: Path, text: str) -> WorkerResult:
    """How a script ends."""

    async def work(begin: Begin) -> WorkerResult:
        mother = await begin()
        found = await call(mother.open_worker())
        await mother.close()
        return found

    return with_mothers(tmp_path, text, work)


def test_modules_of_python_that_a_call_had_to_import_are_told(tmp_path: Path) -> None:
    assert "colorsys" in ended(tmp_path, "import colorsys").imported
    assert ended(tmp_path, "import json").imported == ()


def test_a_file_that_nobody_closed_is_written(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    for text in (
        f"file = open({str(path)!r}, 'w'); file.write('all')",
        f"import sys\ndef main():\n    file = open({str(path)!r}, 'w'); file.write('all'); sys.exit(0)\nmain()",
        "import beside; beside.file.write('all')",
    ):
        (tmp_path / "beside.py").write_text(f"file = open({str(path)!r}, 'w')")
        path.unlink(missing_ok=True)
        assert ended(tmp_path, text).returncode == 0
        assert path.read_text() == "all"
