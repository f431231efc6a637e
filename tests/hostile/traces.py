"""A host process that looks for what a session has left, after its workspace is removed.

`python -m tests.hostile.traces EXECUTOR DIRECTORY` prints one JSON object. `bare` removes nothing before it looks.
"""

import asyncio
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tests.hostile.opening import end_marked, gone, marked, opened, python, run, with_battery
from tests.hostile.probes.calls import call, libc
from tests.hostile.skill import write_battery

MODULE = "tests.hostile.probes.leaving"
_TABLES = {"memory segment": "shm", "message queue": "msg", "semaphores": "sem"}


def found(marker: str, number: int, places: list[Path]) -> dict[str, str]:
    """Each trace that is to be seen from outside."""
    seen: dict[str, str] = {}
    if left := marked(marker):
        seen["process"] = str(left)
    for name, path in {"temporary file": Path("/tmp", marker), "shared memory": Path("/dev/shm", marker)}.items():
        if path.exists():
            seen[name] = str(path)
    for name, table in _TABLES.items():
        if any(line.split()[0] == str(number) for line in _lines(Path("/proc/sysvipc", table))):
            seen[name] = str(number)
    with suppress(OSError):
        os.close(call("mq_open", marker.encode(), os.O_RDONLY, 0, None))
        seen["posix queue"] = marker
    for place in places:
        if place.exists():
            seen["workspace file"] = str(place)
        if any(str(place) in line for line in _lines(Path("/proc/self/mountinfo"))):
            seen["mount"] = str(place)
    return seen


def _lines(path: Path) -> Iterator[str]:
    return iter(path.read_text("utf-8").splitlines()) if path.exists() else iter(())


async def left_by(name: str, directory: Path) -> dict[str, object]:
    """What is there after the workspace was removed."""
    marker, number = f"trace-{secrets.token_hex(8)}", secrets.randbelow(2**31 - 2) + 1
    async with opened(name, directory) as chosen:
        workspace = await with_battery(chosen, "one", directory)
        ended = await run(workspace, *python(MODULE, marker, str(number)))
        place = directory / "state" / "workspaces" / workspace.id
        existed = place.exists()
        removed = await chosen.remove("one")
        await asyncio.to_thread(gone, marker, 2.0)
        # With the executor still there: the session alone has to take everything with it.
        seen = found(marker, number, [place])
        elsewhere = [str(path) for path in directory.rglob("*") if workspace.id in path.name or marker in path.name]
    _clean_up(marker, number)
    left = ended.stdout.text().strip()
    return {"left": left.split(","), "found": seen, "elsewhere": elsewhere, "existed": existed, "removed": removed}


def left_bare(directory: Path) -> dict[str, object]:
    """The same without anybody who removes anything."""
    skill = write_battery(directory)
    for name in ("out", "work"):
        (skill / name).mkdir()
    marker, number = f"trace-{secrets.token_hex(8)}", secrets.randbelow(2**31 - 2) + 1
    try:
        command = [sys.executable, "-m", MODULE, marker, str(number)]
        said = subprocess.run(command, cwd=skill, capture_output=True, check=True, timeout=60).stdout
        return {"left": said.decode().strip().split(","), "found": found(marker, number, [skill / "out" / marker])}
    finally:
        _clean_up(marker, number)


def _clean_up(marker: str, number: int) -> None:
    """Take away what is ours and was left."""
    end_marked(marker)
    for path in (Path("/tmp", marker), Path("/dev/shm", marker)):
        path.unlink(missing_ok=True)
    removals: tuple[Callable[[], int], ...] = (
        lambda: libc("shmctl", libc("shmget", number, 1, 0), 0, None),
        lambda: libc("msgctl", libc("msgget", number, 0), 0, None),
        lambda: libc("semctl", libc("semget", number, 1, 0), 0, 0),
    )
    for remove in removals:
        with suppress(OSError):
            remove()
    with suppress(OSError):
        call("mq_unlink", marker.encode())


def main(name: str, directory: str) -> None:
    """Run and report."""
    place = Path(directory)
    report = left_bare(place) if name == "bare" else asyncio.run(left_by(name, place))
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    os.umask(0o022)
    main(*sys.argv[1:])
