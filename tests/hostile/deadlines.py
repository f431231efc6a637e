"""A host process that runs commands which do everything to outlast their time limit, and says how long each took.

`python -m tests.hostile.deadlines EXECUTOR DIRECTORY [NAME]` prints one JSON object.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from openskills.executors.protocol import Workspace
from openskills.executors.spec import Limits
from tests.hostile.opening import opened, run, with_battery

TIMEOUT = 1.0
_DEAF = "import signal as s; [s.signal(n, s.SIG_IGN) for n in (s.SIGTERM, s.SIGINT, s.SIGHUP, s.SIGQUIT, s.SIGALRM)]; "
_FOREVER = "import time; time.sleep(300)"
_TREE = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        os.setsid()
time.sleep(300)
"""
_HANDS_OVER = """
import os, time
for _ in range(2):
    if os.fork():
        break
    os.setsid()
else:
    time.sleep(300)
"""

NOISY = "writes endlessly and ignores signals"
STUBBORN = {
    "waits": _FOREVER,
    "ignores all signals": _DEAF + _FOREVER,
    "stops itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP); " + _FOREVER,
    "ignores signals and stops itself": _DEAF + "import os; os.kill(os.getpid(), s.SIGSTOP); " + _FOREVER,
    "starts 64 processes in their own sessions": _TREE,
    "hands its pipes to a grandchild and waits": _HANDS_OVER + _FOREVER,
    NOISY: _DEAF + "import os\nwhile True: os.write(1, b'y' * 65536)",
}
"""What has to be ended; by what it does."""

HANDING_OVER = _HANDS_OVER
"""Ends at once, and leaves a grandchild that has its pipes open."""

HANDS_OVER = "hands over"
"""Its name in the report."""


async def _one(workspace: Workspace, code: str) -> dict[str, object]:
    began = time.monotonic()
    ended = await run(workspace, "python3", "-c", code, limits=Limits(timeout=TIMEOUT, grace=0.5))
    took = round((time.monotonic() - began) * 1000)
    return {"ending": ended.ending.value, "reported_ms": ended.duration_ms, "took_ms": took}


async def measure(name: str, directory: Path, only: str | None) -> dict[str, dict[str, object]]:
    """How each of them ended."""
    async with opened(name, directory) as chosen:
        workspace = await with_battery(chosen, "one", directory)
        await run(workspace, "true")
        if only is not None:
            return {only: await _one(workspace, HANDING_OVER if only == HANDS_OVER else STUBBORN[only])}
        # At once, but for the one that needs the processor.
        quiet = [what for what in STUBBORN if what != NOISY]
        found = dict(
            zip(quiet, await asyncio.gather(*(_one(workspace, STUBBORN[what]) for what in quiet)), strict=True)
        )
        found[NOISY] = await _one(workspace, STUBBORN[NOISY])
        found[HANDS_OVER] = await _one(workspace, HANDING_OVER)
        return found


def main(name: str, directory: str, only: str | None = None) -> None:
    """Run and report."""
    sys.stdout.write(json.dumps(asyncio.run(measure(name, Path(directory), only))))


if __name__ == "__main__":
    main(*sys.argv[1:])
