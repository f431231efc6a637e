"""The process of a call. What scripts see of it: `tests/host/runners/test_python.py`.

The end of a call. That it is that of a cold start: `tests/host/runners/test_python.py`.
"""

from pathlib import Path

import pytest

from openskills.executors.zygote import WorkerResult
from tests.host.mothers import call, fork_servers


async def test_a_call_that_comes_in_pieces_is_put_together(tmp_path: Path) -> None:
    text = "import os, sys; print(len(sys.stdin.read()), os.environ['A'], repr(os.environ['EMPTY']), end='')"
    expected = [f"{size} ä=1 ''".encode() for size in (0, 1, 65_536, 65_537, 1_000_000)]
    async with fork_servers(tmp_path, text) as begin:
        mother = await begin()
        slot = mother.open_worker()
        sizes = (0, 1, 65_536, 65_537, 1_000_000)
        found = [(await call(slot, b"x" * size, A="ä=1", EMPTY="")).stdout for size in sizes]
        await mother.close()
        assert found == expected


@pytest.mark.parametrize(("reuse", "processes"), [(0, 6), (1, 6), (3, 2), (100, 1)])
async def test_a_process_serves_as_many_calls_as_it_may(tmp_path: Path, reuse: int, processes: int) -> None:
    text = "import os, sys; print(os.getpid(), sys.stdin.read())"
    async with fork_servers(tmp_path, text, reuse=reuse) as begin:
        mother = await begin()
        slot = mother.open_worker()
        found = [(await call(slot, str(number).encode())).stdout.split() for number in range(6)]
        await mother.close()
    assert len({pid for pid, _ in found}) == processes
    assert [number for _, number in found] == [b"0", b"1", b"2", b"3", b"4", b"5"]


async def ended(tmp_path: Path, text: str) -> WorkerResult:
    """How a script ends."""
    async with fork_servers(tmp_path, text) as begin:
        mother = await begin()
        found = await call(mother.open_worker())
        await mother.close()
        return found


async def test_modules_of_python_that_a_call_had_to_import_are_told(tmp_path: Path) -> None:
    assert "colorsys" in (await ended(tmp_path, "import colorsys")).imported
    assert (await ended(tmp_path, "import json")).imported == ()


async def test_a_file_that_nobody_closed_is_written(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    for text in (
        f"file = open({str(path)!r}, 'w'); file.write('all')",
        f"import sys\ndef main():\n    file = open({str(path)!r}, 'w'); file.write('all'); sys.exit(0)\nmain()",
        "import beside; beside.file.write('all')",
    ):
        (tmp_path / "beside.py").write_text(f"file = open({str(path)!r}, 'w')")
        path.unlink(missing_ok=True)
        assert (await ended(tmp_path, text)).returncode == 0
        assert path.read_text() == "all"
