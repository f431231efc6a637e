"""Numbers of several processes, each in a file of its own in one directory."""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openskills.files import replace_file

_EVERY = 1.0


class SharedNumbers:
    """The files of all workers, and a thread that keeps ours up to date: `plain` gives what is in it.

    The directory belongs to one run of a host; who starts the workers makes an empty one.
    """

    def __init__(self, directory: Path, plain: Callable[[], dict[str, Any]]) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        # A number of a process may be used again while the numbers of the first still count.
        self._file = directory / f"worker-{os.getpid()}-{time.time_ns():x}.json"
        self._plain = plain
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="openskills-metrics", daemon=True)
        self._thread.start()

    def parts(self) -> list[dict[str, Any]]:
        """What everybody has, ours first."""
        others = (path for path in sorted(self._directory.glob("worker-*.json")) if path != self._file)
        return [self._plain(), *(part for path in others if (part := _read(path)) is not None)]

    def close(self) -> None:
        """Write a last time, and end the thread."""
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ended.wait(_EVERY):
            self._write()
        self._write()

    def _write(self) -> None:
        try:
            replace_file(self._file, json.dumps(self._plain()).encode())
        except OSError:
            # A full disk: others see older numbers of ours, and nobody is stopped from working.
            return


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
