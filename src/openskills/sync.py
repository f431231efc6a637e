"""The whole synchronous API: `run(awaitable)`."""

import contextvars
import inspect
import threading
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from openskills.errors import InvalidArgument

if TYPE_CHECKING:
    import asyncio


T = TypeVar("T")


def run(awaitable: Awaitable[T]) -> T:
    """Wait for an awaitable from blocking code, and give its result or raise its exception.

    It runs on a loop of our own, in a daemon thread that lives as long as the process, while the calling thread waits.
    That is the same loop for every call, so what belongs to a loop (a started process, a pool of connections) can be
    carried from one call to the next; tasks that are left behind go on there. Ctrl-C cancels the awaitable and waits
    for its end before `KeyboardInterrupt` is raised. Context variables are those of the caller.

    Raises `InvalidArgument` for what cannot be awaited, for a future or task (it belongs to a loop already), and for a
    call from code that runs on our own loop, which would wait for itself.
    """
    import asyncio

    _check_awaitable(awaitable)
    try:
        current = asyncio.get_running_loop()
    except RuntimeError:
        current = None
    if current is not None and _background_loop.is_loop(current):
        _refuse(awaitable, "is to run on the loop that waits for it; use `await` here instead of run()")
    return _LoopCall(awaitable, _background_loop.loop()).result()


def _check_awaitable(awaitable: Awaitable[object]) -> None:
    import asyncio

    if asyncio.isfuture(awaitable):
        _refuse(awaitable, "is a future or task, which belongs to a loop already; give the coroutine to run()")
    # What a caller without a type checker passes: the async function itself, or the result of a blocking one.
    if not inspect.isawaitable(awaitable):
        _refuse(awaitable, f"{type(awaitable).__name__} cannot be awaited; call the async function: run(load(name))")


def _refuse(awaitable: object, why: str) -> NoReturn:
    # A coroutine that is never awaited would complain when it is collected.
    if inspect.iscoroutine(awaitable):
        awaitable.close()
    raise InvalidArgument("awaitable", why)


class _BackgroundLoop:
    """One event loop in one daemon thread, started when it is first needed."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def is_loop(self, loop: "asyncio.AbstractEventLoop") -> bool:
        return loop is self._loop

    def loop(self) -> "asyncio.AbstractEventLoop":
        import asyncio

        with self._starting:
            # A forked child has the loop and not the thread.
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="openskills-sync", daemon=True)
                self._thread.start()
            return self._loop


class _LoopCall(Generic[T]):
    """One awaitable on the loop of another thread."""

    def __init__(self, awaitable: Awaitable[T], loop: "asyncio.AbstractEventLoop") -> None:
        self._awaitable = awaitable
        self._loop = loop
        self._ended = threading.Event()
        self._task: asyncio.Task[T] | None = None
        self._stop: BaseException | None = None

    def result(self) -> T:
        """Begin, and wait for the end. An interrupt of the waiting thread cancels the awaitable and waits for that."""
        try:
            # Begun in here, so that an interrupt never finds it running and nobody waiting for it.
            self._loop.call_soon_threadsafe(self._start, context=contextvars.copy_context())
            self._ended.wait()
        except BaseException:
            self._loop.call_soon_threadsafe(self._cancel)
            self._ended.wait()
            raise
        if self._stop is not None:
            raise self._stop
        assert self._task is not None  # noqa: S101  `_begin` ran before the end came
        return self._task.result()

    def _start(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._on_done)

    async def _run(self) -> T:
        try:
            return await self._awaitable
        except (KeyboardInterrupt, SystemExit) as stop:
            # On its way through the task either would end the loop, and with it every later call.
            self._stop = stop
            raise RuntimeError("the awaitable asked the process to end") from stop

    def _on_done(self, task: "asyncio.Task[T]") -> None:
        # Asked for here, because after an interrupt nobody asks, and asyncio would complain.
        if not task.cancelled():
            task.exception()
        self._ended.set()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            return
        # The interrupt came before anything had begun.
        if inspect.iscoroutine(self._awaitable):
            self._awaitable.close()
        self._ended.set()


_background_loop = _BackgroundLoop()
