"""Events between a run and its reader."""

import asyncio

import pytest

from openskills.agent.stream import Stream
from openskills.errors import DeadlineExceeded
from openskills.session.events import new_event
from openskills.sync import run

EVENT = new_event("a", "assistant.delta", {"text": "x"})


def test_events_come_in_their_order_and_then_the_end() -> None:
    async def go() -> list[str]:
        stream = Stream()
        for text in "abc":
            stream.put(new_event("a", "assistant.delta", {"text": text}))
        stream.end()
        found: list[str] = []
        while (event := await stream.get()) is not None:
            found.append(event.payload["text"])
        return found

    assert run(go()) == ["a", "b", "c"]


def test_who_adds_waits_until_somebody_has_read() -> None:
    async def go() -> list[int]:
        stream, sent = Stream(most=3), list[int]()

        async def write() -> None:
            for number in range(10):
                await stream.emit(EVENT)
                sent.append(number)

        writing = asyncio.ensure_future(write())
        before = list[int]()
        for _ in range(10):
            # As far as it gets without being read.
            for _ in range(20):
                await asyncio.sleep(0)
            before.append(len(sent))
            await stream.get()
        await writing
        return before

    assert run(go()) == [2, 3, 4, 5, 6, 7, 8, 9, 10, 10]


def test_a_reader_that_has_stopped_is_given_up_and_one_that_is_slow_is_not() -> None:
    async def go() -> None:
        stream = Stream(most=2, patience=0.02)
        stream.put(EVENT)
        stream.put(EVENT)
        stream.put(EVENT)
        waiting = asyncio.ensure_future(stream.room())
        await stream.get()
        await asyncio.sleep(0)
        assert not waiting.done()
        await stream.get()
        await waiting
        stream.put(EVENT)
        for _ in range(2):
            with pytest.raises(DeadlineExceeded, match="nobody has read"):
                await stream.room()
        assert await stream.get() is EVENT
        await stream.room()

    run(go())
