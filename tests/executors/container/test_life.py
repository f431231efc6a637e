import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.container.engine import Engine
from openskills.executors.container.life import LiveContainer
from openskills.executors.container.spec import ContainerOptions
from openskills.executors.processes.keeping import Launch
from openskills.sync import run
from tests.container_engine import TestEngine
from tests.executors.containers import UID, containers_of, made_tree


@asynccontextmanager
async def engine_of(engine: TestEngine) -> AsyncGenerator[Engine]:
    connected = Engine(engine.address)
    try:
        yield connected
    finally:
        connected.close()


async def begun(engine: Engine, image: str, tree: Path, options: ContainerOptions | None = None) -> LiveContainer:
    found = engine.image(image)
    identity = tree.parents[1].name
    return await LiveContainer.begin(engine, options or ContainerOptions(), found, identity, tree, (UID, UID), ())


def launch(*argv: str) -> Launch:
    return Launch(argv, {"PATH": os.defpath}, "/", {})


def test_a_retired_container_lets_nobody_in_and_goes_with_its_last_command(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with engine_of(container_engine) as engine:
            container = await begun(engine, container_engine.image, made_tree(tmp_path, UID))
            container.reserve()
            kept = await container.run(launch("sleep", "1000"), ())
            await container.retire()
            assert not container.usable
            assert engine.running(container.id)
            kept.signal(9)
            assert (await kept.exited()).status == -9
            while not container.closed:
                await asyncio.sleep(0.01)
            await container.close()
            assert not engine.running(container.id)

    run(scenario())


def test_closing_ends_what_runs_and_twice_is_once(container_engine: TestEngine, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engine_of(container_engine) as engine:
            container = await begun(engine, container_engine.image, made_tree(tmp_path, UID))
            container.reserve()
            kept = await container.run(launch("sleep", "1000"), ())
            await asyncio.gather(container.close(), container.close())
            assert (await kept.exited()).lost
            assert containers_of(container_engine.address, tmp_path.name) == []

    run(scenario())


def test_a_container_that_somebody_else_removed_is_not_used_again(container_engine: TestEngine, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engine_of(container_engine) as engine:
            container = await begun(engine, container_engine.image, made_tree(tmp_path, UID))
            engine.remove(container.id)
            while container.usable:
                await asyncio.sleep(0.01)
            container.reserve()
            with pytest.raises(ExecutorUnavailable):
                await container.run(launch("true"), ())
            await container.close()

    run(scenario())


def test_a_container_that_cannot_begin_leaves_nothing(container_engine: TestEngine, tmp_path: Path) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_a_beginning_that_is_given_up_leaves_nothing(container_engine: TestEngine, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engine_of(container_engine) as engine:
            tree = made_tree(tmp_path, UID)
            for pause in (0.0, 0.02, 0.1):
                beginning = asyncio.get_running_loop().create_task(begun(engine, container_engine.image, tree))
                await asyncio.sleep(pause)
                beginning.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await beginning
            assert containers_of(container_engine.address, tmp_path.name) == []
            assert os.listdir(tree.parent) == ["tree"]

    run(scenario())
