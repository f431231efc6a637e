"""What promises are tried with sees what is there."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openskills.executors.spec import Command, Isolation, Stream
from openskills.sync import run
from openskills.testing.trial import Trial, content, listed, opened, python, read_until, shell, told
from tests.testing.around import in_directory


def tried(directory: Path, work: Callable[[Trial], Awaitable[None]]) -> None:
    async def trying() -> None:
        make = in_directory(directory)
        executor = make()
        try:
            await work(Trial(executor, await executor.open("key"), "key", Isolation.NONE, directory, make))
        finally:
            await executor.close()

    run(trying())


def test_commands_are_run_asked_and_judged(tmp_path: Path) -> None:
    async def work(trial: Trial) -> None:
        ended = await trial.run(Command(shell("echo out; exit 3")))
        assert (ended.exit_code, ended.stdout.text()) == (3, "out\n")
        assert told(ended) == "exited, exit code 3, no detail, 'out'"
        assert await trial.said(Command(shell("echo out"))) == "out\n"
        assert await trial.answer("import sys; print(f'[{sys.argv[1]}]')", "7") == [7]
        with pytest.raises(
            AssertionError, match="a command of the check failed: exited, exit code 2, no detail, 'why'"
        ):
            await trial.said(Command(shell("echo why >&2; exit 2")))

    tried(tmp_path, work)


def test_whether_a_lock_is_held_is_seen_from_another_command(tmp_path: Path) -> None:
    text = (
        "import fcntl, sys; f = open('work/lock', 'w'); fcntl.flock(f, 2); print('has', flush=True); sys.stdin.read()"
    )

    async def work(trial: Trial) -> None:
        process = await trial.workspace.start(Command(python(text), input_open=True))
        assert await read_until(process, b"has") == b"has\n"
        assert await trial.is_held("work/lock")
        await process.kill()
        assert not await trial.is_held("work/lock")

    tried(tmp_path, work)


def test_files_are_read_and_listed(tmp_path: Path) -> None:
    async def work(trial: Trial) -> None:
        await trial.workspace.write("work/file", b"data")
        mark = await trial.workspace.mark()
        assert await content(trial.workspace, "work/file") == b"data"
        assert await listed(trial.workspace, "work/*") == ["work/file"]
        assert await listed(trial.workspace, "work/*", since=mark) == []
        await opened(trial.workspace, "work/file")

    tried(tmp_path, work)


def test_output_is_read_up_to_what_is_wanted_or_to_the_end(tmp_path: Path) -> None:
    async def work(trial: Trial) -> None:
        process = await trial.workspace.start(Command(shell("echo one; echo two >&2"), readable=True))
        assert await read_until(process, b"never") in (b"one\ntwo\n", b"two\none\n")
        assert await read_until(process, b"never", offset=1, stream=Stream.STDOUT) == b"ne\n"

    tried(tmp_path, work)
