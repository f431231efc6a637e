import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.reasons import LONGEST
from tests.benchmarks.programs import ROOT, evaluated, measured, row_of
from tests.conftest import RequireProgram


@pytest.mark.slow
def test_our_host_is_compared_with_hosts_that_start_interpreters_and_with_bare_routes(
    require_program: RequireProgram,
) -> None:
    require_program("wrk")
    found = measured("host", "--only", "load")
    numbers = found["load"]["numbers"]
    assert {"FastAPI, bare route", "OpenSkill, cli:python"} <= set(numbers)
    # On a busy machine no interpreter may be up within the second of the smallest extent; then that is said.
    slow = "FastAPI, an interpreter per call"
    assert slow in numbers or any(f"{slow}: stopped serving" in reason for reason in found["load"]["missing"])
    assert all(one["rate"] > 0 and one["repeats"] == 1 for one in numbers.values())
    for one in numbers.values():
        low, high = one["spread"]["p99"]
        assert low <= one["p99"] <= high
    assert sum(one["failed"] for name, one in numbers.items() if name.startswith("OpenSkill")) == 0
    assert row_of(found, "`cli:python`: calls per second, relative to a host that starts an interpreter per call")


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
    assert reason == "did not start within 3 seconds: thinking\n"


PRESS = """
import asyncio, json, socket, sys
from pathlib import Path
from host_wrk import Address, NoAnswers, pressed

with socket.create_server(("127.0.0.1", 0)) as listener:
    port = listener.getsockname()[1]
try:
    asyncio.run(pressed(Address(f"http://127.0.0.1:{port}/", "{}", {}), Path(sys.argv[1]), connections=1, seconds=1))
except NoAnswers as error:
    print(json.dumps(str(error)))
"""


def test_a_host_that_is_gone_is_told_from_numbers(require_program: RequireProgram, tmp_path: Path) -> None:
    require_program("wrk")
    assert "unable to connect" in evaluated(PRESS, tmp_path)
