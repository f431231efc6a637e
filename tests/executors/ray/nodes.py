"""Nodes and their directory in this process, without Ray."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openskills.executors.ray.client import RemoteWorkspace
from openskills.executors.ray.executor import NodeAgent, RayExecutor, RayOptions
from openskills.executors.ray.placement import ClusterDirectory
from openskills.settings import Settings


class LocalDirectory:
    """The directory without an actor around it."""

    def __init__(self, directory: ClusterDirectory) -> None:
        self._directory = directory

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """See `DirectoryClient.call`."""
        return await getattr(self._directory, name)(**arguments)


@dataclass(slots=True)
class PlainCluster:
    """A directory, its agents, and executors that use them."""

    settings: Settings
    options: RayOptions
    directory: ClusterDirectory
    agents: list[NodeAgent] = field(default_factory=list[NodeAgent])

    def executor(self) -> RayExecutor:
        """Another driver."""
        return RayExecutor(self.settings, lambda: LocalDirectory(self.directory), self.options)


@asynccontextmanager
async def plain_cluster(directory: Path, options: RayOptions, *, nodes: int = 1) -> AsyncGenerator[PlainCluster]:
    directory.chmod(0o755)
    settings = Settings.from_env({"OPENSKILL_STATE_DIR": str(directory / "driver"), "PATH": "/usr/bin:/bin"})
    cluster = PlainCluster(settings, options, ClusterDirectory(lease=options.lease, max_queue=options.max_queue))
    names = {f"node-{number}": "" for number in range(nodes)}
    await cluster.directory.expect(nodes=names)
    async with AsyncExitStack() as stack:
        for name in names:
            node_settings = Settings.from_env(
                {"OPENSKILL_STATE_DIR": str(directory / "nodes"), "PATH": "/usr/bin:/bin"}
            )
            agent = NodeAgent(name, LocalDirectory(cluster.directory), node_settings, options)
            stack.push_async_callback(agent.close)
            await agent.start("127.0.0.1")
            cluster.agents.append(agent)
        yield cluster


async def move_away(workspace: RemoteWorkspace, node: str) -> None:
    """Move a workspace from a drained node, as soon as another one has reported recently enough to be chosen."""
    async with asyncio.timeout(60):
        while workspace.node == node:
            await workspace.move()
            await asyncio.sleep(0.02)
