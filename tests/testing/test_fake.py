"""The fake executor keeps the promises that need no process, and plays the commands that it was told."""

from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.protocol import Executor, Process, Workspace
from openskills.executors.spec import Command, Ended, Ending, Isolation
from openskills.executors.staging.collecting import collect
from openskills.executors.staging.outputs import OutputSpec
from openskills.executors.staging.snapshots import SnapshotStore
from openskills.sync import run
from openskills.testing import WITHOUT_COMMANDS, FakeExecutor, FakeRun, check_executor
from openskills.testing.executor_staging import new_skill


async def ran(executor: Executor, command: Command) -> Ended:
    workspace: Workspace = await executor.open("key")
    process: Process = await workspace.start(command)
    return await process.wait()


def test_it_keeps_the_promises_that_need_no_process() -> None:
    executor = FakeExecutor()
    run(check_executor(lambda: executor, groups=WITHOUT_COMMANDS))


def test_a_command_is_answered_by_its_command_line() -> None:
    executor = FakeExecutor({"python3 scripts/run.py 'two words'": FakeRun(b"done\n")})
    command = Command(("python3", "scripts/run.py", "two words"), env={"A": "1"})
    assert run(ran(executor, command)).stdout.bytes() == b"done\n"
    assert executor.commands == [command]


def test_a_line_of_shell_is_answered_by_its_text() -> None:
    executor = FakeExecutor({"echo $A | wc": FakeRun(b"1\n")})
    assert run(ran(executor, Command(("bash", "-c", "echo $A | wc")))).stdout.bytes() == b"1\n"


def test_a_command_without_an_answer_is_a_program_that_does_not_exist() -> None:
    executor = FakeExecutor({"true": FakeRun()})
    with pytest.raises(InvalidArgument, match="command: 'false' has no answer; there are 'true'"):
        run(ran(executor, Command(("false",))))
    assert executor.commands == []


def test_a_function_may_answer_and_may_refuse() -> None:
    def answer(command: Command) -> FakeRun:
        if command.network:
            raise ExecutorUnavailable("there is no network")
        return FakeRun(command.stdin.upper())

    executor = FakeExecutor(answer)
    assert run(ran(executor, Command(("x",), stdin=b"abc"))).stdout.bytes() == b"ABC"
    with pytest.raises(ExecutorUnavailable, match="no network"):
        run(ran(executor, Command(("x",), network=("example.org",))))


def test_files_of_a_run_are_collected_like_real_ones() -> None:
    async def collected() -> list[str]:
        executor = FakeExecutor(
            {"make": FakeRun(files={"out/a.txt": b"a", "$RUN_DIR/log": b"b", "$OUTPUT_DIR/c": b""})}
        )
        workspace = await executor.open("key")
        await workspace.write("out/old", b"")
        mark = await workspace.mark()
        await (await workspace.start(Command(("make",), run_dir="runs/1"))).wait()
        found = await collect(workspace, OutputSpec(("out/**", "runs/**")), since=mark)
        return [file.path for file in found.files]

    assert run(collected()) == ["out/a.txt", "out/c", "runs/1/log"]


def test_it_says_the_isolation_and_the_name_that_it_is_told() -> None:
    async def told() -> tuple[str, Isolation, Isolation]:
        async with FakeExecutor(isolation=Isolation.CONTAINER, name="container") as executor:
            return executor.name, await executor.check(), (await executor.open("key")).isolation

    assert run(told()) == ("container", Isolation.CONTAINER, Isolation.CONTAINER)


def test_digests_are_those_of_real_executors(tmp_path: Path) -> None:
    folder = new_skill(tmp_path)
    (folder / "leaves").symlink_to("/etc/hostname")
    real = SnapshotStore(tmp_path / "store").take("demo", folder)
    assert run(FakeExecutor().snapshot("demo", folder)) == real


def test_a_closed_workspace_starts_nothing_and_what_ran_has_ended() -> None:
    async def close() -> Ended:
        executor = FakeExecutor({"server": FakeRun(forever=True)})
        workspace = await executor.open("key")
        process = await workspace.start(Command(("server",)))
        await executor.close()
        with pytest.raises(ExecutorUnavailable, match="the workspace is closed"):
            await workspace.start(Command(("server",)))
        return await process.wait()

    assert run(close()).ending is Ending.KILLED


def test_a_directory_that_does_not_exist_is_refused_as_by_a_real_executor() -> None:
    executor = FakeExecutor({"true": FakeRun()})
    with pytest.raises(InvalidArgument, match="cwd: 'work/none' does not exist"):
        run(ran(executor, Command(("true",), cwd="work/none")))
