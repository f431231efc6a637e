"""What was acknowledged is there after kill -9, whole, whenever it came; and the store opens as if nothing had been."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import read_artifact
from tests.architecture.project import ROOT
from tests.artifacts.nursery import NAMES, SCOPE, TURNS_BEFORE_LAST, content_of
from tests.long_form import LONG

ROUNDS = 60 if LONG else 25
SEED = 20260102


class Nursery:
    """Writers to kill, and what was acknowledged to them."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.acknowledged: dict[tuple[str, int], tuple[int, int]] = {}
        """From name and version to round and turn, which say the content."""

    def begin(self, root: Path, number: int, last: int = 0) -> None:
        """Start a writer."""
        assert self.process.stdin
        self.process.stdin.write(f"{root} {number} {last}\n")
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

    def of_round(self, number: int) -> dict[tuple[str, int], tuple[int, int]]:
        """What was acknowledged in one round."""
        return {key: origin for key, origin in self.acknowledged.items() if origin[0] == number}


@contextmanager
def nursery() -> Generator[Nursery]:
    command = [sys.executable, "-m", "tests.artifacts.nursery"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Nursery(process)
        assert process.stdin
        process.stdin.close()
    assert process.returncode == 0


async def check(root: Path, acknowledged: dict[tuple[str, int], tuple[int, int]]) -> None:
    """Open the store as a new process would, and look at what was promised."""
    store = FileArtifactStore(root)
    for name in NAMES:
        versions = [artifact.version for artifact in await store.versions(SCOPE, name)]
        assert versions == list(range(len(versions))), name
    for key, origin in acknowledged.items():
        assert await read_artifact(store, SCOPE, *key) == content_of(*origin), key
    assert list((root / "arriving").iterdir()) == [], "orphans after a start"


async def check_that_it_goes_on(root: Path) -> None:
    """A sweep harms nothing, and the next put gets the next number."""
    store = FileArtifactStore(root)
    await store.sweep()
    for name in NAMES:
        expected = len(await store.versions(SCOPE, name))
        assert (await store.put(SCOPE, name, b"after all that")).version == expected


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
async def test_nothing_acknowledged_is_lost_by_kill_9_at_random_moments(tmp_path: Path) -> None:
    dice, root = random.Random(SEED), tmp_path / "store"
    with nursery() as children:
        for number in range(ROUNDS):
            children.begin(root, number)
            kill_after(children, number, dice.randrange(6), dice.random() * 0.01)
            await check(root, children.of_round(number))
    assert len(children.acknowledged) > ROUNDS
    await check_that_it_goes_on(root)
    await check(root, children.acknowledged)


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_by_kill_9_at_any_line_of_code(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    last = number = acknowledged = 0
    with nursery() as children:
        while acknowledged < TURNS_BEFORE_LAST:
            number, last = number + 1, last + dice.randrange(1, 54)
            root = tmp_path / f"store-{number}"
            children.begin(root, number, last)
            acknowledged = sum(words[0] == "ack" for words in children.lines(number))
            await check(root, children.of_round(number))
            await check_that_it_goes_on(root)
            await check(root, children.of_round(number))
    assert number > 30
