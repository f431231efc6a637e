"""Sessions of the callers of a server: opened on first use, shared by requests, closed when nobody uses them."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from openskills.catalog.skill import Skill
from openskills.concurrency import shield_until_done
from openskills.errors import TooManyRequests
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.session.memory import MemorySessionStore
from openskills.session.store import SessionKey

IDLE_TIMEOUT = 30 * 60.0
"""Seconds without a request after which a session is closed."""
MAX_SESSIONS = 16
"""Open sessions of one user. The one that was idle longest is closed for a new one."""
MAX_LOCAL_COMMANDS = 64
"""Interactive commands that the user of this machine may have running at a time."""


class SessionCaller(Protocol):
    """Who sends a request. `user` owns sessions, workspaces and artifacts.

    `session` is the name of the session; empty if the connection decides.
    """

    @property
    def user(self) -> str: ...

    @property
    def session(self) -> str: ...

    @property
    def identity(self) -> object:
        """Equal for requests with the same key and the same scopes; a session is used by one identity."""
        ...

    @property
    def is_restricted(self) -> bool:
        """Whether it may use some skills only."""
        ...

    def can_use(self, skill: str) -> bool:
        """Whether it may use the skill with this name or id."""
        ...

    @property
    def is_admin(self) -> bool:
        """Whether it may manage the host."""
        ...

    @property
    def max_commands(self) -> int:
        """How many interactive commands it may have running at a time."""
        ...

    def count_request(self) -> None:
        """Count a request that is not a call against the rate limit. Raises `TooManyRequests`."""
        ...

    def admit(self) -> AbstractAsyncContextManager[object]:
        """Wait until a call may start. Raises `TooManyRequests`."""
        ...


class LocalCaller:
    """The user of this machine, who may do everything."""

    user, session, identity = "local", "", "local"
    is_restricted, is_admin, max_commands = False, True, MAX_LOCAL_COMMANDS

    def __init__(self, session: str = "") -> None:
        self.session = session

    def can_use(self, skill: str) -> bool:  # noqa: ARG002
        return True

    def count_request(self) -> None:
        pass

    def admit(self) -> AbstractAsyncContextManager[object]:
        return AsyncExitStack()


@dataclass(slots=True, eq=False)
class _OpenSession:
    """A session in use by `users` requests, whose calls are `tasks`."""

    key: tuple[str, str]
    identity: object
    ready: asyncio.Lock = field(default_factory=asyncio.Lock)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    session: SkillSession | None = None
    users: int = 0
    tasks: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])
    timer: asyncio.TimerHandle | None = None
    is_closed: bool = False
    is_temporary: bool = False


class SessionPool:
    """Sessions by user and name. Belongs to one event loop. Close it.

    Callers who may manage the host get `admin_options` instead of `options`, if there are any.
    """

    def __init__(
        self,
        runtime: SkillRuntime,
        options: SessionOptions,
        *,
        app: str,
        agent: str,
        admin_options: SessionOptions | None = None,
        idle_timeout: float = IDLE_TIMEOUT,
        max_sessions: int = MAX_SESSIONS,
    ) -> None:
        self._runtime = runtime
        self._options = options
        self._admin_options = admin_options or options
        self._app = app
        self._agent = agent
        self._idle_timeout = idle_timeout
        self._max_sessions = max_sessions
        # Least recently used first.
        self._open: dict[tuple[str, str], _OpenSession] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._replacing = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._open)

    @asynccontextmanager
    async def use(
        self, caller: SessionCaller, name: str, *, is_temporary: bool = False
    ) -> AsyncGenerator[SkillSession]:
        """The session of this name, which belongs to the user. Raises `TooManyRequests` if all others are in use.

        The workspace of a temporary session, which cannot be opened again, is removed when it is closed.
        """
        async with self._replacing:
            known = self._open.get((caller.user, name))
            if known is not None and known.identity != caller.identity:
                # The key was replaced by one of the same name, whose scopes may differ.
                await self.close_session(caller.user, name)
            opened = self._enter((caller.user, name), caller.identity)
            opened.is_temporary = is_temporary
        try:
            async with opened.ready:
                if opened.session is None:
                    opened.session = await opened.stack.enter_async_context(self._open_session(caller, name))
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - this is a coroutine
            opened.tasks.add(task)
            try:
                yield opened.session
            finally:
                opened.tasks.discard(task)
        finally:
            self._leave(opened)

    def is_open(self, user: str, name: str) -> bool:
        """Whether the session of this name is open."""
        return (user, name) in self._open

    async def close_session(self, user: str, name: str) -> None:
        """Cancel the calls of a session, kill its commands and release its workspace. Safe to call twice."""
        opened = self._open.pop((user, name), None)
        if opened is not None:
            await shield_until_done(self._close(opened))

    async def close_sessions(self, is_over: Callable[[object], bool]) -> None:
        """Close the sessions of the identities that are no longer valid."""
        over = [key for key, opened in self._open.items() if is_over(opened.identity)]
        await asyncio.gather(*(self.close_session(*key) for key in over))

    def check_command_limit(self, caller: SessionCaller) -> None:
        """Raise `TooManyRequests` if the caller may not start another interactive command."""
        running = self._runtime.count_commands(caller.user, app=self._app)
        if running >= caller.max_commands:
            raise TooManyRequests(
                f"{running} interactive commands of {caller.user!r} are running, which is the maximum; "
                "end one with skill_kill_session",
                limit="concurrency",
                retry_after=1,
            )

    async def close(self) -> None:
        """Close all sessions."""
        opened, self._open = list(self._open.values()), {}
        await asyncio.gather(*(shield_until_done(self._close(one)) for one in opened))
        if self._closing:
            await asyncio.wait(self._closing)

    def _open_session(self, caller: SessionCaller, name: str) -> AbstractAsyncContextManager[SkillSession]:
        options = self._admin_options if caller.is_admin else self._options
        if caller.is_restricted:

            def is_visible(skill: Skill) -> bool:
                return caller.can_use(skill.name)

            options = replace(options, visible=is_visible)
        return self._runtime.session(
            name, user=caller.user, app=self._app, agent=self._agent, options=options, keep_commands=False
        )

    def _enter(self, key: tuple[str, str], identity: object) -> _OpenSession:
        opened = self._open.pop(key, None)
        if opened is None:
            self._make_room(key[0])
            opened = _OpenSession(key, identity)
        self._open[key] = opened
        opened.users += 1
        if opened.timer is not None:
            opened.timer.cancel()
        return opened

    def _leave(self, opened: _OpenSession) -> None:
        opened.users -= 1
        if opened.users or opened.is_closed:
            return
        if opened.session is None:
            # It could not be opened.
            self._open.pop(opened.key, None)
            return
        opened.timer = asyncio.get_running_loop().call_later(self._idle_timeout, self._expire, opened)

    def _make_room(self, user: str) -> None:
        own = [one for key, one in self._open.items() if key[0] == user]
        if len(own) < self._max_sessions:
            return
        idle = next((one for one in own if not one.users), None)
        if idle is None:
            raise TooManyRequests(
                f"{len(own)} sessions of {user!r} are in use, which is the maximum; end one of them",
                limit="sessions",
                retry_after=1,
            )
        # Its client may come back and expects its files.
        idle.is_temporary = False
        self._expire(idle)

    def _expire(self, opened: _OpenSession) -> None:
        if self._open.get(opened.key) is opened and not opened.users:
            del self._open[opened.key]
            task = asyncio.get_running_loop().create_task(self._close(opened))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _close(self, opened: _OpenSession) -> None:
        opened.is_closed = True
        if opened.timer is not None:
            opened.timer.cancel()
        for task in opened.tasks:
            task.cancel()
        if opened.tasks:
            await asyncio.wait(opened.tasks)
        async with opened.ready:
            await opened.stack.aclose()
            user, name = opened.key
            if isinstance(self._runtime.store, MemorySessionStore):
                # Clients can open sessions of ever new names, which must not stay in memory.
                await self._runtime.store.delete(SessionKey(self._app, user, name))
            if opened.is_temporary:
                await self._runtime.remove_workspace(name, user=user, app=self._app)
