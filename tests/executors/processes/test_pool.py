"""Keepers that are used again, and those that are not."""

import asyncio
import os
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.processes.keeping import Launch
from openskills.executors.processes.pool import KeeperPool
from openskills.executors.spec import Command
from openskills.sync import run
from tests.executors.running import alive, eventually, open_descriptors, shell, starter


def test_a_keeper_is_used_again_for_the_next_command_of_the_same_limits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with starter(tmp_path) as commands:
            parents = {(await commands.run(Command(shell("echo $PPID")))).stdout.text() for _ in range(5)}
            assert len(parents) == 1

    run(scenario())


def test_commands_at_the_same_time_have_keepers_of_their_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with starter(tmp_path) as commands:
            results = await asyncio.gather(*(commands.run(Command(shell("echo $PPID; sleep 0.2"))) for _ in range(6)))
            assert len({result.stdout.text() for result in results}) == 6

    run(scenario())


def test_a_command_that_ends_does_not_end_the_orphans_of_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with starter(tmp_path) as commands:
            script = "(setsid sleep 300 & echo $! > orphan); while :; do sleep 0.05; done"
            staying = await commands.start(Command(shell(script)))
            assert await eventually(lambda: (tmp_path / "orphan").exists() and (tmp_path / "orphan").stat().st_size > 0)
            orphan = int((tmp_path / "orphan").read_text())
            await commands.run(Command(("true",)))
            assert alive(orphan)
            await staying.kill()
            assert await eventually(lambda: not alive(orphan))

    run(scenario())


def test_a_command_that_cannot_start_costs_no_descriptor() -> None:
    async def scenario() -> None:
        pool = KeeperPool()
        kept = await pool.start(Launch(["true"], {"PATH": os.defpath}, "/", {}))
        await kept.exited()
        before = open_descriptors()
        for _ in range(3):
            with pytest.raises(InvalidArgument):
                await pool.start(Launch(["/no/such"], {}, "/", {}))
        assert open_descriptors() <= before
        await pool.close()

    run(scenario())


def test_closing_ends_every_command(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        async with starter(tmp_path) as commands:
            started = [await commands.start(Command(shell("echo $$; sleep 300"), readable=True)) for _ in range(3)]
            return [int((await process.read(0, wait=20)).data) for process in started]

    pids = run(scenario())
    assert run(eventually(lambda: not any(map(alive, pids))))


def test_what_runs_for_a_loop_that_is_closed_is_ended_by_the_next_start() -> None:
    pool = KeeperPool()
    environment = {"PATH": os.defpath}
    loop = asyncio.new_event_loop()
    kept = loop.run_until_complete(pool.start(Launch(["sleep", "300"], environment, "/", {})))
    kept.then(lambda _: pytest.fail("nobody of a closed loop can be told"))
    loop.close()
    assert alive(kept.pid)

    async def next_start() -> None:
        other = await pool.start(Launch(["true"], environment, "/", {}))
        assert (await other.exited()).status == 0
        assert await eventually(lambda: not alive(kept.pid))
        await pool.close()

    asyncio.run(next_start())


def test_keepers_of_another_loop_are_closed_and_not_only_forgotten() -> None:
    pool = KeeperPool()

    async def one() -> int:
        kept = await pool.start(Launch(["true"], {"PATH": os.defpath}, "/", {}))
        await kept.exited()
        return open_descriptors()

    asyncio.run(one())
    counts = {asyncio.run(one()) for _ in range(4)}
    assert len(counts) == 1
    asyncio.run(pool.close())
