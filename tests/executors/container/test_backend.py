""""""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.container.backend import (
    ContainerBackend,
    ContainerLink,
    LiveContainer,
    remove_orphaned_containers,
)
from openskills.executors.container.engine import ContainerEngine
from openskills.executors.container.spec import (
    HOST_LABEL,
    WORKSPACE_LABEL,
    ContainerImage,
    ContainerOptions,
    ContainerSession,
    build_create_request,
)
from openskills.executors.programs import container
from openskills.executors.protocol import WorkspaceDirectory
from openskills.executors.spec import Command, EndReason, Isolation, Limits, TerminalSize
from openskills.executors.supervisor import LaunchRequest, create_marker, is_orphaned
from tests.container_engine import TestEngine
from tests.executors.containers import UID, containers_of, made_tree, python, session, staged, vanish
from tests.executors.running import eventually, open_descriptors, read_until, shell


async def test_a_container_passes_its_self_test(container_engine: TestEngine) -> None:
    backend = ContainerBackend(ContainerOptions(container_engine.image, container_engine.address))
    try:
        assert await backend.check() is Isolation.CONTAINER
    finally:
        await backend.close()

    assert vanish(container_engine.address, "check")


async def test_a_command_gives_its_output_and_its_exit_code(container_engine: TestEngine, tmp_path: Path) -> None:
    async with session(container_engine, tmp_path) as commands:
        ended = await commands.run(Command(shell("echo out; echo err >&2; exit 3")))
        assert (ended.exit_code, ended.ending) == (3, EndReason.EXITED)
        assert (ended.stdout.text(), ended.stderr.text()) == ("out\n", "err\n")
        ended = await commands.run(Command(shell("kill -SEGV $$")))
        assert (ended.exit_code, ended.ending) == (139, EndReason.EXITED)


async def test_all_commands_of_a_session_share_one_container_that_goes_with_it(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    before = open_descriptors()
    async with session(container_engine, tmp_path) as commands:
        assert commands.containers() == []
        await asyncio.gather(*(commands.run(Command(shell(f"echo {n} > /tmp/{n}"))) for n in range(5)))
        assert (await commands.run(Command(shell("cat /tmp/?")))).stdout.text() == "0\n1\n2\n3\n4\n"
        assert len(commands.containers()) == 1
    assert commands.containers() == []
    assert os.listdir(commands.place.tree.parent) == ["tree"]
    assert open_descriptors() <= before + 1  # the event loop of the bridge may have been made meanwhile


async def test_what_a_killed_host_left_in_the_workspace_is_removed(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    leftover = tmp_path / "workspace" / "container-dead"
    leftover.mkdir(parents=True)
    (leftover / "keeper.py").touch()
    async with session(container_engine, tmp_path) as commands:
        assert (await commands.run(Command(("true",)))).exit_code == 0
        assert not leftover.exists()


async def test_input_of_megabytes_comes_back_unchanged(container_engine: TestEngine, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    async with session(container_engine, tmp_path) as commands:
        ended = await commands.run(Command(("cat",), stdin=data, limits=Limits(output_bytes=8_000_000)))
        assert ended.stdout.bytes() == data


async def test_files_are_shared_with_the_workspace_in_both_directions(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async with session(container_engine, tmp_path) as commands:
        work = commands.place.tree / "work"
        (work / "in").write_bytes(b"\x00\xff")
        (work / "in").chmod(0o644)
        ended = await commands.run(Command(shell("cat in > $OUTPUT_DIR/out; pwd; echo $WORK_DIR"), cwd="work"))
        assert ended.stdout.text() == "/workspace/work\n/workspace/work\n"
        made = commands.place.tree / "out" / "out"
        assert made.read_bytes() == b"\x00\xff"
        assert made.stat().st_uid == UID


async def test_only_commands_of_a_skill_can_write_to_its_folder(container_engine: TestEngine, tmp_path: Path) -> None:
    async with session(container_engine, tmp_path) as commands:
        staged(commands.place, "demo")
        attempts = "cd skills/demo; echo x > data.txt; chmod 777 .; rm -rf data.txt; touch new; cd /workspace; "
        ended = await commands.run(Command(shell(f"{attempts} mv skills s; touch skills/new")))
        assert ended.stderr.text().count("Read-only file system") == 5
        assert ended.stderr.text().count("busy") == 1
        ended = await commands.run(
            Command(shell("cat data.txt; touch .venv/kept new"), skill="demo", cwd="skills/demo")
        )
        assert (ended.exit_code, ended.stdout.text()) == (0, "data\n")
        skill = commands.place.tree / "skills" / "demo"
        assert sorted(os.listdir(skill)) == [".venv", "data.txt", "new"]
        assert os.listdir(skill / ".venv") == ["kept"]


async def test_a_skill_that_is_staged_again_gets_a_new_container(container_engine: TestEngine, tmp_path: Path) -> None:
    async with session(container_engine, tmp_path) as commands:
        staged(commands.place, "demo")
        assert (await commands.run(Command(("true",), skill="demo"))).exit_code == 0
        (commands.place.tree / "skills" / "demo").rename(commands.place.tree / "skills" / "replaced")
        staged(commands.place, "demo", "newer\n")
        ended = await commands.run(Command(shell("cat data.txt; touch new"), skill="demo", cwd="skills/demo"))
        assert (ended.exit_code, ended.stdout.text()) == (0, "newer\n")
        assert (commands.place.tree / "skills" / "demo" / "new").exists()


async def test_a_skill_that_is_staged_later_gets_a_writable_folder_and_nothing_running_is_disturbed(
    container_engine: TestEngine, tmp_path: Path
) -> None:
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
        assert len(commands.containers()) == 2


async def test_of_many_skills_those_that_were_used_longest_ago_lose_their_containers(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async with session(container_engine, tmp_path) as commands:
        for number in range(6):
            staged(commands.place, f"skill{number}")
            assert (await commands.run(Command(("true",), skill=f"skill{number}"))).exit_code == 0
        assert await eventually(lambda: len(commands.containers()) == 4)


async def test_a_terminal_works_with_job_control_and_resizing(container_engine: TestEngine, tmp_path: Path) -> None:
    async with session(container_engine, tmp_path) as commands:
        shell_ = await commands.start(Command(("bash", "--norc", "-i"), terminal=TerminalSize(30, 100)))
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


async def test_a_timeout_ends_a_tree_that_ignores_sigterm_and_forks_twice(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async with session(container_engine, tmp_path) as commands:
        stubborn = "trap '' TERM; (setsid bash -c 'trap \"\" TERM; while :; do sleep 1; done' &) ; sleep 1000 & wait"
        limits = Limits(timeout=1.0, grace=0.1)
        ended = await commands.run(Command(shell(stubborn), limits=limits))
        assert (ended.exit_code, ended.ending) == (137, EndReason.TIMED_OUT)
        counted = await commands.run(Command(shell("ls -d /proc/[0-9]* | wc -l")))
        # The first process, the keeper of this command, its shell, ls and wc.
        assert int(counted.stdout.text()) <= 5


async def test_a_command_that_ends_its_keeper_takes_the_whole_container_with_it(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async with session(container_engine, tmp_path) as commands:
        attack = "setsid sleep 1000 & read; kill -9 $PPID; sleep 1000"
        running = await commands.start(Command(shell(attack), input_open=True))
        first = commands.containers()
        await running.write(b"\n")
        assert (await running.wait()).ending is EndReason.INTERRUPTED
        assert await eventually(lambda: not set(first) & set(commands.containers()))
        # The next command gets a new one.
        assert (await commands.run(Command(("true",)))).exit_code == 0
        assert len(commands.containers()) == 1


async def test_a_command_that_ends_its_keeper_at_once_leaves_nothing_running(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async with session(container_engine, tmp_path) as commands:
        assert (await commands.run(Command(("true",)))).exit_code == 0
        first = commands.containers()
        # Sooner or later than the keeper says that it runs.
        with suppress(ExecutorUnavailable):
            await commands.run(Command(python("import os, time; os.kill(os.getppid(), 9); time.sleep(1000)")))
        assert await eventually(lambda: not set(first) & set(commands.containers()))


@pytest.mark.slow
async def test_a_command_that_stops_its_keeper_does_not_outlive_its_deadline_for_long(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async with session(container_engine, tmp_path) as commands:
        limits = Limits(timeout=3, grace=0.1)
        attack = Command(shell("read; kill -STOP $PPID; sleep 1000"), limits=limits, input_open=True)
        running = await commands.start(attack)
        await running.write(b"\n")
        assert (await running.wait()).ending is EndReason.TIMED_OUT
        assert await eventually(lambda: not commands.containers())


@pytest.mark.slow
async def test_a_command_that_stops_its_keeper_at_once_leaves_nothing_running(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async with session(container_engine, tmp_path) as commands:
        attack = Command(shell("kill -STOP $PPID; sleep 1000"), limits=Limits(timeout=0.5, grace=0.1))
        # Sooner or later than the keeper says that it runs.
        with suppress(ExecutorUnavailable):
            await commands.run(attack)
        assert await eventually(lambda: not commands.containers())


async def test_a_program_or_directory_that_does_not_exist_is_the_callers_mistake(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async with session(container_engine, tmp_path) as commands:
        for command in (Command(("no-such-program",)), Command(("true",), cwd="work/nowhere")):
            with pytest.raises(InvalidArgument, match="cannot be started"):
                await commands.start(command)
        assert (await commands.run(Command(("true",)))).exit_code == 0


async def test_the_network_cannot_be_asked_for(container_engine: TestEngine, tmp_path: Path) -> None:
    async with session(container_engine, tmp_path) as commands:
        with pytest.raises(InvalidArgument, match="network"):
            await commands.start(Command(("true",), network=("example.org",)))


async def test_commands_never_run_as_root(container_engine: TestEngine, tmp_path: Path) -> None:
    backend = ContainerBackend(ContainerOptions(container_engine.image, container_engine.address))
    try:
        with pytest.raises(ExecutorUnavailable, match="do not run as root"):
            await backend.attach(
                WorkspaceDirectory("root", made_tree(tmp_path, None), None if os.geteuid() == 0 else 0)
            )
    finally:
        await backend.close()


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


@asynccontextmanager
async def engine_of(engine: TestEngine) -> AsyncGenerator[ContainerEngine]:
    connected = ContainerEngine(engine.address)
    try:
        yield connected
    finally:
        connected.close()


async def begun(
    engine: ContainerEngine, image: str, tree: Path, options: ContainerOptions | None = None
) -> LiveContainer:
    found = engine.find_image(image)
    identity = tree.parents[1].name
    return await LiveContainer.start(engine, options or ContainerOptions(), found, identity, tree, (UID, UID), None)


def launch(*argv: str) -> LaunchRequest:
    return LaunchRequest(argv, {"PATH": os.defpath}, "/", {})


async def test_a_retired_container_lets_nobody_in_and_goes_with_its_last_command(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async with engine_of(container_engine) as engine:
        container = await begun(engine, container_engine.image, made_tree(tmp_path, UID))
        container.reserve()
        kept = await container.run(launch("sleep", "1000"), ())
        await container.retire()
        assert not container.is_usable
        assert engine.is_running(container.id)
        kept.signal(9)
        assert (await kept.wait()).status == -9
        while not container.is_closed:
            await asyncio.sleep(0.01)
        await container.close()
        assert not engine.is_running(container.id)


async def test_closing_ends_what_runs_and_twice_is_once(container_engine: TestEngine, tmp_path: Path) -> None:
    async with engine_of(container_engine) as engine:
        container = await begun(engine, container_engine.image, made_tree(tmp_path, UID))
        container.reserve()
        kept = await container.run(launch("sleep", "1000"), ())
        await asyncio.gather(container.close(), container.close())
        assert (await kept.wait()).lost
        assert containers_of(container_engine.address, tmp_path.name) == []


async def test_a_container_that_somebody_else_removed_is_not_used_again(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async with engine_of(container_engine) as engine:
        container = await begun(engine, container_engine.image, made_tree(tmp_path, UID))
        engine.remove(container.id)
        while container.is_usable:
            await asyncio.sleep(0.01)
        container.reserve()
        with pytest.raises(ExecutorUnavailable):
            await container.run(launch("true"), ())
        await container.close()


async def test_a_container_that_cannot_begin_leaves_nothing(container_engine: TestEngine, tmp_path: Path) -> None:
    async with engine_of(container_engine) as engine:
        tree = made_tree(tmp_path, UID)
        options = ContainerOptions(runtime="no-such-runtime")
        with pytest.raises(ExecutorUnavailable, match="no-such-runtime"):
            await begun(engine, container_engine.image, tree, options)
        (tree / "skills").rmdir()
        with pytest.raises(ExecutorUnavailable, match="must share the file system"):
            await begun(engine, container_engine.image, tree)
        assert containers_of(container_engine.address, tmp_path.name) == []
        assert os.listdir(tree.parent) == ["tree"]


async def test_a_beginning_that_is_given_up_leaves_nothing(container_engine: TestEngine, tmp_path: Path) -> None:
    async with engine_of(container_engine) as engine:
        tree = made_tree(tmp_path, UID)
        for pause in (0.0, 0.02, 0.1):
            beginning = asyncio.get_running_loop().create_task(begun(engine, container_engine.image, tree))
            await asyncio.sleep(pause)
            # After the longest pause a quick engine has started it.
            if beginning.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await beginning
            else:
                await (await beginning).close()
        assert containers_of(container_engine.address, tmp_path.name) == []
        assert os.listdir(tree.parent) == ["tree"]


LINK_UID = os.getuid()


async def always() -> bool:
    return True


async def never() -> bool:
    return False


async def called(link: ContainerLink, *words: bytes) -> socket.socket:
    """Call as a container does, say something, and be taken."""
    loop = asyncio.get_running_loop()
    taking = loop.create_task(link.accept(always))
    with socket.socket(socket.AF_UNIX) as caller:
        descriptor = os.open(link.directory, os.O_PATH)
        try:
            caller.setblocking(False)
            await loop.sock_connect(caller, f"/proc/self/fd/{descriptor}/{container.SOCKET}")
        finally:
            os.close(descriptor)
        for word in words:
            await loop.sock_sendall(caller, word)
            await asyncio.sleep(0)
        caller.shutdown(socket.SHUT_WR)
        return await taking


async def test_the_first_call_is_taken_and_no_other_can_be_made(tmp_path: Path) -> None:
    link = ContainerLink(tmp_path, LINK_UID, LINK_UID)
    connection = await called(link, b'{"problem"', b": null}\n")
    with connection:
        assert not (link.directory / container.SOCKET).exists()
    link.close()
    assert os.listdir(tmp_path) == []


async def test_both_names_of_the_interpreter_lead_to_what_the_container_says(tmp_path: Path) -> None:
    link = ContainerLink(tmp_path, LINK_UID, LINK_UID)
    (await called(link, b'{"problem": null, "python": "/opt/py/bin/python3"}\n')).close()
    links = link.directory / "bin"
    assert {name: os.readlink(links / name) for name in os.listdir(links)} == {
        "python": "/opt/py/bin/python3",
        "python3": "/opt/py/bin/python3",
    }
    link.close()
    assert os.listdir(tmp_path) == []


async def test_it_lies_as_deep_as_it_likes(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 150) / ("e" * 150)
    deep.mkdir(parents=True)
    link = ContainerLink(deep, LINK_UID, LINK_UID)
    (await called(link, b'{"problem": null}\n')).close()
    link.close()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (b'{"problem": "it has no bash"}\n', "unsuitable container image: it has no bash"),
        (b"", "closed the connection"),
        (b"x" * 10_000, "closed the connection"),
        (b"garbage\n", "invalid message"),
        (b"[]\n", "invalid message"),
        (b"\xff\n", "invalid message"),
    ],
)
async def test_a_caller_that_says_something_else_is_refused(tmp_path: Path, words: bytes, reason: str) -> None:
    link = ContainerLink(tmp_path, LINK_UID, LINK_UID)
    try:
        with pytest.raises(ExecutorUnavailable, match=reason):
            await called(link, words)
    finally:
        link.close()


async def test_a_caller_of_another_user_is_refused_with_the_kind_of_engine_to_use(tmp_path: Path) -> None:
    link = ContainerLink(tmp_path, LINK_UID + 1, LINK_UID)
    try:
        with pytest.raises(ExecutorUnavailable, match="userns-remap"):
            await called(link, b'{"problem": null}\n')
    finally:
        link.close()


async def test_a_container_that_ended_without_a_call_is_not_waited_for(tmp_path: Path) -> None:
    link = ContainerLink(tmp_path, LINK_UID, LINK_UID)
    try:
        with pytest.raises(ExecutorUnavailable, match="ended before it connected; the engine must run on this machine"):
            await link.accept(never)
    finally:
        link.close()


async def test_waiting_for_a_call_can_be_given_up(tmp_path: Path) -> None:
    link = ContainerLink(tmp_path, LINK_UID, LINK_UID)
    taking = asyncio.get_running_loop().create_task(link.accept(always))
    await asyncio.sleep(0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    link.close()
    assert os.listdir(tmp_path) == []


PRINT_MARK = "from openskills.executors.supervisor import create_marker; print(create_marker(), flush=True); input()"


@contextmanager
def other_process() -> Generator[str]:
    """The mark of a process that lives as long as the block."""
    command = [sys.executable, "-c", PRINT_MARK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def test_a_process_is_dead_when_it_has_ended() -> None:
    with other_process() as mark:
        assert not is_orphaned(mark)
    assert is_orphaned(mark)


def test_containers_of_dead_hosts_are_removed_and_those_of_living_ones_stay(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    tree = made_tree(tmp_path, UID)
    for name in ("passwd", "group", "resolv.conf"):
        (tmp_path / name).touch()
    engine = ContainerEngine(container_engine.address)
    image = ContainerImage(container_engine.image)

    def made(mark: object) -> str:
        labels = ((WORKSPACE_LABEL, tmp_path.name), (HOST_LABEL, str(mark)))
        return engine.create(
            build_create_request(
                ContainerOptions(), image, ContainerSession(str(tree), str(tmp_path), UID, UID, None, labels)
            )
        )

    with other_process() as mark:
        doomed = made(mark)
    ours, foreign = made(create_marker()), made("somebody else")
    try:
        removed = remove_orphaned_containers(engine)
        left = [found for found, _ in engine.list_by_label(f"{WORKSPACE_LABEL}={tmp_path.name}")]
        assert doomed in removed
        assert sorted(left) == sorted([ours, foreign])
    finally:
        for container in (ours, foreign, doomed):
            engine.remove(container)
        engine.close()
