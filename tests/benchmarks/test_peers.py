import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.memory import identity
from tests.benchmarks.programs import ROOT, evaluated

FOUND = """
import json, sys
from pathlib import Path
from peers import peer_versions, why_missing

bench = Path(sys.argv[1]) / ".bench"
print(json.dumps({"versions": peer_versions(bench, Path(sys.argv[1])), "why": why_missing("running", bench)}))
"""


def install(top: Path, environment: str, name: str, version: str) -> None:
    """What pip leaves of a library by which it is known."""
    folder = top / ".bench" / environment / "lib" / "python3.11" / "site-packages" / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")


def test_versions_are_those_that_are_installed_and_not_those_that_are_pinned(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("deepagents==1.0\nskills-ref==0.1\n")
    (tmp_path / "pydantic_requirements.txt").write_text("pydantic-ai-slim[openai]==2.0\n")
    install(tmp_path, "venv", "deepagents", "1.1")
    install(tmp_path, "pydantic", "pydantic_ai_slim", "2.2")
    found = evaluated(FOUND, tmp_path)["versions"]
    assert (found["deepagents"], found["pydantic-ai-slim"]) == ("1.1", "2.2")
    assert found["skills-ref"] == "not installed: `make peers` installs it where it can"


def test_the_reason_of_a_failed_installation_is_one_short_line(tmp_path: Path) -> None:
    (tmp_path / ".bench").mkdir()
    (tmp_path / ".bench" / "running.reason").write_text("ERROR: no\nmatching " + "x" * 500)
    why = evaluated(FOUND, tmp_path)["why"]
    assert why.startswith("its installation failed: ERROR: no matching xxx")
    assert len(why) < 250
    assert "\n" not in why


@pytest.mark.slow
def test_what_pip_said_last_is_kept_beside_the_environment_without_paths_and_addresses(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(ROOT / "scripts" / "setup.py", tmp_path / "scripts")
    missing = "not-to-be-had @ file:///nowhere/at/all.whl"
    (tmp_path / "benchmarks" / "running_requirements.txt").write_text(f"{missing}\n")
    argv = [sys.executable, "-I", str(tmp_path / "scripts" / "setup.py"), "running-peers"]
    done = subprocess.run(argv, env={**os.environ, "PIP_NO_INDEX": "1"}, capture_output=True, text=True)
    assert done.returncode != 0
    reason = (tmp_path / ".bench" / "running.reason").read_text()
    assert reason.startswith("ERROR: ")
    assert "/nowhere" not in reason
    assert "its installation failed: ERROR: " in evaluated(FOUND, tmp_path)["why"]


ASK = """
import asyncio, sys
from peer_process import Installed, peer_process
from running_part import NotMeasured

async def main(environment, script, timeout):
    peer = Installed("a peer", environment, "library")
    try:
        async with peer_process(peer, script, variables={}, timeout=float(timeout)) as running:
            for number in (1, 2):
                try:
                    print("answer", await running.ask({"number": number}))
                except NotMeasured as reason:
                    print("asked:", reason)
    except NotMeasured as reason:
        print("begun:", reason)

asyncio.run(main(*sys.argv[1:]))
"""
READY = 'print("{}", flush=True)\n'
LONG_TIMEOUT, SHORT_TIMEOUT = 60, 5


def asked(tmp_path: Path, program: str, *, timeout: int = LONG_TIMEOUT, installed: bool = True) -> list[str]:
    """What comes of asking a library twice whose script is this program."""
    environment, script = tmp_path / "environment", tmp_path / "script.py"
    packages = environment / "lib" / "python" / "site-packages"
    (packages / "library" if installed else packages).mkdir(parents=True)
    (environment / "bin").mkdir()
    (environment / "bin" / "python").symlink_to(sys.executable)
    script.write_text(program, "utf-8")
    command = [sys.executable, "-c", ASK, str(environment), str(script), str(timeout)]
    done = subprocess.run(command, cwd=ROOT / "benchmarks", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_one_that_answers_is_believed(tmp_path: Path) -> None:
    echo = READY + "import sys\nfor line in sys.stdin: print(line, end='', flush=True)\n"
    assert asked(tmp_path, echo) == ["answer {'number': 1}", "answer {'number': 2}"]


def test_one_that_is_not_installed_is_not_started(tmp_path: Path) -> None:
    (line,) = asked(tmp_path, READY, installed=False)
    assert line == "begun: a peer: it is not installed; `make peers` installs it where it can"


def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    (line,) = asked(tmp_path, "raise ImportError('no library')")
    assert line == "begun: a peer: it failed with ImportError: no library"


def test_one_that_dies_in_the_middle_is_not_measured_with_the_last_line_that_it_said(tmp_path: Path) -> None:
    dies = READY + "input()\nraise RuntimeError('the disk is full')\n"
    why = "asked: a peer: it failed with RuntimeError: the disk is full"
    assert asked(tmp_path, dies) == [why, why]


def test_one_that_is_gone_before_it_is_asked_is_not_measured_either(tmp_path: Path) -> None:
    first, _ = asked(tmp_path, READY + "import os, sys\nsys.stderr.write('enough')\nos.close(0)\n")
    assert first == "asked: a peer: it failed with enough"


def test_an_answer_that_is_cut_off_is_not_accepted(tmp_path: Path) -> None:
    cut = READY + "import os\ninput()\nprint('{\"sec', end='', flush=True)\nos._exit(1)\n"
    first, _ = asked(tmp_path, cut)
    assert first == "asked: a peer: its answer cannot be read: no output"


@pytest.mark.slow
def test_one_that_hangs_is_given_up_with_everything_in_its_group(tmp_path: Path) -> None:
    noted = tmp_path / "pids"
    hangs = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(noted)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
print("{{}}", flush=True)
time.sleep(600)
"""
    first, second = asked(tmp_path, hangs, timeout=SHORT_TIMEOUT)
    assert first == second == f"asked: a peer: it did not answer within {SHORT_TIMEOUT} seconds"
    pids = [int(pid) for pid in noted.read_text("utf-8").split()]
    deadline = time.monotonic() + 30
    while any(identity(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [identity(pid) for pid in pids] == [None, None]


TURNS = """
import asyncio, itertools, json
from peer_turns import in_turns_or_why
from running_part import NotMeasured

calls = itertools.count(1)

async def lasting():
    return 1.0

async def dying():
    if next(calls) == 3:
        raise NotMeasured("a peer: it failed with a crash")
    return 2.0

missing = {"another": "it is not installed"}
found = asyncio.run(in_turns_or_why({"lasting": lasting, "dying": dying}, 4, missing))
print(json.dumps([{name: one.seconds for name, one in found.items()}, missing, next(calls)]))
"""


def test_a_way_that_fails_in_the_middle_is_left_out_with_its_reason_and_the_others_go_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TURNS], cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True
    )
    found, missing, calls = json.loads(done.stdout)
    assert found == {"lasting": [1.0] * 4}
    assert missing == {"another": "it is not installed", "dying": "a peer: it failed with a crash"}
    # Nobody asks it again: the next number is the one after the call that failed.
    assert calls == 4
