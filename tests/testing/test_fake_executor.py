"""The fake executor keeps the promises that need no process, and plays the commands that it was told.

A command that is only told behaves like one that runs.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.protocol import Executor, Process, Workspace
from openskills.executors.spec import Command, CommandResult, EndReason, Isolation, Limits, OutputStream, TerminalSize
from openskills.executors.staging.outputs import OutputSpec, collect_outputs
from openskills.executors.staging.snapshots import SnapshotStore
from openskills.testing.executor import WITHOUT_COMMANDS, check_executor
from openskills.testing.executor_skills import new_skill
from openskills.testing.fake_executor import FakeExecutor, FakeProcess, FakeRun


async def ran(executor: Executor, command: Command) -> CommandResult:
    workspace: Workspace = await executor.open("key")
    process: Process = await workspace.start(command)
    return await process.wait()


async def test_it_keeps_the_promises_that_need_no_process() -> None:
    executor = FakeExecutor()
    await check_executor(lambda: executor, groups=WITHOUT_COMMANDS)


async def test_a_command_is_answered_by_its_command_line() -> None:
    executor = FakeExecutor({"python3 scripts/run.py 'two words'": FakeRun(b"done\n")})
    command = Command(("python3", "scripts/run.py", "two words"), env={"A": "1"})
    assert (await ran(executor, command)).stdout.bytes() == b"done\n"
    assert executor.commands == [command]


async def test_a_line_of_shell_is_answered_by_its_text() -> None:
    executor = FakeExecutor({"echo $A | wc": FakeRun(b"1\n")})
    assert (await ran(executor, Command(("bash", "-c", "echo $A | wc")))).stdout.bytes() == b"1\n"


async def test_a_command_without_an_answer_is_a_program_that_does_not_exist() -> None:
    executor = FakeExecutor({"true": FakeRun()})
    with pytest.raises(InvalidArgument, match="command: 'false' has no answer; there are 'true'"):
        await ran(executor, Command(("false",)))
    assert executor.commands == []


async def test_a_function_may_answer_and_may_refuse() -> None:
    def answer(command: Command) -> FakeRun:
        if command.network:
            raise ExecutorUnavailable("there is no network")
        return FakeRun(command.stdin.upper())

    executor = FakeExecutor(answer)
    assert (await ran(executor, Command(("x",), stdin=b"abc"))).stdout.bytes() == b"ABC"
    with pytest.raises(ExecutorUnavailable, match="no network"):
        await ran(executor, Command(("x",), network=("example.org",)))


async def test_files_of_a_run_are_collected_like_real_ones() -> None:
    executor = FakeExecutor({"make": FakeRun(files={"out/a.txt": b"a", "$RUN_DIR/log": b"b", "$OUTPUT_DIR/c": b""})})
    workspace = await executor.open("key")
    await workspace.write("out/old", b"")
    mark = await workspace.mark()
    await (await workspace.start(Command(("make",), run_dir="runs/1"))).wait()
    found = await collect_outputs(workspace, OutputSpec(("out/**", "runs/**")), since=mark)

    assert [file.path for file in found.files] == ["out/a.txt", "out/c", "runs/1/log"]


async def test_it_says_the_isolation_and_the_name_that_it_is_told() -> None:
    async with FakeExecutor(isolation=Isolation.CONTAINER, name="container") as executor:
        result = executor.name, await executor.check(), (await executor.open("key")).isolation

    assert result == ("container", Isolation.CONTAINER, Isolation.CONTAINER)


async def test_digests_are_those_of_real_executors(tmp_path: Path) -> None:
    folder = new_skill(tmp_path)
    (folder / "leaves").symlink_to("/etc/hostname")
    real = SnapshotStore(tmp_path / "store").take("demo", folder)
    assert await FakeExecutor().snapshot("demo", folder) == real


async def test_a_closed_workspace_starts_nothing_and_what_ran_has_ended() -> None:
    executor = FakeExecutor({"server": FakeRun(forever=True)})
    workspace = await executor.open("key")
    process = await workspace.start(Command(("server",)))
    await executor.close()
    with pytest.raises(ExecutorUnavailable, match="the workspace is closed"):
        await workspace.start(Command(("server",)))

    assert (await process.wait()).ending is EndReason.KILLED


async def test_a_directory_that_does_not_exist_is_refused_as_by_a_real_executor() -> None:
    executor = FakeExecutor({"true": FakeRun()})
    with pytest.raises(InvalidArgument, match="cwd: 'work/none' does not exist"):
        await ran(executor, Command(("true",), cwd="work/none"))


Call = Callable[[FakeProcess], Awaitable[object]]
ECHO = Command(("echo",))


async def played(command: Command, what: FakeRun) -> CommandResult:
    return await FakeProcess(command, what).wait()


async def test_a_run_gives_what_it_was_told() -> None:
    what = FakeRun(b"out", b"error", 3, duration_ms=40)
    ended = await played(ECHO, what)
    assert (ended.stdout.bytes(), ended.stderr.bytes()) == (b"out", b"error")
    assert (ended.exit_code, ended.ending, ended.duration_ms) == (3, EndReason.EXITED, 40)


async def test_a_run_that_an_executor_has_ended_says_so() -> None:
    ended = await played(ECHO, FakeRun(exit_code=137, ending=EndReason.LIMIT, detail="too much memory"))
    assert (ended.exit_code, ended.ending, ended.detail) == (137, EndReason.LIMIT, "too much memory")


async def test_output_is_cut_as_by_a_real_executor() -> None:
    ended = await played(Command(("x",), limits=Limits(output_bytes=4)), FakeRun(b"0123456789"))
    assert (ended.stdout.head, ended.stdout.tail, ended.stdout.cut) == (b"01", b"89", 6)


async def test_each_line_is_answered_by_the_next_reply_and_the_last_one_ends_it() -> None:
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


async def test_what_is_given_as_stdin_is_answered_too() -> None:
    ended = await played(Command(("ask",), stdin=b"a\nb\n"), FakeRun(replies=(b"1", b"2", b"3")))
    assert ended.stdout.bytes() == b"12"


async def test_the_end_of_its_input_ends_a_dialogue() -> None:
    process = FakeProcess(Command(("ask",), input_open=True), FakeRun(replies=(b"never",), exit_code=1))
    await process.close_input()
    await process.close_input()

    ended = await process.wait()
    assert (ended.exit_code, ended.stdout.bytes()) == (1, b"")


async def test_what_runs_for_ever_ends_by_its_deadline_or_by_a_kill() -> None:
    ended = await played(Command(("server",), limits=Limits(timeout=0.01)), FakeRun(b"up\n", forever=True))
    assert (ended.ending, ended.exit_code, ended.detail) == (
        EndReason.TIMED_OUT,
        143,
        "it did not end within 0.01 seconds",
    )

    process = FakeProcess(ECHO, FakeRun(forever=True))
    await process.kill()
    await process.kill()
    assert (await process.wait()).ending is EndReason.KILLED


async def test_a_reader_that_waits_hears_the_end() -> None:
    process = FakeProcess(Command(("x",), readable=True), FakeRun(forever=True))
    reading = asyncio.ensure_future(process.read(0, wait=30.0))
    await asyncio.sleep(0)
    await process.kill()

    assert (await reading).ended


async def test_streams_are_apart_where_that_was_asked_for_and_one_on_a_terminal() -> None:
    async def read(command: Command, stream: OutputStream) -> bytes:
        return (await FakeProcess(command, FakeRun(b"out", b"error")).read(0, stream=stream)).data

    assert await read(Command(("x",), readable=True), OutputStream.STDERR) == b"error"
    assert await read(Command(("x",), readable=True), OutputStream.BOTH) == b"outerror"
    assert (
        await played(Command(("x",), terminal=TerminalSize()), FakeRun(b"out", b"error"))
    ).stdout.bytes() == b"outerror"


REFUSED: list[Call] = [
    lambda process: process.read(0),
    lambda process: process.write(b"x"),
    lambda process: process.resize(24, 80),
]


@pytest.mark.parametrize("call", REFUSED)
async def test_what_a_plain_command_cannot_do_is_refused(call: Call) -> None:
    async def refused() -> None:
        await call(FakeProcess(ECHO, FakeRun(forever=True)))

    with pytest.raises(InvalidArgument):
        await refused()


async def test_a_terminal_has_the_size_that_it_was_given_last() -> None:
    process = FakeProcess(Command(("x",), terminal=TerminalSize()), FakeRun(forever=True))
    await process.resize(40, 132)
    with pytest.raises(InvalidArgument, match="invalid size 0 by 80"):
        await process.resize(0, 80)

    assert process.terminal == TerminalSize(40, 132)
