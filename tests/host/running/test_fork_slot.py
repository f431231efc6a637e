"""One connection to what serves calls."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.host.running.fork_slot import Slot
from openskills.sync import run

END = struct.pack("!cI", b"x", 37) + struct.pack("!iQQQQB", 0, 0, 0, 2, 0, 0)


def with_slot(work: Callable[[Slot, socket.socket, float], Awaitable[None]]) -> None:
    """Do some work with a slot, the other end of it, and a time that is far away."""

    async def whole() -> None:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        slot = Slot(1, ours)
        try:
            await work(slot, theirs, asyncio.get_running_loop().time() + 20)
        finally:
            slot.close()
            theirs.close()

    run(whole())


def test_a_call_is_written_and_its_answer_read() -> None:
    async def work(slot: Slot, theirs: socket.socket, late: float) -> None:
        task = asyncio.ensure_future(slot.call(b"hello", late))
        assert await asyncio.get_running_loop().sock_recv(theirs, 100) == b"hello"
        theirs.send(struct.pack("!cI", b"o", 2) + b"{}" + END)
        assert (await task).stdout == b"{}"
        assert slot.usable

    with_slot(work)


def test_a_large_call_is_written_as_there_is_room() -> None:
    async def work(slot: Slot, theirs: socket.socket, late: float) -> None:
        task = asyncio.ensure_future(slot.call(b"x" * 2_000_000, late))
        received = 0
        while received < 2_000_000:
            received += len(await asyncio.get_running_loop().sock_recv(theirs, 65536))
        theirs.send(END)
        await task

    with_slot(work)


def test_what_comes_meanwhile_is_told() -> None:
    async def work(slot: Slot, theirs: socket.socket, late: float) -> None:
        told: list[tuple[str, bytes]] = []
        heard = asyncio.Event()

        def hear(stream: str, data: bytes) -> None:
            told.append((stream, data))
            heard.set()

        task = asyncio.ensure_future(slot.call(b"", late, hear))
        await asyncio.sleep(0)
        theirs.send(struct.pack("!cI", b"e", 1) + b"a")
        await asyncio.wait_for(heard.wait(), 20)
        assert told == [("stderr", b"a")]
        theirs.send(END)
        await task

    with_slot(work)


@pytest.mark.parametrize("ending", [b"", b"garbage!"])
def test_an_end_or_garbage_loses_the_slot(ending: bytes) -> None:
    async def work(slot: Slot, theirs: socket.socket, late: float) -> None:
        task = asyncio.ensure_future(slot.call(b"", late))
        await asyncio.sleep(0)
        theirs.send(ending) if ending else theirs.close()
        with pytest.raises(ExecutorUnavailable):
            await task
        with pytest.raises(ExecutorUnavailable):
            await slot.call(b"", late)

    with_slot(work)


def test_at_the_deadline_the_slot_is_lost() -> None:
    async def work(slot: Slot, theirs: socket.socket, late: float) -> None:
        with pytest.raises(TimeoutError):
            await slot.call(b"", late - 19.9)
        assert not slot.usable

    with_slot(work)
