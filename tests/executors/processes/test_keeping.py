"""The host's side of a keeper, also when the other side is not what it should be."""

import asyncio
import os
import resource
import signal
import socket
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.processes.keeping import Exit, Keeper, Kept, Launch, NotBegun
from openskills.sync import run
from tests.conftest import needs_root
from tests.executors.running import alive, eventually, open_descriptors

ENV = {"PATH": "/usr/bin:/bin"}


def launch(*argv: str, cwd: str | int = "/", env: dict[str, str] | None = None) -> Launch:
    return Launch(argv, env or ENV, cwd, {0: 0, 1: 1, 2: 2})


def test_many_commands_run_over_one_connection() -> None:
    async def scenario() -> None:
        keeper = await Keeper.begin()
        kept = [await keeper.start(launch("bash", "-c", f"exit {number}")) for number in range(20)]
        assert [(await one.exited()).status for one in kept] == list(range(20))
        await keeper.close()

    run(scenario())


def test_who_asks_is_called_when_a_command_ends_and_also_when_it_has() -> None:
    async def scenario() -> None:
        keeper = await Keeper.begin()
        heard: list[int] = []
        kept = await keeper.start(launch("bash", "-c", "exit 3"))
        kept.then(lambda end: heard.append(end.status))
        await kept.exited()
        kept.then(lambda end: heard.append(end.status + 1))
        await asyncio.sleep(0)
        assert heard == [3, 4]
        await keeper.close()

    run(scenario())


def test_a_keeper_that_is_let_go_takes_its_commands_along() -> None:
    async def scenario() -> None:
        keeper = await Keeper.begin()
        kept = await keeper.start(launch("sleep", "300"))
        keeper.let_go()
        keeper.let_go()
        assert (await kept.exited()).lost
        assert await eventually(lambda: not alive(kept.pid))
        assert not keeper.usable
        await keeper.close()

    run(scenario())


def test_a_start_that_is_broken_off_leaves_nothing_running() -> None:
    async def scenario() -> None:
        keeper = await Keeper.begin()
        before = set(children(keeper))
        for _ in range(20):
            starting = asyncio.ensure_future(keeper.start(launch("sleep", "300")))
            await asyncio.sleep(0)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
        assert (await (await keeper.start(launch("true"))).exited()).status == 0
        assert await eventually(lambda: set(children(keeper)) == before)
        await keeper.close()

    run(scenario())


class Full:
    """A keeper whose connection has no room: what is said to it waits until `heard` reads."""

    def __init__(self) -> None:
        ours, self._theirs = socket.socketpair()
        self.keeper = Keeper(ours)
        self._tasks: list[asyncio.Task[Kept]] = []

    async def fill(self) -> None:
        """Say more than there is room for."""
        await self.start(launch("true", env={"LONG": "x" * 1_000_000}))

    async def start(self, wanted: Launch) -> "asyncio.Task[Kept]":
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
        self.keeper.let_go()
        self._theirs.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def test_what_waits_to_be_sent_goes_with_the_files_it_was_said_with(tmp_path: Path) -> None:
    async def scenario() -> None:
        before = open_descriptors()
        full = Full()
        await full.fill()
        wanted, other = tmp_path / "wanted", tmp_path / "other"
        number = os.open(wanted, os.O_CREAT)
        starting = await full.start(Launch(["true"], ENV, "/", {0: number}))
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

    run(scenario())


def test_a_keeper_that_ends_with_things_unsaid_leaves_no_descriptor() -> None:
    async def scenario() -> None:
        before = open_descriptors()
        full = Full()
        await full.fill()
        starting = await full.start(launch("true"))
        forked = await full.keeper.fork()
        await full.end()
        with pytest.raises(ExecutorUnavailable, match="has ended"):
            await starting
        # Nobody has the other end of it.
        assert await eventually(lambda: not forked.usable)
        assert open_descriptors() == before

    run(scenario())


def test_what_waits_is_not_started_when_its_files_cannot_be_kept_open() -> None:
    async def scenario() -> None:
        full = Full()
        await full.fill()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        before = open_descriptors()
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (_next_number() + 2, hard))
            starting = await full.start(launch("true"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with pytest.raises(NotBegun, match="Too many open files"):
            await starting
        assert open_descriptors() == before
        received = await full.heard(3)
        for descriptor in received:
            os.close(descriptor)
        assert full.keeper.usable
        await full.end()

    run(scenario())


def _next_number() -> int:
    """The number that the next descriptor will have."""
    number = os.dup(0)
    os.close(number)
    return number


def children(keeper: Keeper) -> list[str]:
    pid = getattr(keeper, "_helper").pid  # noqa: B009 - who looks from outside does not ask either
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_a_directory_may_be_given_as_a_descriptor(tmp_path: Path) -> None:
    async def scenario() -> None:
        keeper = await Keeper.begin()
        directory = os.open(tmp_path, os.O_RDONLY)
        kept = await keeper.start(launch("touch", "here", cwd=directory))
        os.close(directory)
        assert (await kept.exited()).status == 0
        assert (tmp_path / "here").exists()
        await keeper.close()

    run(scenario())


def test_a_very_large_environment_and_command_line_get_through() -> None:
    async def scenario() -> None:
        keeper = await Keeper.begin()
        env = {**ENV, **{f"V{number}": "x" * 100_000 for number in range(8)}}
        started = [keeper.start(launch("bash", "-c", "exit ${#V7}", "x" * 100_000, env=env)) for _ in range(4)]
        for kept in await asyncio.gather(*started):
            assert (await kept.exited()).status == 100_000 % 256
        await keeper.close()

    run(scenario())


@pytest.mark.parametrize("program", ["no-such-program", "/etc/passwd", "/"])
def test_what_is_no_program_is_an_invalid_argument(program: str) -> None:
    async def scenario() -> None:
        keeper = await Keeper.begin()
        with pytest.raises(InvalidArgument, match="cannot be started"):
            await keeper.start(launch(program))
        assert (await (await keeper.start(launch("true"))).exited()).status == 0
        await keeper.close()

    run(scenario())


def test_a_command_line_that_no_program_can_have_ends_nobody_else() -> None:
    async def scenario() -> None:
        keeper = await Keeper.begin()
        running = await keeper.start(launch("sleep", "300"))
        with pytest.raises(InvalidArgument, match="null"):
            await keeper.start(launch("echo", "a\0b"))
        assert alive(running.pid)
        await keeper.close()

    run(scenario())


@needs_root("only root can become somebody else")
def test_root_may_start_a_command_as_another_user_and_stays_root() -> None:
    async def scenario() -> None:
        keeper = await Keeper.begin()
        script = "test $(id -u) = 61999 && test $(id -G) = 61999 && ! kill -0 $PPID 2>/dev/null"
        kept = await keeper.start(replace(launch("bash", "-c", script), user=61999))
        assert (await kept.exited()).status == 0
        assert (await (await keeper.start(launch("bash", "-c", "test $(id -u) = 0"))).exited()).status == 0
        await keeper.close()

    run(scenario())


def test_closing_ends_all_commands() -> None:
    async def scenario() -> None:
        keeper = await Keeper.begin()
        kept = await keeper.start(launch("sleep", "300"))
        await keeper.close()
        assert (await kept.exited()).lost
        assert await eventually(lambda: not alive(kept.pid))
        with pytest.raises(ExecutorUnavailable, match="has ended"):
            await keeper.start(launch("true"))

    run(scenario())


def test_a_handshake_lets_a_command_begin_only_when_it_is_released() -> None:
    async def scenario() -> None:
        keeper = await Keeper.begin()
        script = "echo >&10; read -r -u 11 || exit 125; exit 7"
        held = await keeper.start(Launch(["bash", "-c", script], ENV, "/", {0: 0}, handshake=(10, 11), hold=True))
        await held.ready()
        assert held.ready_at is not None
        held.release()
        assert await held.exited() == Exit(7, was_ready=True, cpu_ms=(await held.exited()).cpu_ms)
        never = await keeper.start(Launch(["bash", "-c", "exit 3"], ENV, "/", {0: 0}, handshake=(10, 11)))
        end = await never.exited()
        assert (end.status, end.was_ready) == (3, False)
        await keeper.close()

    run(scenario())


def test_nobody_lets_a_command_begin_whose_host_has_gone() -> None:
    async def scenario() -> None:
        keeper = await Keeper.begin()
        reading, writing = os.pipe()
        script = "echo >&10; read -r -u 11 || exit 125; echo ran"
        held = await keeper.start(Launch(["bash", "-c", script], ENV, "/", {1: writing}, handshake=(10, 11), hold=True))
        os.close(writing)
        await held.ready()
        await keeper.close()
        assert os.read(reading, 100) == b""
        os.close(reading)

    run(scenario())


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
def test_a_keeper_that_talks_nonsense_is_given_up(garbage: bytes) -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        keeper = Keeper(ours)
        starting = asyncio.ensure_future(keeper.start(launch("true")))
        await asyncio.sleep(0)
        theirs.sendall(garbage)
        with pytest.raises(ExecutorUnavailable):
            await asyncio.wait_for(starting, 20)
        assert not keeper.usable
        theirs.close()

    run(scenario())


def test_a_killed_keeper_loses_its_commands_and_leaves_no_descriptor() -> None:
    async def scenario() -> None:
        before = open_descriptors()
        keeper = await Keeper.begin()
        reading, writing = os.pipe()
        kept = await keeper.start(Launch(["bash", "-c", "read; kill -9 $PPID; sleep 300"], ENV, "/", {0: reading}))
        os.close(reading)
        # It must not be gone before it has said that the command is there.
        os.write(writing, b"\n")
        os.close(writing)
        assert (await kept.exited()).lost
        assert not keeper.usable
        await keeper.close()
        os.kill(kept.pid, signal.SIGKILL)
        assert open_descriptors() == before

    run(scenario())
