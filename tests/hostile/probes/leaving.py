"""Leaves traces wherever it can, each with a marker: `python -m tests.hostile.probes.leaving MARKER NUMBER`.

NUMBER is the key of what is found by number. What is refused is not a trace.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.hostile.probes.calls import call, libc

_CREATE = 0o1000 | 0o666


def _background(marker: str) -> None:
    nothing = subprocess.DEVNULL
    subprocess.Popen(
        ["bash", "-c", 'exec -a "$0" sleep 300', marker], start_new_session=True, stdout=nothing, stderr=nothing
    )


def traces(marker: str, number: int) -> dict[str, Callable[[], object]]:
    """What is left, by where it is looked for."""
    return {
        "process": lambda: _background(marker),
        "temporary file": lambda: Path("/tmp", marker).write_text(marker, "ascii"),
        "shared memory": lambda: Path("/dev/shm", marker).write_text(marker, "ascii"),
        "memory segment": lambda: libc("shmget", number, 4096, _CREATE),
        "message queue": lambda: libc("msgget", number, _CREATE),
        "semaphores": lambda: libc("semget", number, 1, _CREATE),
        "posix queue": lambda: call("mq_open", marker.encode(), os.O_RDWR | os.O_CREAT, 0o666, None),
        "workspace file": lambda: Path("out", marker).write_text(marker, "ascii"),
        "closed directory": lambda: os.chmod(_made(f"work/{marker}"), 0),
        "deep directory": lambda: os.makedirs("work/" + "/".join(["deep"] * 200)),
    }


def _made(path: str) -> str:
    os.makedirs(f"{path}/inner", exist_ok=True)
    return path


def main(marker: str, number: str) -> None:
    """Leave them all."""
    left: list[str] = []
    for name, leave in traces(marker, int(number)).items():
        with suppress(OSError):
            leave()
            left.append(name)
    sys.stdout.write(",".join(left) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
