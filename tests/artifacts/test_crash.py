"""What was acknowledged is there after kill -9, whole, whenever it came; and the store opens as if nothing had been."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import read
from openskills.sync import run
from tests.architecture.project import ROOT
from tests.artifacts.nursery import NAMES, SCOPE, content_of

ROUNDS = 60
SEED = 20260102


class Nursery:
    """Writers to kill, and what was acknowledged to them."""

    def __init__(self, process: "subprocess.Popen[str]", root: Path) -> None:
        self.process = process
        self.root = root
        self.acknowledged: dict[tuple[str, int], tuple[int, int]] = {}
        """From name and version to round and turn, which say the content."""

    def begin(self, number: int, last: int = 0) -> None:
        """Start a writer."""
        assert self.process.stdin
        self.process.stdin.write(f"{self.root} {number} {last}\n")
        self.process.stdin.flush()

    def lines(self, number: int) -> Iterator[list[str]]:
        """What is said until the writer has ended; acknowledgements are remembered."""
        assert self.process.stdout
        for line in self.process.stdout:
            words = line.split()
            if words == ["ended"]:
                return
            if words[0] == "ack":
                self.acknowledged[words[1], int(words[2])] = (number, int(words[3]))
            yield words
        raise AssertionError(f"the nursery died: {self.process.wait()}")

    def check(self, number: int) -> None:
        """Open the store as a new process would, and look at what the writer of this round was promised."""
        store = FileArtifactStore(self.root)
        for name in NAMES:
            versions = [artifact.version for artifact in run(store.versions(SCOPE, name))]
            assert versions == list(range(len(versions))), f"round {number}: versions of {name}"
        for key, origin in self.acknowledged.items():
            if origin[0] == number:
                assert run(read(store, SCOPE, *key)) == content_of(*origin), f"round {number}: {key}"
        assert list((self.root / "arriving").iterdir()) == [], f"round {number}: orphans after a start"


@contextmanager
def nursery(root: Path) -> Iterator[Nursery]:
    command = [sys.executable, "-m", "tests.artifacts.nursery"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Nursery(process, root)
        assert process.stdin
        process.stdin.close()
    assert process.returncode == 0


def check_all(children: Nursery) -> None:
    """Everything that was ever acknowledged, at the very end, and what a last put gets."""
    store = FileArtifactStore(children.root)
    run(store.sweep())
    for (name, version), origin in children.acknowledged.items():
        assert run(read(store, SCOPE, name, version)) == content_of(*origin)
    for name in NAMES:
        count = len(run(store.versions(SCOPE, name)))
        assert run(store.put(SCOPE, name, b"after all that")).version == count


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_by_kill_9_at_random_moments(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    with nursery(tmp_path / "store") as children:
        for number in range(ROUNDS):
            children.begin(number)
            wanted, pause = dice.randrange(6), dice.random() * 0.01
            kill_after(children, number, wanted, pause)
            children.check(number)
    assert len(children.acknowledged) > ROUNDS
    check_all(children)


def kill_after(children: Nursery, number: int, wanted: int, pause: float) -> None:
    """Kill the writer some moments after it has got some acknowledgements."""
    child, seen = 0, 0
    for words in children.lines(number):
        child = int(words[1]) if words[0] == "pid" else child
        seen += words[0] == "ack"
        if child and seen >= wanted:
            # Any moment of the next put will do.
            time.sleep(pause)
            os.kill(child, signal.SIGKILL)
            wanted = sys.maxsize


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_by_kill_9_at_any_line_of_code(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    with nursery(tmp_path / "store") as children:
        last = number = 0
        finished = False
        while not finished:
            number, last = number + 1, last + dice.randrange(1, 12)
            children.begin(number, last)
            acknowledged = sum(words[0] == "ack" for words in children.lines(number))
            children.check(number)
            finished = acknowledged == 4
    assert number > 50
    check_all(children)
