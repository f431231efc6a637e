"""One container from its creation to its removal."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from openskills.artifacts.threads import to_the_end
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.container.engine import Engine
from openskills.executors.container.link import ContainerLink
from openskills.executors.container.spec import (
    HOST_LABEL,
    WORKSPACE_LABEL,
    ContainerOptions,
    Image,
    Session,
    creation,
)
from openskills.executors.container.sweep import HostMark
from openskills.executors.processes.keeping import Keeper, Kept, Launch
from openskills.executors.processes.rlimits import Rlimits

_STARTS_WITHIN = 5.0


class LiveContainer:
    """A container that runs, and the connection that it lives by: when that is closed, everything in it ends.

    It belongs to the event loop in which it was begun.
    """

    def __init__(self, made: "_Made", control: Keeper, skills: Sequence[str]) -> None:
        self.id = made.container
        self.skills = frozenset(skills)
        self._made = made
        self._control = control
        self._users = 0
        self._retired = False
        self._closing: asyncio.Task[None] | None = None
        self._watching: set[asyncio.Task[None]] = set()

    @classmethod
    async def begin(
        cls,
        engine: Engine,
        options: ContainerOptions,
        image: Image,
        workspace: str,
        tree: Path,
        owner: tuple[int, int],
        skills: Sequence[str],
    ) -> "LiveContainer":
        """Make it and start it. Raises `ExecutorUnavailable` with the reason, and then nothing of it is left."""
        made = _Made(engine)
        labels = ((WORKSPACE_LABEL, workspace), (HOST_LABEL, str(HostMark.ours())))

        def make() -> ContainerLink:
            link = made.link = ContainerLink(tree.absolute().parent, *owner)
            session = Session(str(tree.absolute()), str(link.directory), *owner, tuple(skills), labels)
            made.container = engine.create(creation(options, image, session))
            if options.runtime:
                engine.check_runtime(made.container, options.runtime)
            engine.start(made.container)
            return link

        try:
            link = await to_the_end(make)
            connection = await link.taken(lambda: to_the_end(lambda: engine.running(made.container)))
            return cls(made, Keeper(connection), skills)
        except BaseException:
            await to_the_end(made.remove)
            raise

    @property
    def usable(self) -> bool:
        """Whether it can run commands."""
        return self._closing is None and not self._retired and self._control.usable

    @property
    def closed(self) -> bool:
        """Whether it is being closed, or is."""
        return self._closing is not None

    def reserve(self) -> None:
        """Somebody is about to run something: it stays until that has ended."""
        self._users += 1

    async def run(self, launch: Launch, limits: Rlimits) -> Kept:
        """Start a command, after `reserve`, with a keeper of its own, so that its orphans can be told from others'."""
        keeper: Keeper | None = None
        try:
            self._check_alive()
            keeper = await self._control.fork()
            keeper.limit(limits)
            async with asyncio.timeout(_STARTS_WITHIN):
                kept = await keeper.start(launch)
        except (InvalidArgument, ExecutorUnavailable):
            await self._give_up(keeper, answered=keeper is not None and keeper.usable)
            raise
        except TimeoutError:
            await self._give_up(keeper, answered=False)
            raise ExecutorUnavailable(
                f"the container did not start the command in {_STARTS_WITHIN:g} seconds"
            ) from None
        except BaseException:
            await self._give_up(keeper, answered=False)
            raise
        task = asyncio.get_running_loop().create_task(self._see_off(keeper, kept))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        return kept

    async def retire(self) -> None:
        """Let no new command begin; it is closed when the last one has ended."""
        self._retired = True
        if not self._users:
            await self.close()

    async def close(self) -> None:
        """End everything in it, and remove it; safe to call twice."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._control.close()
        await to_the_end(self._made.remove)

    def _check_alive(self) -> None:
        if not self._control.usable:
            raise ExecutorUnavailable("the container has ended; try again")

    async def _see_off(self, keeper: Keeper, kept: Kept) -> None:
        end = await kept.exited()
        await keeper.close()
        if end.lost or not end.clean:
            # A script has ended its keeper, or left what the keeper could not end. The kernel ends it with the rest.
            await self.close()
        await self._leave()

    async def _give_up(self, keeper: Keeper | None, *, answered: bool) -> None:
        if not answered:
            # A command may run by now that has ended or stopped its keeper. Only the end of everything ends it surely.
            await self.close()
        if keeper is not None:
            await keeper.close()
        await self._leave()

    async def _leave(self) -> None:
        self._users -= 1
        if self._retired and not self._users:
            await self.close()


class _Made:
    """What there is of a container so far, so that it can be removed whenever something goes wrong."""

    def __init__(self, engine: Engine) -> None:
        self.container = ""
        self.link: ContainerLink | None = None
        self._engine = engine

    def remove(self) -> None:
        """Remove all of it."""
        try:
            if self.container:
                # Its first process ends without us; an engine that cannot be reached removes it when it is back.
                with suppress(ExecutorUnavailable):
                    self._engine.remove(self.container)
        finally:
            if self.link:
                self.link.close()
