"""Whoever waits for starts waits for all of them, and for none that is over."""

import asyncio
import os
import re
import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.process import HeadTailBuffer, HostProcess, PipeReader, RingBuffer, StartCounter
from openskills.executors.spec import Command, EndReason, Limits, TerminalSize
from openskills.executors.supervisor import LaunchRequest, SupervisedProcess, SupervisorPool
from tests.executors.running import ENVIRONMENT, alive, eventually, open_descriptors, read_until, shell, starter


async def test_a_command_gives_its_output_and_its_exit_code(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        ended = await commands.run(Command(shell("echo out; echo err >&2; exit 3")))
        assert (ended.exit_code, ended.ending) == (3, EndReason.EXITED)
        assert (ended.stdout.text(), ended.stderr.text()) == ("out\n", "err\n")


async def test_a_signal_that_ends_a_command_is_said_as_a_shell_would(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        ended = await commands.run(Command(shell("kill -SEGV $$")))
        assert (ended.exit_code, ended.ending) == (139, EndReason.EXITED)


async def test_large_input_goes_through_and_both_outputs_are_drained(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        data = os.urandom(3_000_000)
        ended = await commands.run(Command(("tee", "/dev/stderr"), stdin=data, limits=Limits(output_bytes=8_000_000)))
        assert ended.stdout.bytes() == data
        assert ended.stderr.bytes() == data


async def test_input_that_nobody_reads_delays_nothing(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        ended = await commands.run(Command(("true",), stdin=bytes(5_000_000)))
        assert ended.exit_code == 0


async def test_a_flood_is_cut_in_the_middle_and_counted(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        ended = await commands.run(Command(shell("seq 1 500000; echo last"), limits=Limits(output_bytes=1000)))
        assert ended.stdout.head.startswith(b"1\n2\n")
        assert ended.stdout.tail.endswith(b"500000\nlast\n")
        assert ended.stdout.total == sum(len(f"{n}\n") for n in range(1, 500_001)) + 5
        assert len(ended.stdout.head) + len(ended.stdout.tail) == 1000


async def test_a_deadline_ends_a_command_that_ignores_sigterm_with_everything_it_started(tmp_path: Path) -> None:
    script = "trap '' TERM; (setsid bash -c 'trap \"\" TERM; echo $$ >one; sleep 60' &); sleep 60 & echo $! >two; wait"

    async with starter(tmp_path) as commands:
        ended = await commands.run(Command(shell(script), limits=Limits(timeout=1.0, grace=0.1)))
        assert (ended.exit_code, ended.ending) == (137, EndReason.TIMED_OUT)
        assert "after 1 s" in ended.detail
        for name in ("one", "two"):
            assert not alive(int((tmp_path / name).read_text()))


async def test_a_command_may_end_itself_within_the_grace(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        script = "trap 'echo cleaned; exit 5' TERM; echo up; while :; do sleep 0.05; done"
        ended = await commands.run(Command(shell(script), limits=Limits(timeout=2, grace=10)))
        assert (ended.exit_code, ended.ending) == (5, EndReason.TIMED_OUT)
        assert ended.stdout.text() == "up\ncleaned\n"


async def test_a_command_that_stops_itself_is_ended_at_its_deadline(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        ended = await commands.run(Command(shell("kill -STOP $$"), limits=Limits(timeout=0.3, grace=0)))
        assert ended.ending is EndReason.TIMED_OUT


async def test_a_grandchild_that_holds_the_pipes_does_not_delay_the_result(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        ended = await commands.run(
            Command(shell("(setsid sleep 300 &) ; sleep 300 & echo done"), limits=Limits(timeout=60))
        )
        assert (ended.exit_code, ended.ending) == (0, EndReason.EXITED)
        assert ended.stdout.text() == "done\n"


async def test_killing_ends_the_tree_and_may_be_said_twice(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        process = await commands.start(Command(shell("sleep 300 & echo $!; wait"), readable=True))
        child = int(await read_until(process, b"\n"))
        await asyncio.gather(process.kill(), process.kill())
        ended = await process.wait()
        assert ended.ending is EndReason.KILLED
        assert not alive(child)


async def test_a_cancelled_wait_leaves_the_command_running(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        process = await commands.start(Command(shell("read line; echo got $line"), input_open=True))
        waiting = asyncio.ensure_future(process.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await process.write(b"it\n") == 3
        assert (await process.wait()).stdout.text() == "got it\n"


async def test_what_does_not_exist_is_said_before_anything_runs(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        with pytest.raises(InvalidArgument, match="program not found"):
            await commands.start(Command(("no-such-program",)))
    async with starter(tmp_path / "nowhere") as commands:
        with pytest.raises(InvalidArgument, match="No such file"):
            await commands.start(Command(("true",)))


async def test_a_command_has_only_its_three_descriptors(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        ended = await commands.run(Command(("ls", "/proc/self/fd")))
        # The fourth is the directory that ls reads.
        assert ended.stdout.text().split() == ["0", "1", "2", "3"]


async def test_signals_of_a_command_are_as_a_shell_would_leave_them(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        ended = await commands.run(Command(("grep", "-E", "Sig(Ign|Blk)", "/proc/self/status")))
        # The C library keeps two numbers above 31 for itself.
        masks = [int(mask, 16) & 0x7FFFFFFF for mask in re.findall(r"\t(\w+)", ended.stdout.text())]
        assert masks == [0, 0]


async def test_limits_hold_for_every_descendant(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        limits = Limits(open_files=33, file_bytes=4096, memory_bytes=300_000_000)
        ended = await commands.run(
            Command(shell("bash -c 'ulimit -Hn; ulimit -Hf; ulimit -Hd; ulimit -Hc'"), limits=limits)
        )
        assert ended.stdout.text().split() == ["33", "4", str(300_000_000 // 1024), "0"]
        again = await commands.run(Command(shell("ulimit -Hn")))
        assert again.stdout.text().strip() == "1024"


async def test_reading_by_offset_sees_every_byte_once(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        process = await commands.start(Command(shell("read a; echo 1$a; read b; echo 2$b"), input_open=True))
        await process.write(b"x\n")
        first = await read_until(process, b"\n")
        assert first == b"1x\n"
        await process.write(b"y\n")
        await process.wait()
        assert (await process.read(len(first))).data == b"2y\n"
        with pytest.raises(InvalidArgument, match="ended"):
            await process.write(b"late\n")


async def test_a_process_that_does_not_read_takes_less_than_it_is_offered(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        process = await commands.start(Command(("sleep", "300"), input_open=True))
        taken = await process.write(bytes(1_000_000))
        assert 0 < taken < 1_000_000
        assert await process.write(b"more") == 0
        await process.kill()


async def test_closing_the_input_lets_a_command_see_its_end(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        process = await commands.start(Command(("cat",), stdin=b"first ", input_open=True))
        await process.write(b"second")
        await process.close_input()
        assert (await process.wait()).stdout.text() == "first second"


async def test_ctrl_c_on_a_terminal_stops_the_job_and_not_the_session(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        process = await commands.start(Command(("bash", "--norc", "-i"), terminal=TerminalSize(30, 100)))
        await process.write(b"bash -c 'stty size; echo began; exec sleep 300'\n")
        assert b"30 100" in await read_until(process, b"began\r\n")
        await process.resize(40, 120)
        await process.write(b"\x03")
        await process.write(b"stty size; exit 7\n")
        ended = await process.wait()
        assert ended.exit_code == 7
        assert b"40 120" in ended.stdout.bytes()


async def test_a_terminal_that_the_command_has_closed_is_resized_without_effect(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        text = f"exec <&- >&- 2>&-; : > {tmp_path}/closed; exec sleep 300"
        process = await commands.start(Command(shell(text), terminal=TerminalSize()))
        assert await eventually((tmp_path / "closed").exists)
        await process.read(0, wait=0.2)
        await process.resize(40, 120)
        await process.kill()


async def test_a_size_that_is_none_is_refused_and_pipes_have_none(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        before = open_descriptors()
        with pytest.raises(InvalidArgument, match="terminal"):
            await commands.start(Command(("true",), terminal=TerminalSize(0, 80)))
        assert open_descriptors() == before
        process = await commands.start(Command(("true",)))
        with pytest.raises(InvalidArgument, match="no terminal"):
            await process.resize(24, 80)
        await process.wait()


async def test_many_commands_leave_no_descriptor_behind(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        await commands.run(Command(("true",)))
        before = open_descriptors()
        for _ in range(20):
            await commands.run(Command(("cat",), stdin=b"x"))
            terminal = await commands.start(Command(("true",), terminal=TerminalSize()))
            await terminal.wait()
        assert open_descriptors() == before


async def test_a_command_whose_keeper_is_killed_is_reported_as_interrupted(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        process = await commands.start(Command(shell("echo $PPID; sleep 300"), readable=True))
        keeper = int(await read_until(process, b"\n"))
        os.kill(keeper, 9)
        ended = await process.wait()
        assert ended.ending is EndReason.INTERRUPTED
        assert (await commands.run(Command(("echo", "again")))).stdout.text() == "again\n"
        assert await eventually(lambda: not alive(keeper))


async def test_a_command_that_stops_its_keeper_is_ended_all_the_same(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        script = "echo $$; sleep 0.3; kill -STOP $PPID; trap '' TERM; sleep 300"
        ended = await commands.run(Command(shell(script), limits=Limits(timeout=1.5, grace=0)))
        assert ended.ending is EndReason.TIMED_OUT
        pid = int(ended.stdout.text())
        assert await eventually(lambda: not alive(pid))


def our_end(theirs: int) -> int:
    """The number of the other end of a pipe, which is the only other descriptor of it."""
    pipe = os.readlink(f"/proc/self/fd/{theirs}")
    return next(n for n in range(1024) if n != theirs and os.path.islink(f"/proc/self/fd/{n}") and _is(n, pipe))


def _is(number: int, pipe: str) -> bool:
    return os.readlink(f"/proc/self/fd/{number}") == pipe


async def test_a_command_whose_output_cannot_be_followed_is_ended_and_nobody_listens_to_it(tmp_path: Path) -> None:
    pool, before = SupervisorPool(), open_descriptors()
    followed, started = list[int](), list[SupervisedProcess]()

    async def launch(stdio: tuple[int, int, int]) -> SupervisedProcess:
        kept = await pool.start(LaunchRequest(shell("sleep 1000"), ENVIRONMENT, "/", dict(enumerate(stdio))))
        followed.append(our_end(stdio[1]))
        started.append(kept)
        # The loop cannot wait for a plain file.
        with open(tmp_path / "plain", "wb") as plain:
            os.dup2(plain.fileno(), our_end(stdio[2]), inheritable=False)
        return kept

    with pytest.raises(ExecutorUnavailable, match="Operation not permitted"):
        await HostProcess.start(Command(("sleep", "1000")), launch)
    assert not asyncio.get_running_loop().remove_reader(followed[0])
    assert (await started[0].wait()).status == -signal.SIGKILL
    await pool.close()
    assert open_descriptors() == before


async def test_a_terminal_for_which_there_are_not_enough_files_starts_nothing(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        await commands.run(Command(("true",)))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        first, before = os.dup(0), open_descriptors()
        try:
            # Enough for both ends, and for nothing else.
            resource.setrlimit(resource.RLIMIT_NOFILE, (first + 3, hard))
            with pytest.raises(ExecutorUnavailable, match="cannot open more files"):
                await commands.start(Command(("true",), terminal=TerminalSize()))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert open_descriptors() == before
        os.close(first)


PIECES = st.lists(st.binary(max_size=40), max_size=30)


@given(PIECES, st.integers(0, 64))
def test_a_capture_keeps_the_head_and_the_tail_and_counts_the_rest(pieces: list[bytes], limit: int) -> None:
    capture = HeadTailBuffer(limit)
    for piece in pieces:
        capture.add(piece)
    whole, kept = b"".join(pieces), capture.to_captured()
    assert len(kept.head) + len(kept.tail) <= limit
    assert kept.total == len(whole)
    assert whole.startswith(kept.head)
    assert whole.endswith(kept.tail)
    if len(whole) <= limit:
        assert kept.head + kept.tail == whole
        assert kept.cut == 0


def test_a_full_capture_uses_all_of_its_room() -> None:
    capture = HeadTailBuffer(10)
    for _ in range(1000):
        capture.add(b"abc")
    kept = capture.to_captured()
    assert len(kept.head) == len(kept.tail) == 5
    assert capture.is_full


@given(PIECES, st.integers(1, 32))
def test_a_ring_gives_every_byte_once_to_who_reads_in_time(pieces: list[bytes], limit: int) -> None:
    ring = RingBuffer(1000)
    seen, offset = b"", 0
    for piece in pieces:
        ring.add(piece)
        output = ring.read(offset, limit, ended=False)
        seen, offset = seen + output.data, output.next_offset
    while (output := ring.read(offset, limit, ended=True)).data:
        seen, offset = seen + output.data, output.next_offset
    assert output.ended
    assert seen == b"".join(pieces)


def test_a_ring_says_how_much_a_late_reader_has_missed() -> None:
    ring = RingBuffer(4)
    for _ in range(10):
        ring.add(b"0123456789")
    output = ring.read(0, 100, ended=False)
    assert output.missed == output.offset
    assert output.offset + len(output.data) == output.next_offset == 100
    assert 4 <= len(output.data) <= 18


def test_an_offset_beyond_the_end_reads_nothing() -> None:
    ring = RingBuffer(10)
    ring.add(b"abc")
    output = ring.read(99, 10, ended=False)
    assert (output.data, output.next_offset, output.missed) == (b"", 3, 0)


async def test_without_a_start_nobody_waits() -> None:
    await StartCounter().wait_idle()


async def test_waiting_ends_with_the_last_start_also_when_that_fails() -> None:
    starts = StartCounter()
    with starts:
        with pytest.raises(RuntimeError), starts:
            raise RuntimeError
        waiting = asyncio.ensure_future(starts.wait_idle())
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


class Ear:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard = b""

    def __call__(self, data: bytes) -> bool:
        self.heard += data
        return False


async def test_what_was_written_before_the_other_side_ended_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    hear = Ear()
    reader = PipeReader(reading, hear)
    os.write(writing, b"last words")
    os.close(writing)
    reader.drain()
    assert (hear.heard, reader.fault, reader.descriptor) == (b"last words", None, -1)


async def test_the_end_of_a_terminal_is_not_a_fault() -> None:
    master, slave = os.openpty()
    os.set_blocking(master, False)
    hear = Ear()
    reader = PipeReader(master, hear)
    os.write(slave, b"typed")
    os.close(slave)
    reader.drain()
    assert (hear.heard, reader.fault) == (b"typed", None)


async def test_a_descriptor_that_became_somebody_elses_is_a_fault_and_stays_open(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    reader = PipeReader(reading, Ear())
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        asyncio.get_running_loop().remove_reader(reading)
        os.dup2(directory, reading)
        reader.drain()
        assert reader.fault is not None
        assert os.path.samestat(os.fstat(reading), os.fstat(directory))
    finally:
        for descriptor in (directory, reading, writing):
            os.close(descriptor)


async def test_a_command_whose_output_cannot_be_read_is_not_a_command_without_output(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        before = set(os.listdir("/proc/self/fd"))
        process = await commands.start(Command(shell("read line; echo $line"), input_open=True))
        pipes = [int(name) for name in set(os.listdir("/proc/self/fd")) - before if _reads_a_pipe(int(name))]
        directory = os.open(tmp_path, os.O_RDONLY)
        for descriptor in pipes:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.dup2(directory, descriptor)
        assert await process.write(b"said\n") == 5
        with pytest.raises(ExecutorUnavailable, match="which has ended: Is a directory"):
            await process.wait()
        for descriptor in (directory, *pipes):
            os.close(descriptor)


def _reads_a_pipe(descriptor: int) -> bool:
    try:
        target = os.readlink(f"/proc/self/fd/{descriptor}")
        flags = Path(f"/proc/self/fdinfo/{descriptor}").read_text("ascii").split("flags:")[1].split()[0]
    except FileNotFoundError:
        return False
    return target.startswith("pipe:") and int(flags, 8) & os.O_ACCMODE == os.O_RDONLY
