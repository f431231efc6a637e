"""A command that is only told behaves like one that runs."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.spec import Command, Ended, Ending, Limits, Stream, Terminal
from openskills.sync import run
from openskills.testing.fake_process import FakeProcess, FakeRun

Call = Callable[[FakeProcess], Awaitable[object]]
ECHO = Command(("echo",))


async def played(command: Command, what: FakeRun) -> Ended:
    return await FakeProcess(command, what).wait()


def test_a_run_gives_what_it_was_told() -> None:
    what = FakeRun(b"out", b"error", 3, duration_ms=40)
    ended = run(played(ECHO, what))
    assert (ended.stdout.bytes(), ended.stderr.bytes()) == (b"out", b"error")
    assert (ended.exit_code, ended.ending, ended.duration_ms) == (3, Ending.EXITED, 40)


def test_a_run_that_an_executor_has_ended_says_so() -> None:
    ended = run(played(ECHO, FakeRun(exit_code=137, ending=Ending.LIMIT, detail="too much memory")))
    assert (ended.exit_code, ended.ending, ended.detail) == (137, Ending.LIMIT, "too much memory")


def test_output_is_cut_as_by_a_real_executor() -> None:
    ended = run(played(Command(("x",), limits=Limits(output_bytes=4)), FakeRun(b"0123456789")))
    assert (ended.stdout.head, ended.stdout.tail, ended.stdout.cut) == (b"01", b"89", 6)


def test_each_line_is_answered_by_the_next_reply_and_the_last_one_ends_it() -> None:
    async def talk() -> None:
        process = FakeProcess(Command(("ask",), input_open=True), FakeRun(b"name? ", replies=(b"age? ", b"done\n")))
        assert (await process.read(0)).data == b"name? "
        assert await process.write(b"Ada") == 3
        assert (await process.read(6)).data == b""
        await process.write(b"\n")
        reading = await process.read(6, wait=5.0)
        assert (reading.data, reading.ended) == (b"age? ", False)
        await process.write(b"36\n")
        last = await process.read(reading.next_offset, wait=5.0)
        assert (last.data, last.ended) == (b"done\n", True)
        assert process.written == b"Ada\n36\n"
        with pytest.raises(InvalidArgument, match="has ended"):
            await process.write(b"more")

    run(talk())


def test_what_is_given_as_stdin_is_answered_too() -> None:
    ended = run(played(Command(("ask",), stdin=b"a\nb\n"), FakeRun(replies=(b"1", b"2", b"3"))))
    assert ended.stdout.bytes() == b"12"


def test_the_end_of_its_input_ends_a_dialogue() -> None:
    async def close() -> Ended:
        process = FakeProcess(Command(("ask",), input_open=True), FakeRun(replies=(b"never",), exit_code=1))
        await process.close_input()
        await process.close_input()
        return await process.wait()

    ended = run(close())
    assert (ended.exit_code, ended.stdout.bytes()) == (1, b"")


def test_what_runs_for_ever_ends_by_its_deadline_or_by_a_kill() -> None:
    ended = run(played(Command(("server",), limits=Limits(timeout=0.01)), FakeRun(b"up\n", forever=True)))
    assert (ended.ending, ended.exit_code, ended.detail) == (
        Ending.TIMED_OUT,
        143,
        "it did not end within 0.01 seconds",
    )

    async def kill() -> Ended:
        process = FakeProcess(ECHO, FakeRun(forever=True))
        await process.kill()
        await process.kill()
        return await process.wait()

    assert run(kill()).ending is Ending.KILLED


def test_a_reader_that_waits_hears_the_end() -> None:
    async def wait() -> bool:
        process = FakeProcess(Command(("x",), readable=True), FakeRun(forever=True))
        reading = asyncio.ensure_future(process.read(0, wait=30.0))
        await asyncio.sleep(0)
        await process.kill()
        return (await reading).ended

    assert run(wait())


def test_streams_are_apart_where_that_was_asked_for_and_one_on_a_terminal() -> None:
    async def read(command: Command, stream: Stream) -> bytes:
        return (await FakeProcess(command, FakeRun(b"out", b"error")).read(0, stream=stream)).data

    assert run(read(Command(("x",), readable=True), Stream.STDERR)) == b"error"
    assert run(read(Command(("x",), readable=True), Stream.BOTH)) == b"outerror"
    assert run(played(Command(("x",), terminal=Terminal()), FakeRun(b"out", b"error"))).stdout.bytes() == b"outerror"


REFUSED: list[Call] = [
    lambda process: process.read(0),
    lambda process: process.write(b"x"),
    lambda process: process.resize(24, 80),
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_a_plain_command_cannot_do_is_refused(call: Call) -> None:
    async def refused() -> None:
        await call(FakeProcess(ECHO, FakeRun(forever=True)))

    with pytest.raises(InvalidArgument):
        run(refused())


def test_a_terminal_has_the_size_that_it_was_given_last() -> None:
    async def resize() -> Terminal | None:
        process = FakeProcess(Command(("x",), terminal=Terminal()), FakeRun(forever=True))
        await process.resize(40, 132)
        with pytest.raises(InvalidArgument, match="0 by 80 is no size"):
            await process.resize(0, 80)
        return process.terminal

    assert run(resize()) == Terminal(40, 132)
