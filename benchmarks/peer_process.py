"""Another library in a process of its own, in the environment that it is installed in, which is told what to do.

What it runs is a script of ours: a line of JSON in, a line of JSON out, see `trpc_process.py`.
"""

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from peers import why_missing
from reasons import last_line, one_line
from running_part import NotMeasured
from sampling import Way

HERE = Path(__file__).resolve().parent
_LONGEST_ANSWER = 64 * 1024 * 1024
_ENDS_WITHIN = 30.0
_DIES_WITHIN = 5.0
TIMEOUT = 120.0
"""How many seconds a library may take for one answer. None of them takes ten on an idle machine."""


@dataclass(frozen=True)
class Installed:
    """A library: which of our environments it is installed in, and by which module that is seen."""

    name: str
    environment: str
    module: str

    @property
    def directory(self) -> Path:
        """The environment."""
        return HERE.parent / ".bench" / self.environment

    @property
    def python(self) -> Path:
        """The interpreter that has it."""
        return self.directory / "bin" / "python"

    def check(self) -> None:
        """Raises `NotMeasured` where it is not installed."""
        if not list(self.directory.glob(f"lib/*/site-packages/{self.module}")):
            raise NotMeasured(f"{self.name}: it is not installed; {why_missing(self.environment)}")


class PeerProcess:
    """A library whose process runs, and does one thing when it is told to."""

    def __init__(
        self, name: str, process: asyncio.subprocess.Process, complaints: IO[bytes], timeout: float = TIMEOUT
    ) -> None:
        self._name = name
        self._process = process
        self._complaints = complaints
        self._patience = timeout
        self._failed: str | None = None

    @property
    def failed(self) -> bool:
        """Whether it has not answered as it should: then it is not asked again."""
        return self._failed is not None

    def way(self, do: str, **more: Any) -> Way:
        """What takes the `seconds` of its answer: see the script that it runs."""

        async def once() -> float:
            return float((await self.ask({"do": do, **more}))["seconds"])

        return once

    async def ask(self, request: Mapping[str, Any] | None) -> dict[str, Any]:
        """The answer to a request; without one, the first thing that it says.

        Raises `NotMeasured` when it fails or takes longer than its timeout, and for the same reason ever after.
        """
        if self._failed is not None:
            raise NotMeasured(self._failed)
        try:
            async with asyncio.timeout(self._patience):
                line = await self._asked(request)
            return json.loads(line)
        except TimeoutError:
            why = f"it did not answer within {self._patience:g} seconds"
        except (OSError, EOFError):
            why = f"it failed with {await self._last_words()}"
        except ValueError:
            why = f"its answer cannot be read: {await self._last_words()}"
        self._failed = one_line(f"{self._name}: {why}")
        raise NotMeasured(self._failed)

    async def _asked(self, request: Mapping[str, Any] | None) -> bytes:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        if request is not None:
            stdin.write(json.dumps(request).encode() + b"\n")
            await stdin.drain()
        line = await stdout.readline()
        if not line:
            raise EOFError
        return line

    async def _last_words(self) -> str:
        """What it complained about last; it may say so after it has closed its output."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _DIES_WITHIN)
        self._complaints.seek(0)
        return last_line(self._complaints.read().decode("utf-8", "replace"))


@asynccontextmanager
async def peer_process(
    peer: Installed, script: str, *arguments: str | Path, variables: Mapping[str, str], timeout: float = TIMEOUT
) -> AsyncGenerator[PeerProcess]:
    """The library with a script of ours. Raises `NotMeasured` where it is not installed or does not start.

    `timeout` bounds each of its answers, in seconds. In the end nothing is left of what it started in its group.
    """
    peer.check()
    with tempfile.TemporaryFile() as complaints:
        process = await asyncio.create_subprocess_exec(
            *(str(peer.python), str(HERE / script), *map(str, arguments)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=complaints,
            env={"PATH": os.defpath, "LANG": "C.UTF-8", **variables},
            limit=_LONGEST_ANSWER,
            start_new_session=True,
        )
        running = PeerProcess(peer.name, process, complaints, timeout)
        try:
            await running.ask(None)
            yield running
        finally:
            await _ended(process, wait=0.0 if running.failed else _ENDS_WITHIN)


def new_home(scratch: Path) -> dict[str, str]:
    """The variables of a library that leaves what it likes in a new, empty directory."""
    place = tempfile.mkdtemp(prefix="home-", dir=scratch)
    return {"HOME": place, "TMPDIR": place}


async def _ended(process: asyncio.subprocess.Process, *, wait: float) -> None:
    """Let it end by itself, so that it removes the container that it may have started; then end its whole group."""
    assert process.stdin is not None
    process.stdin.close()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), wait)
    # The number of a group is not given to anybody else as long as somebody is in it.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
