"""A way out of the sandbox for one command: the proxy of its allow-list, and nothing else."""

import asyncio
import signal

from openskills.executors.network.netns import listen_inside
from openskills.executors.network.proxy import FilteringProxy
from openskills.executors.processes.keeping import Kept

_MOST_TOLD = 20


async def connect(kept: Kept, proxy: FilteringProxy, uid: int | None) -> asyncio.Task[None]:
    """Let a command that is held begin, with this proxy on its loopback. The task ends the proxy with the command.

    Raises `ExecutorUnavailable` when the proxy cannot be put there; the command is ended then, and was never run.
    """
    try:
        await kept.ready()
        await proxy.start(await listen_inside(kept.pid, uid=uid))
    except BaseException:
        kept.signal(signal.SIGKILL)
        raise
    # Whoever makes the result asks to be called later than this, and finds the notes.
    kept.then(lambda _: _tell(kept, proxy))
    kept.release()
    return asyncio.get_running_loop().create_task(_close_after(kept, proxy))


async def _close_after(kept: Kept, proxy: FilteringProxy) -> None:
    try:
        await kept.exited()
    finally:
        await proxy.close()


def _tell(kept: Kept, proxy: FilteringProxy) -> None:
    """Each refusal once, at most a few: a command may try as often as it likes."""
    seen = dict.fromkeys(f"network: {refusal.target}: {refusal.reason}" for refusal in proxy.refusals)
    kept.notes.extend(list(seen)[:_MOST_TOLD])
