"""Starting a command of a shell without the shell, where that makes no difference but to the time."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from openskills.errors import InvalidArgument
from openskills.executors.processes.keeping import Kept, Launch, NotBegun
from openskills.executors.rules.without_shell import without_shell


def directly(launch: Launch) -> Launch | None:
    """The same without its shell, which would have said where it is; None when only the shell can do it."""
    words = without_shell(launch.argv)
    return replace(launch, argv=words, env={**launch.env, "PWD": str(launch.cwd)}) if words else None


async def started(start: Callable[[Launch], Awaitable[Kept]], launch: Launch) -> Kept:
    """Start a command. A program that cannot be started has not begun, and is left to the shell to complain about."""
    direct = directly(launch)
    if direct is not None:
        with suppress(InvalidArgument, NotBegun):
            return await start(direct)
    return await start(launch)
