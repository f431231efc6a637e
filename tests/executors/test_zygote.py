"""Warm interpreters and the slots that they serve.

The slots of a skill.

What the host and the processes of calls say to each other.

One connection to what serves calls.
"""

import ast
import asyncio
import socket
import struct
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import DeadlineExceeded, ExecutorUnavailable
from openskills.executors import programs
from openskills.executors.zygote import (
    PARTS,
    ForkServer,
    FrameParser,
    WarmStartUnsupported,
    Worker,
    WorkerPool,
    WorkerResult,
    encode_call,
)
from tests.host.mothers import call, fork_servers

Begin = Callable[[], Awaitable[ForkServer]]
PIDS = "import os; print(os.getpid(), os.getppid(), end='')"


async def test_slots_are_served_by_processes_of_their_own(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, PIDS) as begin:
        mother = await begin()
        slots = [mother.open_worker(), mother.open_worker()]
        said = [(await call(slot)).stdout for slot in (*slots, *slots)]
        assert mother.worker_count == 2
        await mother.close()
        pids = [line.split() for line in said]
    assert len({own for own, _ in pids}) == 4
    assert pids[0][1] == pids[2][1] != pids[1][1]


async def test_a_slot_that_is_ended_ends_its_call_and_no_other(tmp_path: Path) -> None:
    text = "import os, time\nif os.environ.get('WAIT'): time.sleep(600)\nprint('ok', end='')"

    async with fork_servers(tmp_path, text) as begin:
        mother = await begin()
        first, second = mother.open_worker(), mother.open_worker()
        waiting = asyncio.ensure_future(call(first, WAIT="1"))
        await asyncio.wait((waiting,), timeout=0.1)
        await mother.kill_worker(first)
        with pytest.raises(ExecutorUnavailable):
            await waiting
        said = (await call(second)).stdout
        await mother.close()
        assert said == b"ok"


_WITNESS = """\
import json, os, sys

lines, loads, variables = [], [], dict(os.environ)
_write, _loads = sys.stdout.write, json.loads
sys.stdout.write = lambda text: lines.append(text) or _write(text)
json.loads = lambda text: loads.append(text) or _loads(text)
"""


async def test_calls_that_the_interpreter_rehearses_cannot_be_noticed_by_a_skill(tmp_path: Path) -> None:
    (tmp_path / "witness.py").write_text(_WITNESS)
    text = (
        "import json, os, sys, witness\n"
        "seen = witness.lines + witness.loads\n"
        "print(seen, sorted(set(witness.variables) ^ set(os.environ)), sys.stdin is sys.__stdin__, sys.stdin.read(),\n"
        "      sorted(os.listdir('/proc/self/fd')), end='')\n"
    )
    async with fork_servers(tmp_path, text, preload=("witness",), named=("witness",)) as begin:
        mother = await begin()
        worker = mother.open_worker()
        said = [(await call(worker)).stdout for _ in range(2)]
        await mother.close()
    # The three streams, and the directory that is being read.
    assert said == [b"[] [] True  ['0', '1', '2', '3']"] * 2


async def test_a_module_that_cannot_be_imported_is_refused_when_it_was_named(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, "", preload=("no_such_module",), named=("no_such_module",)) as begin:
        with pytest.raises(WarmStartUnsupported, match="no_such_module"):
            await begin()


async def test_a_module_that_starts_threads_is_refused(tmp_path: Path) -> None:
    (tmp_path / "threads.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(5,)).start()"
    )

    async with fork_servers(tmp_path, "", preload=("threads",), named=("threads",)) as begin:
        with pytest.raises(WarmStartUnsupported, match="threads"):
            await begin()


async def test_an_interpreter_that_is_not_ready_in_time_is_told_and_ended(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(
        "import os, time\nwith open(__file__ + '.pid', 'w') as file: file.write(str(os.getpid()))\ntime.sleep(600)"
    )

    async with fork_servers(tmp_path, "", preload=("endless",)) as begin:
        with pytest.raises(ExecutorUnavailable, match=r"timed out after 3 s"):
            await begin(timeout=3.0)
        pid = (tmp_path / "endless.py.pid").read_text()
        async with asyncio.timeout(20):
            while Path(f"/proc/{pid}").exists():
                await asyncio.sleep(0.01)


async def test_a_script_that_is_gone_is_reported(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, "") as begin:
        (tmp_path / "skill.py").unlink()
        with pytest.raises(ExecutorUnavailable, match="FileNotFoundError"):
            await begin()


async def test_a_closed_interpreter_opens_no_slot(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, "") as begin:
        mother = await begin()
        await mother.close()
        await mother.close()
        with pytest.raises(ExecutorUnavailable):
            mother.open_worker()


def test_the_parts_of_the_program_do_not_overwrite_each_others_names() -> None:
    names: Counter[str] = Counter()
    for part in PARTS:
        tree = ast.parse((Path(programs.__path__[0]) / f"{part}.py").read_text("utf-8"))
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        for node in tree.body:
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            defined |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
        names.update(defined - {"TYPE_CHECKING"})
    assert [name for name, count in names.items() if count > 1] == []


PARENT = "import os; print(os.getppid(), end='')"
SLOW = "import time; time.sleep(600)"
CALL = encode_call(b"", {}, live=False)


async def serve(pool: WorkerPool, seconds: float = 20.0) -> WorkerResult:
    return await pool.call(CALL, asyncio.get_running_loop().time() + seconds)


async def test_slots_are_made_on_demand_and_not_more_than_allowed(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, PARENT) as begin:
        pool = WorkerPool(begin, max_workers=3)
        await pool.prepare()
        first = pool.worker_count
        found = await asyncio.gather(*(serve(pool) for _ in range(20)))
        last = pool.worker_count
        await pool.close()
        assert (first, last, len({ended.stdout for ended in found})) == (1, 3, 3)


@pytest.mark.parametrize("alone", [False, True])
async def test_idle_slots_and_interpreters_are_ended_and_come_back(tmp_path: Path, alone: bool) -> None:
    async with fork_servers(tmp_path, PARENT) as begin:
        begun: list[ForkServer] = []

        async def counted() -> ForkServer:
            begun.append(await begin())
            return begun[-1]

        pool = WorkerPool(counted, max_workers=2, dedicated=alone, idle_timeout=0.05)
        await serve(pool)
        async with asyncio.timeout(20):
            while pool.worker_count or begun[0].is_usable:
                await asyncio.sleep(0.01)
        assert (await serve(pool)).returncode == 0
        assert len(begun) == 2
        await pool.close()


async def test_after_a_renewal_calls_have_a_new_interpreter(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, PARENT) as begin:
        pool = WorkerPool(begin, max_workers=1)
        before = (await serve(pool)).stdout
        again = (await serve(pool)).stdout
        pool.renew()
        after = (await serve(pool)).stdout
        await pool.close()
    assert before == again != after


@pytest.mark.parametrize("alone", [False, True])
async def test_a_refreshed_pool_changes_over_when_the_new_interpreter_is_ready(tmp_path: Path, alone: bool) -> None:
    async with fork_servers(tmp_path, PARENT) as begin:
        gate = asyncio.Event()
        gate.set()

        async def gated() -> ForkServer:
            await gate.wait()
            return await begin()

        pool = WorkerPool(gated, max_workers=2, dedicated=alone)
        before = (await serve(pool)).stdout
        gate.clear()
        pool.refresh()
        assert (await serve(pool)).stdout == before
        gate.set()
        async with asyncio.timeout(20):
            while (await serve(pool)).stdout == before:
                await asyncio.sleep(0.01)
        await pool.close()


@pytest.mark.parametrize("alone", [False, True])
async def test_a_call_that_is_too_late_gives_its_place_to_the_next(tmp_path: Path, alone: bool) -> None:
    async with fork_servers(tmp_path, SLOW) as begin:
        pool = WorkerPool(begin, max_workers=1, dedicated=alone)
        await pool.prepare()
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await serve(pool, 0.3)
        assert pool.worker_count == 0
        await pool.close()


async def test_who_waits_too_long_for_a_place_is_told_and_who_is_cancelled_takes_none(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, SLOW) as begin:
        pool = WorkerPool(begin, max_workers=1)
        await pool.prepare()
        first = asyncio.ensure_future(serve(pool))
        await asyncio.sleep(0)
        cancelled = asyncio.ensure_future(serve(pool))
        with pytest.raises(DeadlineExceeded, match="not started"):
            await serve(pool, 0.1)
        cancelled.cancel()
        first.cancel()
        await asyncio.wait((first, cancelled))
        with pytest.raises(TimeoutError):
            await serve(pool, 0.3)
        await pool.close()


async def test_everybody_gets_a_turn_however_often_others_call(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, PARENT) as begin:
        pool = WorkerPool(begin, max_workers=1)
        turns = [0] * 4

        async def again_and_again(number: int) -> None:
            while sum(turns) < 80:
                await serve(pool)
                turns[number] += 1

        await asyncio.gather(*map(again_and_again, range(4)))
        await pool.close()
        assert min(turns) >= 15


async def test_who_is_cancelled_when_it_has_just_got_a_slot_passes_it_on(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, PARENT) as begin:
        pool = WorkerPool(begin, max_workers=1)
        await pool.prepare()
        for _ in range(20):
            calls = [asyncio.ensure_future(serve(pool)) for _ in range(4)]
            await calls[0]
            # The next one has the slot by now, or is about to learn that it has.
            calls[1].cancel()
            await asyncio.wait(calls)
            assert calls[3].result().returncode == 0
        assert pool.worker_count <= 1
        await pool.close()


async def test_what_cannot_begin_is_told_to_everybody_who_waits(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, "") as begin:
        del begin

        async def never() -> ForkServer:
            await asyncio.sleep(0)
            raise ExecutorUnavailable("no")

        pool = WorkerPool(never, max_workers=1)
        found = await asyncio.gather(*(serve(pool) for _ in range(3)), return_exceptions=True)
        await pool.close()
        assert [str(one) for one in found] == ["no"] * 3


class Gated:
    """Begins interpreters when it may."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self.asked = asyncio.Event()
        self.may = asyncio.Event()
        self.begun: list[ForkServer] = []

    async def __call__(self) -> ForkServer:
        self.asked.set()
        await self.may.wait()
        self.begun.append(await self._begin())
        return self.begun[-1]


async def test_a_call_does_not_wait_beyond_its_deadline_for_an_interpreter_and_the_next_has_it(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, PARENT) as begin:
        gated = Gated(begin)
        pool = WorkerPool(gated, max_workers=1)
        async with asyncio.timeout(20):
            with pytest.raises(DeadlineExceeded, match="not started"):
                await serve(pool, 0.05)
        gated.may.set()
        assert (await serve(pool)).returncode == 0
        assert len(gated.begun) == 1
        await pool.close()


async def test_an_interpreter_that_begins_while_the_pool_closes_is_not_left(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, PARENT) as begin:
        gated = Gated(begin)
        pool = WorkerPool(gated, max_workers=1)
        calling = asyncio.ensure_future(serve(pool))
        await gated.asked.wait()
        await pool.close()
        gated.may.set()
        with pytest.raises(ExecutorUnavailable):
            await calling
        assert not any(mother.is_usable for mother in gated.begun)


async def test_a_closed_pool_is_not_refreshed(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, PARENT) as begin:
        gated = Gated(begin)
        gated.may.set()
        pool = WorkerPool(gated, max_workers=1)
        await serve(pool)
        pool.refresh()
        await pool.close()
        pool.refresh()
        await pool.close()
        assert [mother.is_usable for mother in gated.begun] == [False]


async def test_who_is_cancelled_while_the_pool_closes_is_cancelled(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, SLOW) as begin:
        pool = WorkerPool(begin, max_workers=1)
        await pool.prepare()
        running = asyncio.ensure_future(serve(pool))
        waiting = asyncio.ensure_future(serve(pool))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(pool.close())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((running, waiting, closing))
        assert waiting.cancelled()
        assert isinstance(running.exception(), ExecutorUnavailable)


async def test_a_pool_that_retires_serves_those_who_have_come_and_ends_behind_the_last(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, PARENT) as begin:
        gated = Gated(begin)
        pool = WorkerPool(gated, max_workers=1)
        calls = [asyncio.ensure_future(serve(pool)) for _ in range(3)]
        await gated.asked.wait()
        retiring = asyncio.ensure_future(pool.retire())
        gated.may.set()
        assert [ended.returncode for ended in await asyncio.gather(*calls)] == [0, 0, 0]
        await retiring
        assert [mother.is_usable for mother in gated.begun] == [False]
        with pytest.raises(ExecutorUnavailable):
            await serve(pool)


async def test_a_pool_that_closes_ends_the_calls_that_run(tmp_path: Path) -> None:
    async with fork_servers(tmp_path, SLOW) as begin:
        pool = WorkerPool(begin, max_workers=1)
        await pool.prepare()
        running = asyncio.ensure_future(serve(pool))
        await asyncio.wait((running,), timeout=0.1)
        await pool.close()
        with pytest.raises(ExecutorUnavailable):
            await running
        with pytest.raises(ExecutorUnavailable):
            await serve(pool)


def answer(stdout: bytes, stderr: bytes, *, status: int = 0, flags: int = 0, names: bytes = b"") -> bytes:
    """An answer as the other side writes it."""
    frames = [struct.pack("!cI", kind, len(data)) + data for kind, data in ((b"o", stdout), (b"e", stderr)) if data]
    end = struct.pack("!iQQQQB", status, 1500, 9000, len(stdout), len(stderr), flags) + names
    return b"".join(frames) + struct.pack("!cI", b"x", len(end)) + end


@given(st.binary(max_size=300), st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=30))
def test_an_answer_arrives_whole_in_pieces_of_any_size(stdout: bytes, stderr: bytes, sizes: list[int]) -> None:
    data, ended, heard = answer(stdout, stderr), None, list[tuple[str, bytes]]()
    frames = FrameParser(lambda stream, part: heard.append((stream, part)))
    for size in (*sizes, len(data)):
        if ended is None and data:
            ended = frames.feed(data[:size])
            data = data[size:]
    assert ended == WorkerResult(0, stdout, stderr, len(stdout), len(stderr), False, False, True, 1.5, 9000)
    assert b"".join(part for stream, part in heard if stream == "stdout") == stdout


@pytest.mark.parametrize(("status", "returncode"), [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, -9), (6 | 0x80, -6)])
def test_the_status_of_the_kernel_becomes_an_exit_status_or_a_signal(status: int, returncode: int) -> None:
    ended = FrameParser().feed(answer(b"", b"", status=status))
    assert ended is not None
    assert ended.returncode == returncode


def test_flags_and_names_are_read() -> None:
    ended = FrameParser().feed(answer(b"", b"", flags=1 | 2 | 4, names=b"a,b.c"))
    assert ended is not None
    assert (ended.stale, ended.cut, ended.clean, ended.imported) == (True, True, False, ("a", "b.c"))


@given(st.binary(max_size=100))
def test_other_bytes_are_refused_or_waited_for(data: bytes) -> None:
    try:
        FrameParser().feed(data)
    except ValueError:
        return


def test_a_call_has_its_length_variables_and_input() -> None:
    message = encode_call(b"{}", {"A": "1", "B": "ä"}, live=True)
    assert message == struct.pack("!IBI", 9 + 4 + 5 + 2, 1, 9) + "A=1\0B=ä\0".encode() + b"{}"


@pytest.mark.parametrize(("name", "value"), [("A", "x\0y"), ("A=B", "x"), ("", "x")])
def test_what_cannot_be_a_variable_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}$"):
        encode_call(b"", {name: value}, live=False)


END = struct.pack("!cI", b"x", 37) + struct.pack("!iQQQQB", 0, 0, 0, 2, 0, 0)


@asynccontextmanager
async def open_slot() -> AsyncGenerator[tuple[Worker, socket.socket, float]]:
    """A slot, the other end of it, and a deadline that is far away."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    slot = Worker(1, ours)
    try:
        yield slot, theirs, asyncio.get_running_loop().time() + 20
    finally:
        slot.close()
        theirs.close()


async def test_a_call_is_written_and_its_answer_read() -> None:
    async with open_slot() as (slot, theirs, late):
        task = asyncio.ensure_future(slot.call(b"hello", late))
        assert await asyncio.get_running_loop().sock_recv(theirs, 100) == b"hello"
        theirs.send(struct.pack("!cI", b"o", 2) + b"{}" + END)
        assert (await task).stdout == b"{}"
        assert slot.is_usable


async def test_a_large_call_is_written_as_there_is_room() -> None:
    async with open_slot() as (slot, theirs, late):
        task = asyncio.ensure_future(slot.call(b"x" * 2_000_000, late))
        received = 0
        while received < 2_000_000:
            received += len(await asyncio.get_running_loop().sock_recv(theirs, 65536))
        theirs.send(END)
        await task


async def test_what_comes_meanwhile_is_reported() -> None:
    async with open_slot() as (slot, theirs, late):
        told: list[tuple[str, bytes]] = []
        heard = asyncio.Event()

        def hear(stream: str, data: bytes) -> None:
            told.append((stream, data))
            heard.set()

        task = asyncio.ensure_future(slot.call(b"", late, hear))
        await asyncio.sleep(0)
        theirs.send(struct.pack("!cI", b"e", 1) + b"a")
        await asyncio.wait_for(heard.wait(), 20)
        assert told == [("stderr", b"a")]
        theirs.send(END)
        await task


@pytest.mark.parametrize("ending", [b"", b"garbage!"])
async def test_an_end_or_garbage_loses_the_slot(ending: bytes) -> None:
    async with open_slot() as (slot, theirs, late):
        task = asyncio.ensure_future(slot.call(b"", late))
        await asyncio.sleep(0)
        theirs.send(ending) if ending else theirs.close()
        with pytest.raises(ExecutorUnavailable):
            await task
        with pytest.raises(ExecutorUnavailable):
            await slot.call(b"", late)


async def test_at_the_deadline_the_slot_is_lost() -> None:
    async with open_slot() as (slot, _, late):
        with pytest.raises(TimeoutError):
            await slot.call(b"", late - 19.9)
        assert not slot.is_usable
