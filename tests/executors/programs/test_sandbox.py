"""What it does as process 1 of a sandbox is driven in `tests/executors/sandbox/test_kept.py`."""

import os
import subprocess
import sys

import pytest

from openskills.executors.programs.sandbox import serve_sandbox


def test_it_refuses_to_be_anything_but_the_first_process() -> None:
    with pytest.raises(SystemExit, match="its own pid namespace"):
        serve_sandbox()


def test_without_the_places_of_a_sandbox_nobody_can_tell_what_was_left() -> None:
    if os.path.exists("/home/u"):
        pytest.skip("this machine has a user of that name")
    code = "from openskills.executors.programs.sandbox import Traces\ntry: Traces(None)\nexcept OSError: print(None)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"None\n"
