"""The host's side of a keeper, also when the other side is not what it should be.

Keepers that are used again, and those that are not.
"""

import asyncio
import os
import resource
import signal
import socket
import struct
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.spec import Command, Limits
from openskills.executors.supervisor import (
    MARKER_VARIABLE,
    ExitStatus,
    LaunchRequest,
    SpawnError,
    SupervisedProcess,
    Supervisor,
    SupervisorPool,
    create_marker,
    is_orphaned,
    kill_orphans,
    to_rlimits,
)
from tests.conftest import needs_root
from tests.executors.running import alive, eventually, open_descriptors, shell, starter

ENV = {"PATH": "/usr/bin:/bin"}


def launch(*argv: str, cwd: str | int = "/", env: dict[str, str] | None = None) -> LaunchRequest:
    return LaunchRequest(argv, env or ENV, cwd, {0: 0, 1: 1, 2: 2})


async def test_many_commands_run_over_one_connection() -> None:
    keeper = await Supervisor.spawn()
    kept = [await keeper.start(launch("bash", "-c", f"exit {number}")) for number in range(20)]
    assert [(await one.wait()).status for one in kept] == list(range(20))
    await keeper.close()


async def test_who_asks_is_called_when_a_command_ends_and_also_when_it_has() -> None:
    keeper = await Supervisor.spawn()
    heard: list[int] = []
    kept = await keeper.start(launch("bash", "-c", "exit 3"))
    kept.add_done_callback(lambda end: heard.append(end.status))
    await kept.wait()
    kept.add_done_callback(lambda end: heard.append(end.status + 1))
    await asyncio.sleep(0)
    assert heard == [3, 4]
    await keeper.close()


async def test_a_keeper_that_is_let_go_takes_its_commands_along() -> None:
    keeper = await Supervisor.spawn()
    kept = await keeper.start(launch("sleep", "300"))
    keeper.close_nowait()
    keeper.close_nowait()
    assert (await kept.wait()).lost
    assert await eventually(lambda: not alive(kept.pid))
    assert not keeper.is_usable
    await keeper.close()


async def test_a_start_that_is_broken_off_leaves_nothing_running() -> None:
    keeper = await Supervisor.spawn()
    before = set(children(keeper))
    for _ in range(20):
        starting = asyncio.ensure_future(keeper.start(launch("sleep", "300")))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert (await (await keeper.start(launch("true"))).wait()).status == 0
    assert await eventually(lambda: set(children(keeper)) == before)
    await keeper.close()


class Full:
    """A keeper whose connection has no room: what is said to it waits until `heard` reads."""

    def __init__(self) -> None:
        ours, self._theirs = socket.socketpair()
        self.keeper = Supervisor(ours)
        self._tasks: list[asyncio.Task[SupervisedProcess]] = []

    async def fill(self) -> None:
        """Say more than there is room for."""
        await self.start(launch("true", env={"LONG": "x" * 1_000_000}))

    async def start(self, wanted: LaunchRequest) -> "asyncio.Task[SupervisedProcess]":
        """A start of which everything has been said that can be."""
        task = asyncio.create_task(self.keeper.start(wanted))
        self._tasks.append(task)
        await asyncio.sleep(0)
        return task

    async def heard(self, descriptors: int) -> list[int]:
        """The descriptors that come, up to so many."""
        self._theirs.setblocking(False)
        found: list[int] = []
        while len(found) < descriptors:
            with suppress(BlockingIOError):
                found += socket.recv_fds(self._theirs, 65536, 16)[1]
            await asyncio.sleep(0)
        return found

    async def end(self) -> None:
        """Nobody reads any more."""
        self.keeper.close_nowait()
        self._theirs.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def test_what_waits_to_be_sent_goes_with_the_files_it_was_said_with(tmp_path: Path) -> None:
    before = open_descriptors()
    full = Full()
    await full.fill()
    wanted, other = tmp_path / "wanted", tmp_path / "other"
    number = os.open(wanted, os.O_CREAT)
    starting = await full.start(LaunchRequest(["true"], ENV, "/", {0: number}))
    starting.cancel()
    await asyncio.wait([starting])
    # As every caller does; the next file that is opened gets the number.
    os.close(number)
    assert os.open(other, os.O_CREAT) == number
    received = await full.heard(4)
    assert os.path.samestat(os.fstat(received[3]), wanted.stat())
    for descriptor in (number, *received):
        os.close(descriptor)
    await full.end()
    assert open_descriptors() == before


async def test_a_keeper_that_ends_with_things_unsaid_leaves_no_descriptor() -> None:
    before = open_descriptors()
    full = Full()
    await full.fill()
    starting = await full.start(launch("true"))
    forked = await full.keeper.fork()
    await full.end()
    with pytest.raises(ExecutorUnavailable, match="has ended"):
        await starting
    # Nobody has the other end of it.
    assert await eventually(lambda: not forked.is_usable)
    assert open_descriptors() == before


async def test_what_waits_is_not_started_when_its_files_cannot_be_kept_open() -> None:
    full = Full()
    await full.fill()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = open_descriptors()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_next_number() + 2, hard))
        starting = await full.start(launch("true"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with pytest.raises(SpawnError, match="Too many open files"):
        await starting
    assert open_descriptors() == before
    received = await full.heard(3)
    for descriptor in received:
        os.close(descriptor)
    assert full.keeper.is_usable
    await full.end()


def _next_number() -> int:
    """The number that the next descriptor will have."""
    number = os.dup(0)
    os.close(number)
    return number


def children(keeper: Supervisor) -> list[str]:
    pid = getattr(keeper, "_helper").pid  # noqa: B009 - who looks from outside does not ask either
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


async def test_a_directory_may_be_given_as_a_descriptor(tmp_path: Path) -> None:
    keeper = await Supervisor.spawn()
    directory = os.open(tmp_path, os.O_RDONLY)
    kept = await keeper.start(launch("touch", "here", cwd=directory))
    os.close(directory)
    assert (await kept.wait()).status == 0
    assert (tmp_path / "here").exists()
    await keeper.close()


async def test_a_very_large_environment_and_command_line_get_through() -> None:
    keeper = await Supervisor.spawn()
    env = {**ENV, **{f"V{number}": "x" * 100_000 for number in range(8)}}
    started = [keeper.start(launch("bash", "-c", "exit ${#V7}", "x" * 100_000, env=env)) for _ in range(4)]
    for kept in await asyncio.gather(*started):
        assert (await kept.wait()).status == 100_000 % 256
    await keeper.close()


@pytest.mark.parametrize("program", ["no-such-program", "/etc/passwd", "/"])
async def test_an_invalid_program_is_an_invalid_argument(program: str) -> None:
    keeper = await Supervisor.spawn()
    with pytest.raises(InvalidArgument, match="cannot be started"):
        await keeper.start(launch(program))
    assert (await (await keeper.start(launch("true"))).wait()).status == 0
    await keeper.close()


async def test_a_command_line_that_no_program_can_have_ends_nobody_else() -> None:
    keeper = await Supervisor.spawn()
    running = await keeper.start(launch("sleep", "300"))
    with pytest.raises(InvalidArgument, match="null"):
        await keeper.start(launch("echo", "a\0b"))
    assert alive(running.pid)
    await keeper.close()


@needs_root("only root can become somebody else")
async def test_root_may_start_a_command_as_another_user_and_stays_root() -> None:
    keeper = await Supervisor.spawn()
    script = "test $(id -u) = 61999 && test $(id -G) = 61999 && ! kill -0 $PPID 2>/dev/null"
    kept = await keeper.start(replace(launch("bash", "-c", script), user=61999))
    assert (await kept.wait()).status == 0
    assert (await (await keeper.start(launch("bash", "-c", "test $(id -u) = 0"))).wait()).status == 0
    await keeper.close()


async def test_closing_ends_all_commands() -> None:
    keeper = await Supervisor.spawn()
    kept = await keeper.start(launch("sleep", "300"))
    await keeper.close()
    assert (await kept.wait()).lost
    assert await eventually(lambda: not alive(kept.pid))
    with pytest.raises(ExecutorUnavailable, match="has ended"):
        await keeper.start(launch("true"))


async def test_a_handshake_lets_a_command_begin_only_when_it_is_released() -> None:
    keeper = await Supervisor.spawn()
    script = "echo >&10; read -r -u 11 || exit 125; exit 7"
    held = await keeper.start(LaunchRequest(["bash", "-c", script], ENV, "/", {0: 0}, handshake=(10, 11), hold=True))
    await held.wait_ready()
    assert held.ready_at is not None
    held.release()
    ended = await held.wait()
    assert ended == ExitStatus(7, was_ready=True, cpu_ms=ended.cpu_ms, memory_kib=ended.memory_kib)
    never = await keeper.start(LaunchRequest(["bash", "-c", "exit 3"], ENV, "/", {0: 0}, handshake=(10, 11)))
    end = await never.wait()
    assert (end.status, end.was_ready) == (3, False)
    await keeper.close()


async def test_nobody_lets_a_command_begin_whose_host_has_gone() -> None:
    keeper = await Supervisor.spawn()
    reading, writing = os.pipe()
    script = "echo >&10; read -r -u 11 || exit 125; echo ran"
    held = await keeper.start(
        LaunchRequest(["bash", "-c", script], ENV, "/", {1: writing}, handshake=(10, 11), hold=True)
    )
    os.close(writing)
    await held.wait_ready()
    await keeper.close()
    assert os.read(reading, 100) == b""
    os.close(reading)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xff\xff\xff",
        struct.pack("!I", 5) + b"{bad}",
        struct.pack("!I", 2) + b"[]",
        struct.pack("!I", 2) + b"{}",
        struct.pack("!I", 4) + b"null",
        struct.pack("!I", 25) + b'{"event":"exited","id":1} ',
        struct.pack("!I", 2) + b"\xff\xfe",
        struct.pack("!I", 34) + b'{"event": "exited", "id": 1e9999 }',
        struct.pack("!I", 60_000) + b"[" * 60_000,
    ],
)
async def test_a_keeper_that_talks_nonsense_is_given_up(garbage: bytes) -> None:
    ours, theirs = socket.socketpair()
    keeper = Supervisor(ours)
    starting = asyncio.ensure_future(keeper.start(launch("true")))
    await asyncio.sleep(0)
    theirs.sendall(garbage)
    with pytest.raises(ExecutorUnavailable):
        await asyncio.wait_for(starting, 20)
    assert not keeper.is_usable
    theirs.close()


async def test_a_killed_keeper_loses_its_commands_and_leaves_no_descriptor() -> None:
    before = open_descriptors()
    keeper = await Supervisor.spawn()
    reading, writing = os.pipe()
    kept = await keeper.start(LaunchRequest(["bash", "-c", "read; kill -9 $PPID; sleep 300"], ENV, "/", {0: reading}))
    os.close(reading)
    # It must not be gone before it has said that the command is there.
    os.write(writing, b"\n")
    os.close(writing)
    assert (await kept.wait()).lost
    assert not keeper.is_usable
    await keeper.close()
    os.kill(kept.pid, signal.SIGKILL)
    assert open_descriptors() == before


def marked(marker: str) -> "subprocess.Popen[bytes]":
    """A process that waits, with a marker on its command line as bwrap has it."""
    return subprocess.Popen(
        ["bash", "-c", "read", "x", "--setenv", MARKER_VARIABLE, marker, "--"], stdin=subprocess.PIPE
    )


def test_only_processes_with_that_marker_are_ended() -> None:
    ours, others = create_marker(), create_marker()
    with marked(ours) as one, marked(others) as other:
        assert kill_orphans(lambda marker: marker == ours) == 1
        assert one.wait() == -signal.SIGKILL
        assert other.poll() is None
        other.communicate(b"\n")


def test_what_a_dead_process_started_is_told_from_what_a_living_one_did() -> None:
    assert not is_orphaned(create_marker())
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    here, _, _, token = create_marker().split(".")
    assert is_orphaned(f"{here}.{ended.pid}.1.{token}")
    # The number is alive, but it is another process that has it.
    assert is_orphaned(f"{here}.{os.getpid()}.1.{token}")
    # In another container it may be anybody.
    assert not is_orphaned(f"{here[:32]}1.{ended.pid}.1.{token}")
    # The machine was started again since.
    assert is_orphaned(f"{'0' * 32}1.{os.getpid()}.1.{token}")
    for text in ("", "1", "1.2.3", "a.b.c.d", f"{here}.1.1.{token}.5", f"{here}.-1.1.{token}"):
        assert not is_orphaned(text)


def test_a_host_that_cannot_be_looked_at_is_not_called_dead() -> None:
    ours = create_marker()
    here, _, _, token = ours.split(".")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as last:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(last.fileno(), soft), hard))
            assert not is_orphaned(ours)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    # A longer path than there can be: nobody has been looked for.
    assert not is_orphaned(f"{here}.{'9' * 4200}.1.{token}")


def test_a_marker_of_a_thousand_digits_harms_nobody() -> None:
    here, _, _, token = create_marker().split(".")
    with marked(f"{here}.{'9' * 5000}.1.{token}") as one:
        assert kill_orphans(is_orphaned) >= 0
        one.communicate(b"\n")
    assert one.returncode == 0


def test_what_looks_like_a_marker_and_is_none_is_left_alone() -> None:
    with marked("no marker") as one:
        assert kill_orphans(lambda marker: marker == "no marker") == 0
        one.communicate(b"\n")
    assert one.returncode == 0


async def test_a_keeper_is_used_again_for_the_next_command_of_the_same_limits(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        parents = {(await commands.run(Command(shell("echo $PPID")))).stdout.text() for _ in range(5)}
        assert len(parents) == 1


async def test_commands_at_the_same_time_have_keepers_of_their_own(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        results = await asyncio.gather(*(commands.run(Command(shell("echo $PPID; sleep 0.2"))) for _ in range(6)))
        assert len({result.stdout.text() for result in results}) == 6


async def test_a_command_that_ends_does_not_end_the_orphans_of_another(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        script = "(setsid sleep 300 & echo $! > orphan); while :; do sleep 0.05; done"
        staying = await commands.start(Command(shell(script)))
        assert await eventually(lambda: (tmp_path / "orphan").exists() and (tmp_path / "orphan").stat().st_size > 0)
        orphan = int((tmp_path / "orphan").read_text())
        await commands.run(Command(("true",)))
        assert alive(orphan)
        await staying.kill()
        assert await eventually(lambda: not alive(orphan))


async def test_a_command_that_cannot_start_costs_no_descriptor() -> None:
    pool = SupervisorPool()
    kept = await pool.start(LaunchRequest(["true"], {"PATH": os.defpath}, "/", {}))
    await kept.wait()
    before = open_descriptors()
    for _ in range(3):
        with pytest.raises(InvalidArgument):
            await pool.start(LaunchRequest(["/no/such"], {}, "/", {}))
    assert open_descriptors() <= before
    await pool.close()


async def test_closing_ends_every_command(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        started = [await commands.start(Command(shell("echo $$; sleep 300"), readable=True)) for _ in range(3)]
        pids = [int((await process.read(0, wait=20)).data) for process in started]
    assert await eventually(lambda: not any(map(alive, pids)))


def test_what_runs_for_a_loop_that_is_closed_is_ended_by_the_next_start() -> None:
    pool = SupervisorPool()
    environment = {"PATH": os.defpath}
    loop = asyncio.new_event_loop()
    kept = loop.run_until_complete(pool.start(LaunchRequest(["sleep", "300"], environment, "/", {})))
    kept.add_done_callback(lambda _: pytest.fail("nobody of a closed loop can be told"))
    loop.close()
    assert alive(kept.pid)

    async def start_next() -> None:
        other = await pool.start(LaunchRequest(["true"], environment, "/", {}))
        assert (await other.wait()).status == 0
        assert await eventually(lambda: not alive(kept.pid))
        await pool.close()

    asyncio.run(start_next())


def test_keepers_of_another_loop_are_closed_and_not_only_forgotten() -> None:
    pool = SupervisorPool()

    async def one() -> int:
        kept = await pool.start(LaunchRequest(["true"], {"PATH": os.defpath}, "/", {}))
        await kept.wait()
        return open_descriptors()

    asyncio.run(one())
    counts = {asyncio.run(one()) for _ in range(4)}
    assert len(counts) == 1
    asyncio.run(pool.close())


def test_every_limit_becomes_one_of_the_kernels() -> None:
    limits = Limits(open_files=99, file_bytes=8, memory_bytes=77_000_000, cpu_seconds=6)
    assert set(to_rlimits(limits)) == {
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NOFILE, 99, 99),
        (resource.RLIMIT_FSIZE, 8, 8),
        (resource.RLIMIT_DATA, 77_000_000, 77_000_000),
        (resource.RLIMIT_CPU, 6, 6),
    }


def test_no_limit_leaves_only_that_nothing_dumps_core() -> None:
    limits = Limits(open_files=None, file_bytes=None, memory_bytes=None, cpu_seconds=None)
    assert to_rlimits(limits) == ((resource.RLIMIT_CORE, 0, 0),)
