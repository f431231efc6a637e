"""A program that forks a fresh writer for every line it reads, so that a test can kill hundreds of real processes.

A line is `ROOT ROUND LAST`. The writer puts into the store at ROOT for ever, or dies by its own hand when it is about
to run the line of code with the number LAST (counted in the package `openskills.artifacts`; 0 means never). What it
says on stdout: `pid N`, `ack NAME VERSION TURN` for what was acknowledged, and at last `ended`.
"""

import os
import random
import signal
import sys
import threading
from collections.abc import AsyncGenerator
from itertools import count
from types import FrameType

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import Content, Scope
from openskills.sync import run

SCOPE = Scope("app", "user", "session")
NAMES = ("a", "dir/b", "user:c")
TURNS_BEFORE_LAST = 4


def content_of(number: int, turn: int) -> bytes:
    """The bytes that a writer puts; every fourth are the same in all rounds."""
    dice = random.Random(f"{number}/{turn}")
    return b"the same" if turn % 4 == 3 else dice.randbytes(dice.choice((0, 10, 5000, 150_000)))


async def in_pieces(data: bytes) -> AsyncGenerator[bytes]:
    """The same bytes, piece by piece."""
    for start in range(0, len(data), 40_000):
        yield data[start : start + 40_000]


async def write(root: str, number: int, turns: range | None) -> None:
    """Put, and say what was acknowledged; now and then delete a name that nobody asks for, and sweep."""
    store = FileArtifactStore(root)
    for turn in turns or count():
        data = content_of(number, turn)
        content: Content = in_pieces(data) if turn % 2 else data
        artifact = await store.put(SCOPE, NAMES[turn % len(NAMES)], content)
        say(f"ack {artifact.name} {artifact.version} {turn}")
        if turn % 3 == 2:
            await store.put(SCOPE, "passing", b"%d %d" % (number, turn))
            await store.delete(SCOPE, "passing")
            await store.sweep()


class Fate:
    """Kills this process when it is about to run a certain line of the package."""

    def __init__(self, last: int) -> None:
        self.left = last
        threading.settrace(self.see)
        sys.settrace(self.see)

    def see(self, frame: FrameType, _event: str, _argument: object) -> "Fate | None":
        """Follow the code of the package only."""
        return self if "/openskills/artifacts/" in frame.f_code.co_filename else None

    def __call__(self, _frame: FrameType, event: str, _argument: object) -> "Fate":
        """Count a line."""
        if event == "line":
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def say(text: str) -> None:
    """One line, in one call, so that nothing is between its parts."""
    os.write(1, f"{text}\n".encode())


def main() -> None:
    """Fork as long as there are lines."""
    for line in sys.stdin:
        root, number, last = line.split()
        child = os.fork()
        if not child:
            if int(last):
                Fate(int(last))
            run(write(root, int(number), range(TURNS_BEFORE_LAST) if int(last) else None))
            os._exit(0)
        say(f"pid {child}")
        os.waitpid(child, 0)
        say("ended")


if __name__ == "__main__":
    main()
