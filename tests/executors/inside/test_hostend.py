"""The end of a call. That it is that of a cold start: `tests/host/running/test_python_runner.py`."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from openskills.host.running.fork_mother import Mother
from openskills.host.running.fork_protocol import Ended
from tests.host.mothers import call, with_mothers

Begin = Callable[[], Awaitable[Mother]]


def ended(tmp_path: Path, text: str) -> Ended:
    """How a script ends."""

    async def work(begin: Begin) -> Ended:
        mother = await begin()
        found = await call(mother.open())
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
