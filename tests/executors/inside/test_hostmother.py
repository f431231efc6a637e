"""The program that keeps the interpreter of a hosted skill. Calls: `tests/host/running/test_python_runner.py`."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.host.running.fork_mother import Mother
from tests.host.mothers import call, with_mothers

Begin = Callable[[], Awaitable[Mother]]


def test_nothing_of_the_program_can_be_seen_from_a_script(tmp_path: Path) -> None:
    text = (
        "import sys; print(sorted(name for name in globals() if name[0] != '_'), sys.argv, 'exit' in dir(__builtins__))"
    )

    async def work(begin: Begin) -> bytes:
        mother = await begin()
        said = (await call(mother.open())).stdout
        await mother.close()
        return said

    assert with_mothers(tmp_path, text, work).decode() == f"['sys'] ['{tmp_path}/skill.py'] True\n"


def test_when_the_host_hangs_up_the_interpreter_ends_with_its_zygotes(tmp_path: Path) -> None:
    async def work(begin: Begin) -> list[int]:
        mother = await begin()
        parents = [int((await call(mother.open())).stdout) for _ in range(2)]
        await mother.close()
        async with asyncio.timeout(20):
            while any(os.path.exists(f"/proc/{pid}") for pid in parents):
                await asyncio.sleep(0.01)
        return parents

    assert len(set(with_mothers(tmp_path, "import os; print(os.getppid())", work))) == 2


def test_a_slot_that_has_ended_by_itself_can_be_ended_and_harms_no_other(tmp_path: Path) -> None:
    text = (
        "import os, signal\nif os.getenv('KILL'): os.kill(os.getppid(), 9); signal.pause()\nprint(os.getppid(), end='')"
    )

    async def work(begin: Begin) -> tuple[bool, int]:
        mother = await begin()
        first = mother.open()
        zygote = int((await call(first)).stdout)
        with pytest.raises(ExecutorUnavailable):
            await call(first, KILL="1")
        async with asyncio.timeout(20):
            while os.path.exists(f"/proc/{zygote}"):
                await asyncio.sleep(0.01)
        # It answers one after the other: what it had to say of the first has come before this.
        second = mother.open()
        await call(second)
        await mother.end(first)
        found = mother.usable, (await call(second)).returncode
        await mother.close()
        return found

    assert with_mothers(tmp_path, text, work) == (True, 0)


def test_a_changed_script_is_not_executed(tmp_path: Path) -> None:
    async def work(begin: Begin) -> tuple[bool, bytes]:
        mother = await begin()
        slot = mother.open()
        (tmp_path / "skill.py").write_text("print('new code')", "utf-8")
        ended = await call(slot)
        await mother.close()
        return ended.stale, ended.stdout

    assert with_mothers(tmp_path, "print('old')", work) == (True, b"")
