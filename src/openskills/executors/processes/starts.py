"""How many commands are being started, for whoever has to wait until none is."""

import asyncio


class Starts:
    """Every start is a `with` block."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    def __enter__(self) -> None:
        self._count += 1
        self._none.clear()

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if not self._count:
            self._none.set()

    async def over(self) -> None:
        """Wait until no command is being started."""
        await self._none.wait()
