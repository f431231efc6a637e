"""A library that hangs or dies while it is measured ends as a reason, and leaves nothing that runs."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.memory import identity
from tests.benchmarks.programs import ROOT

ASK = """
import asyncio, sys
from peer_process import Installed, peer_process
from running_part import NotMeasured

async def main(environment, script, patience):
    peer = Installed("a peer", environment, "library")
    try:
        async with peer_process(peer, script, variables={}, patience=float(patience)) as running:
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
PATIENT, HASTY = 60, 5


def asked(tmp_path: Path, program: str, *, patience: int = PATIENT, installed: bool = True) -> list[str]:
    """What comes of asking a library twice whose script is this program."""
    environment, script = tmp_path / "environment", tmp_path / "script.py"
    packages = environment / "lib" / "python" / "site-packages"
    (packages / "library" if installed else packages).mkdir(parents=True)
    (environment / "bin").mkdir()
    (environment / "bin" / "python").symlink_to(sys.executable)
    script.write_text(program, "utf-8")
    command = [sys.executable, "-c", ASK, str(environment), str(script), str(patience)]
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


def test_an_answer_that_is_cut_off_is_no_answer(tmp_path: Path) -> None:
    cut = READY + "import os\ninput()\nprint('{\"sec', end='', flush=True)\nos._exit(1)\n"
    first, _ = asked(tmp_path, cut)
    assert first == "asked: a peer: its answer cannot be read: it said nothing"


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
    first, second = asked(tmp_path, hangs, patience=HASTY)
    assert first == second == f"asked: a peer: it did not answer within {HASTY} seconds"
    pids = [int(pid) for pid in noted.read_text("utf-8").split()]
    deadline = time.monotonic() + 30
    while any(identity(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [identity(pid) for pid in pids] == [None, None]
