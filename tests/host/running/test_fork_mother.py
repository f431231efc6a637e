"""Warm interpreters and the slots that they serve."""

import ast
import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors import inside
from openskills.host.running.fork_mother import PARTS, Mother, Refused
from tests.host.mothers import call, with_mothers

Begin = Callable[[], Awaitable[Mother]]
PIDS = "import os; print(os.getpid(), os.getppid(), end='')"


def test_slots_are_served_by_processes_of_their_own(tmp_path: Path) -> None:
    async def work(begin: Begin) -> list[bytes]:
        mother = await begin()
        slots = [mother.open(), mother.open()]
        said = [(await call(slot)).stdout for slot in (*slots, *slots)]
        assert mother.slots == 2
        await mother.close()
        return said

    pids = [line.split() for line in with_mothers(tmp_path, PIDS, work)]
    assert len({own for own, _ in pids}) == 4
    assert pids[0][1] == pids[2][1] != pids[1][1]


def test_a_slot_that_is_ended_ends_its_call_and_no_other(tmp_path: Path) -> None:
    text = "import os, time\nif os.environ.get('WAIT'): time.sleep(600)\nprint('ok', end='')"

    async def work(begin: Begin) -> bytes:
        mother = await begin()
        first, second = mother.open(), mother.open()
        waiting = asyncio.ensure_future(call(first, WAIT="1"))
        await asyncio.wait((waiting,), timeout=0.1)
        await mother.end(first)
        with pytest.raises(ExecutorUnavailable):
            await waiting
        said = (await call(second)).stdout
        await mother.close()
        return said

    assert with_mothers(tmp_path, text, work) == b"ok"


def test_a_module_that_cannot_be_imported_is_refused_when_it_was_named(tmp_path: Path) -> None:
    async def work(begin: Begin) -> None:
        with pytest.raises(Refused, match="no_such_module"):
            await begin()

    with_mothers(tmp_path, "", work, preload=("no_such_module",), named=("no_such_module",))


def test_a_module_that_starts_threads_is_refused(tmp_path: Path) -> None:
    (tmp_path / "threads.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(5,)).start()"
    )

    async def work(begin: Begin) -> None:
        with pytest.raises(Refused, match="threads"):
            await begin()

    with_mothers(tmp_path, "", work, preload=("threads",), named=("threads",))


def test_an_interpreter_that_is_not_ready_in_time_is_told_and_ended(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(
        "import os, time\nwith open(__file__ + '.pid', 'w') as file: file.write(str(os.getpid()))\ntime.sleep(600)"
    )

    async def work(begin: Callable[..., Awaitable[Mother]]) -> None:
        with pytest.raises(ExecutorUnavailable, match=r"not ready within 3 s"):
            await begin(within=3.0)
        pid = (tmp_path / "endless.py.pid").read_text()
        async with asyncio.timeout(20):
            while Path(f"/proc/{pid}").exists():
                await asyncio.sleep(0.01)

    with_mothers(tmp_path, "", work, preload=("endless",))


def test_a_script_that_is_gone_is_told(tmp_path: Path) -> None:
    async def work(begin: Begin) -> None:
        (tmp_path / "skill.py").unlink()
        with pytest.raises(ExecutorUnavailable, match="FileNotFoundError"):
            await begin()

    with_mothers(tmp_path, "", work)


def test_a_closed_interpreter_opens_no_slot(tmp_path: Path) -> None:
    async def work(begin: Begin) -> None:
        mother = await begin()
        await mother.close()
        await mother.close()
        with pytest.raises(ExecutorUnavailable):
            mother.open()

    with_mothers(tmp_path, "", work)


def test_the_parts_of_the_program_do_not_overwrite_each_others_names() -> None:
    names: Counter[str] = Counter()
    for part in PARTS:
        tree = ast.parse((Path(inside.__path__[0]) / f"{part}.py").read_text("utf-8"))
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
