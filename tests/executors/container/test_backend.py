import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.backend import Place
from openskills.executors.container.backend import ContainerBackend
from openskills.executors.container.spec import ContainerOptions
from openskills.executors.spec import Command, Ending, Isolation, Limits, Terminal
from openskills.sync import run
from tests.container_engine import TestEngine
from tests.executors.containers import UID, ContainerSession, made_tree, python, session, staged, vanish
from tests.executors.running import eventually, open_descriptors, read_until, shell


def test_a_container_passes_its_self_test(container_engine: TestEngine) -> None:
    async def scenario() -> None:
        backend = ContainerBackend(ContainerOptions(container_engine.image, container_engine.address))
        try:
            assert await backend.check() is Isolation.CONTAINER
        finally:
            await backend.close()

    run(scenario())
    assert vanish(container_engine.address, "check")


def test_a_command_gives_its_output_and_its_exit_code(container_engine: TestEngine, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with session(container_engine, tmp_path) as commands:
            ended = await commands.run(Command(shell("echo out; echo err >&2; exit 3")))
            assert (ended.exit_code, ended.ending) == (3, Ending.EXITED)
            assert (ended.stdout.text(), ended.stderr.text()) == ("out\n", "err\n")
            ended = await commands.run(Command(shell("kill -SEGV $$")))
            assert (ended.exit_code, ended.ending) == (139, Ending.EXITED)

    run(scenario())


def test_all_commands_of_a_session_share_one_container_that_goes_with_it(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async def scenario() -> ContainerSession:
        async with session(container_engine, tmp_path) as commands:
            assert commands.containers() == []
            await asyncio.gather(*(commands.run(Command(shell(f"echo {n} > /tmp/{n}"))) for n in range(5)))
            assert (await commands.run(Command(shell("cat /tmp/?")))).stdout.text() == "0\n1\n2\n3\n4\n"
            assert len(commands.containers()) == 1
            return commands

    before = open_descriptors()
    commands = run(scenario())
    assert commands.containers() == []
    assert os.listdir(commands.place.tree.parent) == ["tree"]
    assert open_descriptors() <= before + 1  # the event loop of the bridge may have been made meanwhile


def test_what_a_killed_host_left_in_the_workspace_is_removed(container_engine: TestEngine, tmp_path: Path) -> None:
    async def scenario() -> None:
        leftover = tmp_path / "workspace" / "container-dead"
        leftover.mkdir(parents=True)
        (leftover / "keeper.py").touch()
        async with session(container_engine, tmp_path) as commands:
            assert (await commands.run(Command(("true",)))).exit_code == 0
            assert not leftover.exists()

    run(scenario())


def test_input_of_megabytes_comes_back_unchanged(container_engine: TestEngine, tmp_path: Path) -> None:
    async def scenario() -> None:
        data = os.urandom(3_000_000)
        async with session(container_engine, tmp_path) as commands:
            ended = await commands.run(Command(("cat",), stdin=data, limits=Limits(output_bytes=8_000_000)))
            assert ended.stdout.bytes() == data

    run(scenario())


def test_files_are_shared_with_the_workspace_in_both_directions(container_engine: TestEngine, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with session(container_engine, tmp_path) as commands:
            work = commands.place.tree / "work"
            (work / "in").write_bytes(b"\x00\xff")
            (work / "in").chmod(0o644)
            ended = await commands.run(Command(shell("cat in > $OUTPUT_DIR/out; pwd; echo $WORK_DIR"), cwd="work"))
            assert ended.stdout.text() == "/workspace/work\n/workspace/work\n"
            made = commands.place.tree / "out" / "out"
            assert made.read_bytes() == b"\x00\xff"
            assert made.stat().st_uid == UID

    run(scenario())


def test_a_staged_skill_cannot_be_changed_but_its_venv_can(container_engine: TestEngine, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with session(container_engine, tmp_path) as commands:
            staged(commands.place, "demo")
            attempts = "cd skills/demo; echo x > data.txt; chmod 777 .; rm -rf data.txt; touch new; cd /workspace; "
            ended = await commands.run(Command(shell(f"{attempts} mv skills s; touch skills/new")))
            assert ended.stderr.text().count("Read-only file system") == 5
            assert ended.stderr.text().count("busy") == 1
            ended = await commands.run(
                Command(shell("cat data.txt; touch .venv/kept"), skill="demo", cwd="skills/demo")
            )
            assert (ended.exit_code, ended.stdout.text()) == (0, "data\n")
            skill = commands.place.tree / "skills" / "demo"
            assert sorted(os.listdir(skill)) == [".venv", "data.txt"]
            assert os.listdir(skill / ".venv") == ["kept"]

    run(scenario())


def test_a_skill_that_is_staged_later_gets_a_writable_venv_and_nothing_running_is_disturbed(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with session(container_engine, tmp_path) as commands:
            staged(commands.place, "first")
            running = await commands.start(Command(("cat",), skill="first", input_open=True))
            staged(commands.place, "second")
            ended = await commands.run(Command(shell("touch .venv/kept"), skill="second", cwd="skills/second"))
            assert (ended.exit_code, ended.stderr.text()) == (0, "")
            assert (await commands.run(Command(("true",), skill="first"))).exit_code == 0
            await running.write(b"still here")
            await running.close_input()
            assert (await running.wait()).stdout.text() == "still here"
            assert await eventually(lambda: len(commands.containers()) == 1)

    run(scenario())


def test_a_terminal_works_with_job_control_and_resizing(container_engine: TestEngine, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with session(container_engine, tmp_path) as commands:
            shell_ = await commands.start(Command(("bash", "--norc", "-i"), terminal=Terminal(30, 100)))
            await shell_.write(b"stty size; echo on > /dev/tty\n")
            assert b"30 100" in await read_until(shell_, b"on\r\n")
            await shell_.resize(40, 120)
            await shell_.write(b"stty size; sh -c 'echo going; exec sleep 1000'\n")
            assert b"40 120" in await read_until(shell_, b"going\r\n")
            await shell_.write(b"\x03")
            await shell_.write(b"echo code $?\n")
            assert b"code 130" in await read_until(shell_, b"code 130")
            await shell_.write(b"exit 7\n")
            assert (await shell_.wait()).exit_code == 7

    run(scenario())


def test_a_timeout_ends_a_tree_that_ignores_sigterm_and_forks_twice(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with session(container_engine, tmp_path) as commands:
            stubborn = (
                "trap '' TERM; (setsid bash -c 'trap \"\" TERM; while :; do sleep 1; done' &) ; sleep 1000 & wait"
            )
            limits = Limits(timeout=1.0, grace=0.1)
            ended = await commands.run(Command(shell(stubborn), limits=limits))
            assert (ended.exit_code, ended.ending) == (137, Ending.TIMED_OUT)
            counted = await commands.run(Command(shell("ls -d /proc/[0-9]* | wc -l")))
            # The first process, the keeper of this command, its shell, ls and wc.
            assert int(counted.stdout.text()) <= 5

    run(scenario())


def test_a_command_that_ends_its_keeper_takes_the_whole_container_with_it(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with session(container_engine, tmp_path) as commands:
            attack = "setsid sleep 1000 & read; kill -9 $PPID; sleep 1000"
            running = await commands.start(Command(shell(attack), input_open=True))
            first = commands.containers()
            await running.write(b"\n")
            assert (await running.wait()).ending is Ending.INTERRUPTED
            assert await eventually(lambda: not set(first) & set(commands.containers()))
            # The next command gets a new one.
            assert (await commands.run(Command(("true",)))).exit_code == 0
            assert len(commands.containers()) == 1

    run(scenario())


def test_a_command_that_ends_its_keeper_at_once_leaves_nothing_running(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with session(container_engine, tmp_path) as commands:
            assert (await commands.run(Command(("true",)))).exit_code == 0
            first = commands.containers()
            # Sooner or later than the keeper says that it runs.
            with suppress(ExecutorUnavailable):
                await commands.run(Command(python("import os, time; os.kill(os.getppid(), 9); time.sleep(1000)")))
            assert await eventually(lambda: not set(first) & set(commands.containers()))

    run(scenario())


@pytest.mark.slow
def test_a_command_that_stops_its_keeper_does_not_outlive_its_deadline_for_long(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with session(container_engine, tmp_path) as commands:
            limits = Limits(timeout=0.5, grace=0.1)
            attack = Command(shell("read; kill -STOP $PPID; sleep 1000"), limits=limits, input_open=True)
            running = await commands.start(attack)
            await running.write(b"\n")
            assert (await running.wait()).ending is Ending.TIMED_OUT
            assert await eventually(lambda: not commands.containers())

    run(scenario())


@pytest.mark.slow
def test_a_command_that_stops_its_keeper_at_once_leaves_nothing_running(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with session(container_engine, tmp_path) as commands:
            attack = Command(shell("kill -STOP $PPID; sleep 1000"), limits=Limits(timeout=0.5, grace=0.1))
            # Sooner or later than the keeper says that it runs.
            with suppress(ExecutorUnavailable):
                await commands.run(attack)
            assert await eventually(lambda: not commands.containers())

    run(scenario())


def test_a_program_or_directory_that_does_not_exist_is_the_callers_mistake(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with session(container_engine, tmp_path) as commands:
            for command in (Command(("no-such-program",)), Command(("true",), cwd="work/nowhere")):
                with pytest.raises(InvalidArgument, match="cannot be started"):
                    await commands.start(command)
            assert (await commands.run(Command(("true",)))).exit_code == 0

    run(scenario())


def test_the_network_cannot_be_asked_for(container_engine: TestEngine, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with session(container_engine, tmp_path) as commands:
            with pytest.raises(InvalidArgument, match="network"):
                await commands.start(Command(("true",), network=("example.org",)))

    run(scenario())


def test_commands_never_run_as_root(container_engine: TestEngine, tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = ContainerBackend(ContainerOptions(container_engine.image, container_engine.address))
        try:
            with pytest.raises(ExecutorUnavailable, match="never run as root"):
                await backend.attach(Place("root", made_tree(tmp_path, None), None if os.geteuid() == 0 else 0))
        finally:
            await backend.close()

    run(scenario())


HOST = """
import asyncio, sys
from pathlib import Path
from openskills.executors.spec import Command
from tests.container_engine import TestEngine
from tests.executors.containers import session

async def main():
    async with session(TestEngine(sys.argv[1], sys.argv[2], 0), Path(sys.argv[3]), id_=sys.argv[4]) as commands:
        stubborn = "trap '' TERM; setsid sleep 1000 & echo ready; sleep 1000"
        process = await commands.start(Command(("bash", "-c", stubborn), readable=True))
        while b"ready" not in (await process.read(0, wait=1)).data:
            pass
        print("ready", flush=True)
        await process.wait()

asyncio.run(main())
"""


def test_nothing_is_left_when_the_host_is_killed(container_engine: TestEngine, tmp_path: Path) -> None:
    identity = f"{tmp_path.name}-{os.getpid()}"
    arguments = [container_engine.address, container_engine.image, str(tmp_path), identity]
    with subprocess.Popen([sys.executable, "-c", HOST, *arguments], stdout=subprocess.PIPE) as host:
        assert host.stdout
        assert host.stdout.readline() == b"ready\n"
        host.send_signal(signal.SIGKILL)
    assert vanish(container_engine.address, identity)
