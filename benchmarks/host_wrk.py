"""wrk, from a process of its own, against an address: how many answers a second, and how long they took."""

import asyncio
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from running_part import NotMeasured

_SCRIPT = """\
wrk.method = "POST"
wrk.body = {body}
{headers}
function done(summary, latency, requests)
  local failed = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  io.write(string.format('\\n{{"requests": %d, "microseconds": %d, "p50": %d, "p99": %d, "failed": %d}}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), failed))
end
"""


# Only where the numbers mean nothing: counting takes time.
_STOPS = """\
local answers = 0
function response()
  answers = answers + 1
  if answers >= {limit} then wrk.thread:stop() end
end
"""


class NoAnswers(RuntimeError):
    """A host that does not answer, or no more; the message says what `wrk` said."""


@dataclass(frozen=True)
class Address:
    """Where to send what; every answer that is not a success counts as failed."""

    url: str
    body: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Load:
    """What came back: answers a second, and the time that half and 99 of 100 did not pass, in seconds."""

    rate: float
    p50: float
    p99: float
    requests: int
    failed: int


def find_wrk() -> str:
    """The path of the program. Raises `NotMeasured`."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise NotMeasured("wrk is missing (Debian: apt-get install wrk)")
    return wrk


async def pressed(
    address: Address, scratch: Path, *, connections: int, seconds: float, limit: int | None = None
) -> Load:
    """Keep this many connections busy for a while, or until so many answers. Raises `NoAnswers`, `NotMeasured`."""
    wrk = find_wrk()
    headers = "\n".join(f"wrk.headers[{_lua(name)}] = {_lua(value)}" for name, value in address.headers.items())
    script = scratch / f"wrk-{abs(hash(address.url))}.lua"
    stops = "" if limit is None else _STOPS.format(limit=limit)
    script.write_text(_SCRIPT.format(body=_lua(address.body), headers=headers) + stops, "utf-8")
    argv = [wrk, "-t1", f"-c{connections}", f"-d{max(round(seconds), 1)}s", "--timeout", "30s", "-s", str(script)]
    process = await asyncio.create_subprocess_exec(
        *argv, address.url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    last = (output.decode("utf-8", "replace").strip().splitlines() or ["wrk printed nothing"])[-1]
    if process.returncode or not last.startswith("{"):
        raise NoAnswers(last)
    found = json.loads(last)
    if not found["requests"]:
        raise NoAnswers("no request was answered")
    micro = 1_000_000
    rate = found["requests"] / (found["microseconds"] / micro)
    return Load(rate, found["p50"] / micro, found["p99"] / micro, found["requests"], found["failed"])


def _lua(text: str) -> str:
    return json.dumps(text)
