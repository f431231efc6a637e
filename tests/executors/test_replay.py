"""At most once, also across the death of the host."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from openskills.executors.replay import Replay
from openskills.executors.requests import RunRequest, RunResult, interrupted
from openskills.executors.spec import Ending, Isolation
from openskills.sync import run
from tests.executors.benches import workbench

HOST = """
import sys
from pathlib import Path
from openskills.executors.requests import RunRequest
from openskills.sync import run
from tests.executors.benches import workbench

async def host():
    async with workbench(Path(sys.argv[1])) as bench:
        await bench.run(RunRequest("echo ran >> out/count; sleep 300", skill="demo", request_id="long"))

run(host())
"""


def test_a_run_that_the_host_did_not_survive_is_interrupted_and_not_run_again(tmp_path: Path) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path)], cwd=Path(__file__).parents[2])
    counts = list[Path]()
    deadline = time.monotonic() + 60
    while not counts and time.monotonic() < deadline and host.poll() is None:
        counts = [path for path in tmp_path.glob("state/workspaces/*/tree/out/count") if path.stat().st_size]
        time.sleep(0.01)
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    assert counts

    async def afterwards() -> None:
        async with workbench(tmp_path) as bench:
            request = RunRequest("echo ran >> out/count; sleep 300", skill="demo", request_id="long")
            result = await bench.run(request)
            assert result.ended.ending is Ending.INTERRUPTED
            assert "not run again" in result.ended.detail

    run(afterwards())
    assert counts[0].read_text() == "ran\n"


def test_the_first_requests_of_a_session_may_come_together(tmp_path: Path) -> None:
    async def ended() -> RunResult:
        return interrupted(Isolation.NONE, "run", "told")

    async def session(number: int) -> None:
        replay = Replay(tmp_path / str(number), Isolation.NONE)
        requests = [RunRequest("true", request_id=f"request-{place}") for place in range(4)]
        results = await asyncio.gather(*(replay.once(request, ended) for request in requests))
        assert not any(result.replayed for result in results)
        replay.close()

    async def sessions() -> None:
        # Whether two threads open the journal at the same moment is chance; twenty times are enough for it.
        for number in range(20):
            await session(number)

    run(sessions())
