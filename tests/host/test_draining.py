"""The end of a host."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType

from openskills.host.draining import drain, ends_gently
from openskills.host.result import InvokeResult
from openskills.host.service import Host
from tests.host.hosting import Function, Waiting
from tests.host.test_service import host_of, invoke


async def begun(host: Host, waiting: Waiting) -> "asyncio.Task[InvokeResult]":
    task = asyncio.create_task(invoke(host, "waiting"))
    while not waiting.began.is_set():
        await asyncio.sleep(0.001)
    return task


def hear(heard: list[str]) -> Callable[[int, FrameType | None], None]:
    """Who had the signals before: a server."""

    def handler(_: int, __: FrameType | None) -> None:
        heard.append("server")

    return handler


def functions(waiting: Waiting) -> Mapping[str, Function]:
    return {"waiting": waiting}


def test_what_runs_may_finish() -> None:
    waiting = Waiting()

    async def go() -> int:
        host = host_of(functions(waiting))
        task = await begun(host, waiting)
        ending = asyncio.create_task(drain(host, 60.0))
        await asyncio.sleep(0.01)
        assert host.draining
        assert not ending.done()
        waiting.may_end.set()
        await ending
        return (await task).status

    assert asyncio.run(go()) == 200


def test_what_does_not_finish_is_interrupted() -> None:
    waiting = Waiting()

    async def go() -> int:
        host = host_of(functions(waiting))
        task = await begun(host, waiting)
        await drain(host, 0.01)
        return (await task).status

    assert asyncio.run(go()) == 503
    assert waiting.cancelled.is_set()


def test_a_signal_drains_first_and_reaches_the_server_then() -> None:
    waiting = Waiting()
    heard: list[str] = []

    async def go() -> None:
        host = host_of(functions(waiting))
        with ends_gently(host, 60.0, lambda: heard.append("ended")):
            task = await begun(host, waiting)
            os.kill(os.getpid(), signal.SIGTERM)
            while not host.draining:
                await asyncio.sleep(0.001)
            assert heard == []
            waiting.may_end.set()
            await task
            while len(heard) < 2:
                await asyncio.sleep(0.001)

    before = signal.signal(signal.SIGTERM, hear(heard))
    try:
        asyncio.run(go())
        assert heard == ["ended", "server"]
        # What was there before is there again.
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard[-1] == "server"
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_second_signal_interrupts() -> None:
    waiting = Waiting()
    heard: list[str] = []

    async def go() -> int:
        host = host_of(functions(waiting))
        with ends_gently(host, 60.0, lambda: None):
            task = await begun(host, waiting)
            os.kill(os.getpid(), signal.SIGTERM)
            while not host.draining:
                await asyncio.sleep(0.001)
            os.kill(os.getpid(), signal.SIGTERM)
            return (await task).status

    before = signal.signal(signal.SIGTERM, hear(heard))
    try:
        assert asyncio.run(go()) == 503
        assert "server" in heard
    finally:
        signal.signal(signal.SIGTERM, before)


def test_in_another_thread_signals_stay_with_whom_they_belong_to() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[bool] = []

    async def go() -> None:
        with ends_gently(host_of({}), 1.0, lambda: None):
            seen.append(signal.getsignal(signal.SIGTERM) is before)

    thread = threading.Thread(target=lambda: asyncio.run(go()))
    thread.start()
    thread.join()
    assert seen == [True]
