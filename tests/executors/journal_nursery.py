"""A program that forks a fresh host process for every line it reads, so that a test can kill hundreds of real ones.

A line is `DIRECTORY FIRST LAST`. The host asks its journal about one request after the other from FIRST on, runs those
that are new (which leaves a line in `effects`), and says `ack NUMBER` once the end is durable. It goes on for ever, or
kills itself when it is about to run the line of code with the number LAST (counted in `openskills.executors`).
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path
from types import FrameType

from openskills.executors.records.journal import Journal, RequestState

REQUESTS_BEFORE_LAST = 6
KEEP = 40
"""So few that old ones are forgotten again and again."""


def record_of(number: int) -> dict[str, object]:
    """How a request ends: some are short, some long."""
    return {"exit_code": number, "stdout": "ü\n" * (number % 7 * 300)}


def serve(directory: Path, first: int, requests: range | None) -> None:
    """Be a host."""
    journal = Journal(directory / "journal", keep=KEEP)
    effects = os.open(directory / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for number in requests or count(first):
        answer = journal.begin(f"r:{number}", f"run {number}")
        if answer is None:
            os.write(effects, b"%d\n" % number)
            journal.finish(f"r:{number}", record_of(number), durable=True)
        if answer is None or answer.state is RequestState.FINISHED:
            say(f"ack {number}")
        else:
            say(f"interrupted {number}")


class Fate:
    """Kills this process when it is about to run a certain line of the package."""

    def __init__(self, last: int) -> None:
        self.left = last
        sys.settrace(self.see)

    def see(self, frame: FrameType, _event: str, _argument: object) -> "Fate | None":
        """Follow the code of the package only."""
        return self if "/openskills/" in frame.f_code.co_filename else None

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
        directory, first, last = line.split()
        child = os.fork()
        if not child:
            if int(last):
                Fate(int(last))
            serve(Path(directory), int(first), range(REQUESTS_BEFORE_LAST) if int(last) else None)
            os._exit(0)
        say(f"pid {child}")
        os.waitpid(child, 0)
        say("ended")


if __name__ == "__main__":
    main()
