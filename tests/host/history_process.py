"""A process that records invocations until somebody kills it: python -m tests.host.history_process FILE NUMBER MODE."""

import asyncio
import resource
import sys
import time
from pathlib import Path

from openskills.host.history import History
from tests.host.results import record


async def endless(path: Path, number: str) -> None:
    """Records without end; each says which process it is of, and how many there were before."""
    history = History(path, max_pending=10_000_000, timeout=30)
    # Not quite without end: nobody may be there any more to kill it.
    for count in range(3_000_000):
        history.record(record()._replace(who=number, bytes_in=count))
        if count == 0:
            print("begun", flush=True)  # noqa: T201 - the parent waits for it
        if count % 20 == 0:
            await asyncio.sleep(0.001)


async def full(path: Path) -> None:
    """Records after the disk has become full, as far as this process can tell: no file may grow."""
    history = History(path, max_pending=1_000)
    history.record(record())
    await history.close()
    size = max(file.stat().st_size for file in path.parent.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    began = time.perf_counter()
    for _ in range(3_000):
        history.record(record()._replace(message="x" * 1_000))
    calls = time.perf_counter() - began
    await history.close()
    print(history.lost_count, len(await history.list(limit=10_000)), calls < 60)  # noqa: T201


if __name__ == "__main__":
    where, which, mode = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    asyncio.run(endless(where, which) if mode == "endless" else full(where))
