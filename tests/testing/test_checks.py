"""Content for checks does what it says.

A broken promise is said in a sentence; other errors say what was being checked.

What promises are tried with sees what is there.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.spec import Command, Isolation, OutputStream
from openskills.testing.checks import (
    ContentError,
    EndlessContent,
    ExecutorTrial,
    broken_content,
    check_promise,
    describe_result,
    expect,
    expect_refusal,
    list_paths,
    open_and_close,
    python_argv,
    read_content,
    read_until,
    shell_argv,
    stream_content,
)
from tests.testing.around import in_directory


async def pieces(content: AsyncIterable[bytes], seen: list[bytes]) -> None:
    async for piece in content:
        # One by one: what has come before a failure is what is looked at.
        seen.append(piece)  # noqa: PERF401


async def test_a_stream_gives_its_pieces_in_their_order() -> None:
    seen: list[bytes] = []
    await pieces(stream_content([b"a", b"", b"b"]), seen)
    assert seen == [b"a", b"", b"b"]


async def test_failing_content_gives_something_first() -> None:
    seen: list[bytes] = []
    with pytest.raises(ContentError):
        await pieces(broken_content(), seen)
    assert seen == [b"half"]


async def test_waiting_content_says_when_it_has_begun_and_never_ends() -> None:
    seen: list[bytes] = []
    waiting = EndlessContent()
    reading = asyncio.ensure_future(pieces(waiting, seen))
    await waiting.begun.wait()
    assert not reading.done()
    reading.cancel()
    await asyncio.wait([reading])

    assert seen == [b"half"]


async def _sky() -> None:
    """The sky is blue."""
    expect(1 > 2, "it is grey")


async def _sea() -> None:
    """The sea is blue."""
    raise ConnectionError("no sea here")


async def refused(error: Exception | None) -> None:
    if error is not None:
        raise error


async def test_a_broken_promise_is_said_with_what_is_the_case() -> None:
    with pytest.raises(AssertionError, match=r"^broken promise: The sky is blue\. it is grey$"):
        await check_promise(_sky, _sky())


async def test_another_error_passes_with_a_note() -> None:
    with pytest.raises(ConnectionError, match="no sea here") as raised:
        await check_promise(_sea, _sea())
    assert raised.value.__notes__ == ["while checking the promise: The sea is blue."]


async def test_a_refusal_that_is_expected_is_fine() -> None:
    await expect_refusal(refused(InvalidArgument("a", "b")), "it is taken")
    await expect_refusal(refused(ForbiddenPath("x")), "it is taken", (ForbiddenPath, InvalidArgument))


async def test_what_is_not_refused_is_said_with_the_error_that_was_expected() -> None:
    with pytest.raises(AssertionError, match=r"^it is taken; ForbiddenPath or InvalidArgument was expected$"):
        await expect_refusal(refused(None), "it is taken", (ForbiddenPath, InvalidArgument))


async def test_another_refusal_than_the_expected_one_passes() -> None:
    with pytest.raises(ForbiddenPath):
        await expect_refusal(refused(ForbiddenPath("x")), "it is taken")


@asynccontextmanager
async def trial_in(directory: Path) -> AsyncGenerator[ExecutorTrial]:
    make = in_directory(directory)
    executor = make()
    try:
        yield ExecutorTrial(executor, await executor.open("key"), "key", Isolation.NONE, directory, make)
    finally:
        await executor.close()


async def test_commands_are_run_asked_and_judged(tmp_path: Path) -> None:
    async with trial_in(tmp_path) as trial:
        ended = await trial.run(Command(shell_argv("echo out; exit 3")))
        assert (ended.exit_code, ended.stdout.text()) == (3, "out\n")
        assert describe_result(ended) == "exited, exit code 3, no detail, 'out'"
        assert await trial.read_output(Command(shell_argv("echo out"))) == "out\n"
        assert await trial.run_json("import sys; print(f'[{sys.argv[1]}]')", "7") == [7]
        with pytest.raises(
            AssertionError, match="a command of the check failed: exited, exit code 2, no detail, 'why'"
        ):
            await trial.read_output(Command(shell_argv("echo why >&2; exit 2")))


async def test_whether_a_lock_is_held_is_seen_from_another_command(tmp_path: Path) -> None:
    text = (
        "import fcntl, sys; f = open('work/lock', 'w'); fcntl.flock(f, 2); print('has', flush=True); sys.stdin.read()"
    )

    async with trial_in(tmp_path) as trial:
        process = await trial.workspace.start(Command(python_argv(text), input_open=True))
        assert await read_until(process, b"has") == b"has\n"
        assert await trial.is_held("work/lock")
        await process.kill()
        assert not await trial.is_held("work/lock")


async def test_files_are_read_and_listed(tmp_path: Path) -> None:
    async with trial_in(tmp_path) as trial:
        await trial.workspace.write("work/file", b"data")
        mark = await trial.workspace.mark()
        assert await read_content(trial.workspace, "work/file") == b"data"
        assert await list_paths(trial.workspace, "work/*") == ["work/file"]
        assert await list_paths(trial.workspace, "work/*", since=mark) == []
        await open_and_close(trial.workspace, "work/file")


async def test_output_is_read_up_to_what_is_wanted_or_to_the_end(tmp_path: Path) -> None:
    async with trial_in(tmp_path) as trial:
        process = await trial.workspace.start(Command(shell_argv("echo one; echo two >&2"), readable=True))
        assert await read_until(process, b"never") in (b"one\ntwo\n", b"two\none\n")
        assert await read_until(process, b"never", offset=1, stream=OutputStream.STDOUT) == b"ne\n"
