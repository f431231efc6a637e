"""Kills a host process again and again at random moments, and looks at what is left.

`python -m tests.hostile.crashing EXECUTOR DIRECTORY ROUNDS SEED` prints one JSON object. This process adopts
whatever the killed ones leave behind, so nothing can hide from it.
"""

import asyncio
import ctypes
import hashlib
import json
import os
import random
import secrets
import select
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from openskills.artifacts.store import read_artifact
from tests.hostile.crash_host import SCOPE, speaker, store_in, work
from tests.hostile.opening import end_marked, marked

WITHIN = 2.0
LATEST = 0.7
TIMEOUT = 30.0
ENOUGH = 1_000_000
_PR_SET_CHILD_SUBREAPER = 36


class Crashes:
    """One series of rounds and what was seen in it."""

    def __init__(self, name: str, directory: Path, seed: int) -> None:
        self._name = name
        self._directory = directory
        self._random = random.Random(seed)
        self._marker = f"crash-{secrets.token_hex(8)}"
        self.kept: dict[str, tuple[int, str]] = {}
        self.orphans: list[str] = []
        self.ready = 0

    def round(self, number: int) -> None:
        """Begin a host, kill it at a random moment, and see what is left two seconds later."""
        pid, reading = self._begin(number, ENOUGH)
        if number % 2:
            # Every other time while it works; otherwise it may still be starting.
            select.select([reading], [], [], TIMEOUT)
        time.sleep(self._random.uniform(0.0, LATEST))
        os.kill(pid, signal.SIGKILL)
        self._after(number, reading)

    def clean_round(self, number: int) -> int:
        """A host that is not killed; its exit status."""
        pid, reading = self._begin(number, 2)
        _, status = os.waitpid(pid, 0)
        self._after(number, reading)
        return os.waitstatus_to_exitcode(status)

    async def lost(self) -> list[str]:
        """What was acknowledged and is not there, or not the same."""
        store = store_in(self._directory)
        found: list[str] = []
        for name, (version, digest) in self.kept.items():
            data = await read_artifact(store, SCOPE, name, version)
            if hashlib.sha256(data).hexdigest() != digest:
                found.append(name)
        return found

    def _begin(self, number: int, turns: int) -> tuple[int, int]:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            self._be_host(number, turns, writing)
        os.close(writing)
        return pid, reading

    def _be_host(self, number: int, turns: int, writing: int) -> None:
        status = 1
        try:
            asyncio.run(work(self._name, self._directory, self._marker, number, speaker(writing), turns=turns))
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)

    def _after(self, number: int, reading: int) -> None:
        deadline = time.monotonic() + WITHIN
        while (left := self._left()) and time.monotonic() < deadline:
            time.sleep(0.01)
        if left:
            self.orphans.append(f"round {number}: {left}")
            self._end(left)
        self._read(reading)

    def _left(self) -> dict[int, str]:
        """Children that run, and whatever else is marked."""
        _reap()
        return {**_children(), **marked(self._marker)}

    def _end(self, left: dict[int, str]) -> None:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        end_marked(self._marker)

    def _read(self, reading: int) -> None:
        os.set_blocking(reading, False)
        with open(reading, "rb") as file:
            for line in (file.read() or b"").decode("ascii").splitlines():
                self.ready += line == "ready"
                if line.startswith("kept "):
                    _, name, version, digest = line.split()
                    self.kept[name] = (int(version), digest)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _children() -> dict[int, str]:
    own = os.getpid()
    found: dict[int, str] = {}
    for pid in Path(f"/proc/{own}/task/{own}/children").read_text("ascii").split():
        with suppress(OSError):
            line = Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ")
            found[int(pid)] = line.decode("utf-8", "replace")[:200]
    return found


def main(name: str, directory: str, rounds: str, seed: str) -> None:
    """Run and report."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    series = Crashes(name, Path(directory), int(seed))
    for number in range(int(rounds)):
        series.round(number)
    status = series.clean_round(int(rounds))
    report = {
        "orphans": series.orphans,
        "kept": len(series.kept),
        "lost": asyncio.run(series.lost()),
        "ready": series.ready,
        "clean": status,
    }
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
