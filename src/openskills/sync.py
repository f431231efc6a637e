"""The synchronous API: `run(awaitable)`."""

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
    """Run an awaitable from blocking code and return its result or raise its exception.

    It runs on one background event loop in a daemon thread while the calling thread waits. The loop is the same for
    every call, so objects that belong to a loop (processes, connection pools) can be reused in later calls, and tasks
    that are left behind keep running. Ctrl-C cancels the awaitable and waits for its end before `KeyboardInterrupt` is
    raised. Context variables are those of the caller.

    Raises `InvalidArgument` for an object that cannot be awaited, for a future or task (it belongs to a loop already),
    and for a call from the background loop itself, which would deadlock.
    """
    import asyncio

    if asyncio.isfuture(awaitable):
        _refuse(awaitable, "a future or task already belongs to an event loop; pass the coroutine to run()")
    # Callers without a type checker pass the async function itself, or the result of a blocking one.
    if not inspect.isawaitable(awaitable):
        _refuse(awaitable, f"{type(awaitable).__name__} cannot be awaited; call the async function: run(load(name))")
    try:
        current = asyncio.get_running_loop()
    except RuntimeError:
        current = None
    if current is not None and _background_loop.is_loop(current):
        _refuse(awaitable, "run() would block its own event loop; use `await` here instead of run()")
    return _LoopCall(awaitable, _background_loop.loop()).result()


def _refuse(awaitable: object, why: str) -> NoReturn:
    # Otherwise Python warns that the coroutine was never awaited.
    if inspect.iscoroutine(awaitable):
        awaitable.close()
    raise InvalidArgument("awaitable", why)


class _BackgroundLoop:
    """One event loop in one daemon thread, started on first use."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def is_loop(self, loop: "asyncio.AbstractEventLoop") -> bool:
        return loop is self._loop

    def loop(self) -> "asyncio.AbstractEventLoop":
        import asyncio

        with self._starting:
            # A forked child has the loop but not the thread.
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="openskills-sync", daemon=True)
                self._thread.start()
            return self._loop


class _LoopCall(Generic[T]):
    """One awaitable that runs on the loop of another thread."""

    def __init__(self, awaitable: Awaitable[T], loop: "asyncio.AbstractEventLoop") -> None:
        self._awaitable = awaitable
        self._loop = loop
        self._ended = threading.Event()
        self._task: asyncio.Task[T] | None = None
        self._stop: BaseException | None = None

    def result(self) -> T:
        """Start it and wait for the end. An interrupt cancels the awaitable and waits for that."""
        try:
            # Started inside the `try`, so that an interrupt always cancels it.
            self._loop.call_soon_threadsafe(self._start, context=contextvars.copy_context())
            self._ended.wait()
        except BaseException:
            self._loop.call_soon_threadsafe(self._cancel)
            self._ended.wait()
            raise
        if self._stop is not None:
            raise self._stop
        assert self._task is not None  # noqa: S101  `_start` ran before the end
        return self._task.result()

    def _start(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._on_done)

    async def _run(self) -> T:
        try:
            return await self._awaitable
        except (KeyboardInterrupt, SystemExit) as stop:
            # Raised inside a task, either would end the loop, and with it every later call.
            self._stop = stop
            raise RuntimeError("the awaitable asked the process to end") from stop

    def _on_done(self, task: "asyncio.Task[T]") -> None:
        # Retrieved here, because after an interrupt nothing else does, and asyncio would log it.
        if not task.cancelled():
            task.exception()
        self._ended.set()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            return
        # The interrupt came before the task was started.
        if inspect.iscoroutine(self._awaitable):
            self._awaitable.close()
        self._ended.set()


_background_loop = _BackgroundLoop()
