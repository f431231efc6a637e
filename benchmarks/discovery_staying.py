"""Libraries in processes that stay, and find skills whenever they are told to."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from peer_process import Installed, PeerProcess, new_home, peer_process
from readings import Reading, Take


class Staying:
    """A process for each library, started when it is first needed."""

    def __init__(self, scratch: Path, stack: AsyncExitStack) -> None:
        self._scratch = scratch
        self._stack = stack
        self._running: dict[Installed, PeerProcess] = {}

    def take(self, library: Installed, **request: Any) -> Take:
        """What measures by asking the process of a library. Raises `NotMeasured` where it is missing or fails."""

        async def once() -> Reading:
            if library not in self._running:
                process = peer_process(library, "discovery_serve.py", variables=new_home(self._scratch))
                self._running[library] = await self._stack.enter_async_context(process)
            return await self._running[library].ask(request)

        return once
