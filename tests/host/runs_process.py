"""Another worker of the host, with one run: python -m tests.host.runs_process FILE.

The run shows a number every few milliseconds until it is cancelled. The id of the run is printed.
"""

import asyncio
import sys
from itertools import count
from pathlib import Path

from openskills.host.database import Database
from openskills.host.model import InvokeResult, Listener, SkillOutputEvent
from openskills.host.runs import AsyncRunLimits, Runs
from tests.host.results import succeeded

LONGEST = 20_000


async def counting(listener: Listener) -> InvokeResult:
    """Shows numbers; ends by itself only when everybody seems to have forgotten it."""
    for number in count():
        listener(SkillOutputEvent("stdout", {"number": number}))
        await asyncio.sleep(0.005)
        if number > LONGEST:
            break
    return succeeded()


async def main(path: Path) -> None:
    """Begin, say so, and wait for the end."""
    store = Database(path, timeout=30)
    runs = Runs(store, AsyncRunLimits(poll_seconds=0.05, max_events=10 * LONGEST))
    run = await runs.start(counting, skill_id="echo", trace_id="t-9", principal="ci")
    print(run.id, flush=True)  # noqa: T201 - the parent waits for it
    while runs.live_count:
        await asyncio.sleep(0.01)
    await runs.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
