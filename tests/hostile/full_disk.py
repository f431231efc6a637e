"""A program with a node whose disk is small, and a driver whose disk is not; prints what happens when it is full.

Arguments: a directory whose folder `nodes` is the small disk, and the storage of checkpoints. One line of JSON. Later,
a second node with another disk joins.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from openskills.artifacts.objects import DirectoryObjectStore
from openskills.errors import SkillError
from openskills.executors import Command
from openskills.executors.ray.client import RemoteWorkspace
from openskills.executors.ray.executor import NodeAgent, RayExecutor, RayOptions
from openskills.settings import Settings
from openskills.testing.checks import read_content
from tests.executors.ray.nodes import LocalDirectory, plain_cluster

FILL = "dd if=/dev/zero of=work/big bs=1M count=400; echo status $?"
TIMEOUT = 60


async def run_command(workspace: RemoteWorkspace, text: str) -> dict[str, Any]:
    ended = await (await workspace.start(Command(("sh", "-c", text)))).wait()
    return {
        "ending": ended.ending,
        "stdout": ended.stdout.text(),
        "stderr": ended.stderr.text(),
        "detail": ended.detail,
    }


async def tell(work: Awaitable[Any]) -> Any:
    """The result, or the reason and message of the error."""
    try:
        return await work
    except SkillError as error:
        return f"{error.reason}: {error.message}"


async def wait_until_saved(storage: DirectoryObjectStore, path: str) -> None:
    """Wait for a manifest that names a file."""
    wanted = json.dumps(path).encode()
    async with asyncio.timeout(TIMEOUT):
        while True:
            for info in await storage.list("workspaces"):
                if wanted in (await storage.read(info.name, max_bytes=2**30) or b""):
                    return
            await asyncio.sleep(0.05)


async def run_until_done(workspace: RemoteWorkspace, text: str) -> Any:
    """Run a command as soon as the node accepts one again: it looks at its disk about once per second."""
    async with asyncio.timeout(TIMEOUT):
        while isinstance(found := await tell(run_command(workspace, text)), str):
            await asyncio.sleep(0.1)
        return found


async def run_until_refused(workspace: RemoteWorkspace) -> Any:
    async with asyncio.timeout(TIMEOUT):
        while not isinstance(found := await tell(run_command(workspace, "true")), str):
            await asyncio.sleep(0.1)
        return found


async def wait_for_disk(executor: RayExecutor, *, is_full: bool) -> None:
    """Wait until the directory knows the state of the small disk."""
    async with asyncio.timeout(TIMEOUT):
        while (await executor.status())["nodes"][0]["is_full"] is not is_full:
            await asyncio.sleep(0.05)


async def open_node(executor: RayExecutor, key: str) -> str:
    return (await executor.open(key)).node


async def main() -> None:
    directory, place = Path(sys.argv[1]), Path(sys.argv[2])
    options = RayOptions(executor="sandbox", checkpoint_delay=0.05, lease=2.0, queue_timeout=0.5)
    storage = DirectoryObjectStore(place)
    told: dict[str, Any] = {}
    async with plain_cluster(directory, options) as cluster:
        env = {"OPENSKILL_STATE_DIR": str(directory / "driver"), "OPENSKILL_STORAGE": str(place)}
        settings = Settings.from_env({**env, "PATH": "/usr/bin:/bin"})
        async with RayExecutor(settings, lambda: LocalDirectory(cluster.directory), options) as executor:
            workspace = await executor.open("full")
            await workspace.write("work/kept", b"acknowledged")
            told["before"] = await run_command(workspace, "echo one > out/one")
            await wait_until_saved(storage, "out/one")
            told["filled"] = await tell(run_command(workspace, FILL))
            told["refused"] = await run_until_refused(workspace)
            await wait_for_disk(executor, is_full=True)
            told["other"] = await tell(open_node(executor, "another"))
            state = Settings.from_env({"OPENSKILL_STATE_DIR": str(place / "roomy"), "PATH": "/usr/bin:/bin"})
            roomy = NodeAgent("roomy", LocalDirectory(cluster.directory), state, options)
            await roomy.start("127.0.0.1")
            told["elsewhere"] = [await tell(open_node(executor, f"new-{number}")) for number in range(3)]
            told["kept"] = (await read_content(workspace, "work/kept")).decode()
            told["removed"] = await tell(workspace.remove("work/big"))
            told["after"] = await run_until_done(workspace, "cat work/kept out/one; echo two > out/two")
            await wait_until_saved(storage, "out/two")
            await wait_for_disk(executor, is_full=False)
            told["again"] = await tell(open_node(executor, "new-3"))
            await roomy.close()
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main())
