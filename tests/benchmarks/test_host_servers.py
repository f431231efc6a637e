import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.reasons import LONGEST
from tests.benchmarks.programs import ROOT

SERVE = """
import asyncio, sys
from pathlib import Path
import host_servers
from running_part import NotMeasured

async def main(place, *argv):
    try:
        async with host_servers.served(argv, Path(place), {}, "http://127.0.0.1:9/", within=3):
            print("it serves")
    except NotMeasured as reason:
        print(reason)

asyncio.run(main(*sys.argv[1:]))
"""


def served(tmp_path: Path, *argv: str) -> str:
    """What comes of starting a host by this command line."""
    command = [sys.executable, "-c", SERVE, str(tmp_path), *argv]
    done = subprocess.run(command, cwd=ROOT / "benchmarks", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_host_that_ends_before_it_serves_is_not_measured_and_the_reason_is_one_line_of_what_it_said(
    tmp_path: Path,
) -> None:
    program = "raise SystemExit('Loading\\n  much\\nValueError: no | such port ' + 'x' * 900)"
    reason = served(tmp_path, sys.executable, "-c", program)
    assert reason.startswith("it ended with 1 before it served: ValueError: no / such port xxx")
    assert reason.count("\n") == 1
    assert len(reason) <= LONGEST + 1


def test_a_host_whose_program_is_missing_is_not_measured(tmp_path: Path) -> None:
    reason = served(tmp_path, str(tmp_path / "absent"), "serve")
    assert reason.startswith("it cannot be started: ")
    assert "No such file" in reason


@pytest.mark.slow
def test_a_host_that_never_serves_is_given_up(tmp_path: Path) -> None:
    reason = served(tmp_path, sys.executable, "-c", "import time; print('thinking', flush=True); time.sleep(600)")
    assert reason == "it did not begin to serve within 3 seconds: thinking\n"
