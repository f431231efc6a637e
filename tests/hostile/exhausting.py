"""A host process that runs commands which take more than they may, one after the other, and says how each ended.

`python -m tests.hostile.exhausting EXECUTOR DIRECTORY` prints one JSON object. `bare` lets them take it all.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from openskills.executors.spec import MIB, Limits
from tests.hostile.opening import opened, python, run, with_battery
from tests.hostile.probes.calls import libc
from tests.hostile.probes.hoarding import WAYS
from tests.hostile.promises import NOT_COUNTED
from tests.hostile.skill import write_battery

MODULE = "tests.hostile.probes.hoarding"
AMOUNT = 240 * MIB
LIMITS = Limits(
    timeout=20,
    memory_bytes=160 * MIB,
    total_memory_bytes=120 * MIB,
    processes=48,
    file_bytes=64 * MIB,
    open_files=128,
)
ENVIRONMENT = {"OPENSKILL_WORKSPACE_BYTES": str(128 * MIB), "OPENSKILL_WORKSPACE_FILES": "2000"}
_GOT = "got everything"


def held_by(name: str) -> list[str]:
    """What an executor promises to hold back; the rest is not tried, because it would be had."""
    return [what for what in WAYS if what not in NOT_COUNTED[name]]


async def take(name: str, directory: Path) -> dict[str, object]:
    """How each of them ended; `timed_out` means that nothing kept it from having it all."""
    found: dict[str, object] = {}
    async with opened(name, directory) as chosen:
        for what in held_by(name):
            workspace = await with_battery(chosen, what, directory)
            limits = replace(LIMITS, cpu_seconds=1) if what == "computing" else LIMITS
            ended = await run(workspace, *python(MODULE, what, str(AMOUNT)), limits=limits)
            found[what] = {
                "ending": ended.ending.value,
                "exit": ended.exit_code,
                "detail": ended.detail,
                "got": _GOT in ended.stdout.text(),
                "ms": ended.duration_ms,
                "said": ended.stderr.text()[-200:],
            }
            await chosen.remove(what)
    return found


def take_bare(directory: Path) -> dict[str, object]:
    """The same without limits; each is ended as soon as it has it all."""
    skill = write_battery(directory)
    (skill / "work").mkdir()
    found: dict[str, object] = {}
    for what in WAYS:
        argv = [sys.executable, "-m", MODULE, what, str(AMOUNT if what != "computing" else 8 * MIB)]
        with subprocess.Popen(argv, cwd=skill, stdout=subprocess.PIPE, process_group=0) as process:
            assert process.stdout
            found[what] = {"got": _GOT in process.stdout.readline().decode()}
            _remove_segments_of(process.pid)
            # Never with kill(1): some versions take `-1234`, a group, for `-1`, which is everybody.
            os.killpg(process.pid, signal.SIGKILL)
    return found


def _remove_segments_of(pid: int) -> None:
    """System V memory stays when its maker ends; this was made by a child of ours."""
    for line in Path("/proc/sysvipc/shm").read_text("ascii").splitlines()[1:]:
        if line.split()[4] == str(pid):
            libc("shmctl", int(line.split()[1]), 0, None)


def main(name: str, directory: str) -> None:
    """Run and report."""
    place = Path(directory)
    report = take_bare(place) if name == "bare" else asyncio.run(take(name, place))
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
