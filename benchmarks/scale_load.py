"""Clients that call without a pause, in a process of their own: `wrk` where it is installed, httpx2 otherwise.

`scale_load.py URL CLIENTS SECONDS` is the latter; it prints one JSON object.
"""

import asyncio
import json
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx2

BODY = '{"input": {"text": "hello"}}'
_LUA = """
wrk.method = "POST"
wrk.body = '%s'
wrk.headers["Content-Type"] = "application/json"
done = function(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('{"calls": %%d, "seconds": %%f, "failed": %%d, "median": %%f, "p99": %%f}',
    summary.requests, summary.duration / 1e6, failed, latency:percentile(50) / 1e6, latency:percentile(99) / 1e6))
end
"""


@dataclass(frozen=True)
class Load:
    """What clients got: how many calls in how many seconds, and how long one took, in seconds."""

    calls: int
    seconds: float
    failed: int
    median: float
    p99: float

    @property
    def each(self) -> float:
        """Seconds for each call: less than one took when several were under way."""
        return self.seconds / max(self.calls, 1)


def tool() -> str:
    """What the clients are made with."""
    return "wrk" if shutil.which("wrk") else "httpx2"


async def loaded(url: str, clients: int, seconds: float, scratch: Path) -> Load:
    """Let so many clients call for so long, and wait for the last answers."""
    program = shutil.which("wrk")
    if program is None:
        command = [sys.executable, __file__, url, str(clients), str(seconds)]
    else:
        script = scratch / "post.lua"
        script.write_text(_LUA % BODY, "ascii")
        duration = f"-d{max(1, round(seconds))}s"
        command = [program, "-t1", f"-c{clients}", duration, "--timeout", "30s", "-s", str(script), url]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    lines = [line for line in output.decode().splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        raise RuntimeError(f"{command[0]} failed: {output.decode()[-500:]}")
    return Load(**json.loads(lines[-1]))


async def _calling(client: httpx2.AsyncClient, url: str, until: float, times: list[float]) -> int:
    failed = 0
    while (begin := time.perf_counter()) < until:
        answer = await client.post(url, content=BODY, headers={"Content-Type": "application/json"})
        times.append(time.perf_counter() - begin)
        failed += answer.status_code != 200
    return failed


async def _by_httpx(url: str, clients: int, seconds: float) -> dict[str, float]:
    times: list[float] = []
    limits = httpx2.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx2.AsyncClient(limits=limits, timeout=30, trust_env=False) as client:
        begin = time.perf_counter()
        failed = sum(await asyncio.gather(*(_calling(client, url, begin + seconds, times) for _ in range(clients))))
        took = time.perf_counter() - begin
    ordered = sorted(times)
    at = {share: ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in (0.5, 0.99)}
    return {"calls": len(times), "seconds": took, "failed": failed, "median": at[0.5], "p99": at[0.99]}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_by_httpx(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))))
