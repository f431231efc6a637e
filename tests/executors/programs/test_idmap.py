"""Directories of root that another user may write to. That skills do: `tests/host/running/test_sandboxed.py`."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from openskills.executors.programs import idmap
from tests.conftest import needs_root
from tests.executors.open_place import open_place

UID = 52399


@pytest.fixture
def everybodys() -> Generator[Path]:
    with open_place() as place:
        yield place


@needs_root("a mount is made")
def test_another_user_writes_to_a_directory_of_root_in_that_view_only(everybodys: Path) -> None:
    directory = everybodys / "data"
    directory.mkdir(mode=0o755)
    code = (
        f"import os; os.setgid({UID}); os.setuid({UID}); open({str(directory / 'new')!r}, 'w').write('x'); print('ok')"
    )
    program = [sys.executable, "-I", "-S", idmap.__file__, str(UID), json.dumps([str(directory)])]
    # A view of its own, as the program that starts it has.
    argv = ["unshare", "--mount", *program, sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout == "ok\n", done.stderr
    assert (directory / "new").stat().st_uid == 0
    outside = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert "PermissionError" in outside.stderr


def test_where_it_cannot_be_done_the_program_starts_all_the_same(tmp_path: Path) -> None:
    missing = json.dumps([str(tmp_path / "missing")])
    argv = [sys.executable, "-I", "-S", idmap.__file__, str(UID), missing, "/bin/echo", "started"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, "cannot make directories of root writable" in done.stderr) == ("started\n", True)
