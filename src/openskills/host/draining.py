"""The end of a host: what runs may finish, what comes is sent elsewhere, then it is over."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from openskills.host.service import Host

_log = logging.getLogger("openskills.host")
_ENDS = (signal.SIGTERM, signal.SIGINT)
LAST_WORDS = 5.0
"""Seconds for what was interrupted to end its children and to answer."""
LOOK = 0.2
"""Seconds between two looks for the supervisor."""


async def drain(host: Host, grace: float) -> None:
    """Let what runs go on for so many seconds, then interrupt it. From now on everything new is refused."""
    interrupted, host.draining = host.draining, True
    if host.running and not interrupted:
        _log.info("about to end: %d invocations have %g s to finish", host.running, grace)
    try:
        async with asyncio.timeout(grace):
            await host.idle()
    except TimeoutError:
        _log.warning("%d invocations did not finish within %g s and are interrupted", host.running, grace)
        host.interrupt()
        await asyncio.wait([asyncio.ensure_future(host.idle())], timeout=LAST_WORDS)


@contextmanager
def ends_gently(host: Host, grace: float, ended: Callable[[], None]) -> Generator[None]:
    """In this block SIGTERM and SIGINT drain the host first; then the server gets the signal. A second one is final.

    `ended` is called between the two. Where signals belong to somebody else, as in a thread, they stay theirs.
    """
    loop = asyncio.get_running_loop()
    begun: list[asyncio.Task[None]] = []
    earlier: dict[int, Any] = {}

    async def end(number: int) -> None:
        await drain(host, grace)
        ended()
        _pass_on(number, earlier[number])

    def begin(number: int) -> None:
        if begun:
            host.interrupt()
            _pass_on(number, earlier[number])
        else:
            begun.append(loop.create_task(end(number)))

    def caught(number: int, _: FrameType | None) -> None:
        loop.call_soon_threadsafe(begin, number)

    try:
        for number in _ENDS:
            earlier[number] = signal.signal(number, caught)
    except ValueError:
        # Not in the main thread: whoever started us tells us in another way.
        yield
        return
    try:
        yield
    finally:
        for number, handler in earlier.items():
            if signal.getsignal(number) is caught:
                signal.signal(number, handler)


async def end_with(supervisor: int) -> None:
    """A worker whose supervisor was killed ends by itself, even if that was before it had begun.

    It does not wait for what runs: its supervisor was not asked gently either, and whoever starts it again wants the
    port.
    """
    while os.getppid() == supervisor:
        await asyncio.sleep(LOOK)
    _log.warning("the process that started this worker is gone; it ends, too")
    signal.raise_signal(signal.SIGTERM)
    # The first lets what runs finish. The second interrupts it and has the server close its port.
    signal.raise_signal(signal.SIGTERM)


def _pass_on(number: int, handler: Any) -> None:
    if callable(handler):
        handler(number, None)
        return
    signal.signal(number, handler)
    os.kill(os.getpid(), number)
