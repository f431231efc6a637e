"""Skills that come, go and change while the host runs."""

import asyncio
import logging
import signal
import stat
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import watchfiles

from openskills.errors import SkillError
from openskills.host.model import Registration
from openskills.host.parts import HostParts
from openskills.host.registry.registry import RegistryChanges
from openskills.skillmd.problem import Problem

_log = logging.getLogger("openskills.host")
RETRY_SECONDS = 2.0
"""Seconds between looks where the system cannot tell of changes."""
_WatchTarget = tuple[Path, int, int]


async def prepare_all(parts: HostParts) -> None:
    """Try every skill: what cannot be called here is marked as unavailable, with what is missing."""
    await _prepare(parts, parts.registry.list_registrations())
    parts.prepared = True


async def reload(parts: HostParts) -> RegistryChanges:
    """Read the manifests that have changed. Invocations that are under way go on with what they began with."""
    before = {registration.id: registration for registration in parts.registry.list_registrations()}
    changes = await asyncio.to_thread(parts.registry.reload)
    if not changes:
        return changes
    for skill_id in (*changes.removed, *changes.changed):
        parts.host.forget(skill_id)
        await _forget(parts, before.get(skill_id))
    fresh = {*changes.added, *changes.changed}
    await _prepare(parts, (each for each in parts.registry.list_registrations() if each.id in fresh))
    _log.info("skills: added %s, removed %s, changed %s", changes.added, changes.removed, changes.changed)
    return changes


async def watch(parts: HostParts) -> None:
    """Reload whenever something changes in the directories of the registry. Runs until it is cancelled."""
    while True:
        try:
            await _reload_on_changes(parts, _find_directories(parts))
        except OSError as error:
            _log.warning("changes of manifests are looked for every %g s: %s", RETRY_SECONDS, error)
            await asyncio.sleep(RETRY_SECONDS)
            await reload(parts)


@contextmanager
def reload_on_hangup(parts: HostParts) -> Generator[None]:
    """In this block SIGHUP means: read the manifests again. Where signals belong to somebody else they stay theirs."""
    loop = asyncio.get_running_loop()
    going: set[asyncio.Task[RegistryChanges]] = set()

    def begin() -> None:
        task = loop.create_task(reload(parts))
        going.add(task)
        task.add_done_callback(going.discard)

    try:
        loop.add_signal_handler(signal.SIGHUP, begin)
    except (ValueError, RuntimeError):
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


async def _reload_on_changes(parts: HostParts, places: frozenset[_WatchTarget]) -> None:
    """Reload after each change, until the directories that exist are others."""
    if not places:
        await asyncio.sleep(RETRY_SECONDS)
        await reload(parts)
        return
    # One for all changes: what comes while one reloads is told after it. Its type is not known whole.
    changes: AsyncGenerator[object] = cast("Any", watchfiles).awatch(
        *(path for path, *_ in places),
        debounce=200,
        step=50,
        rust_timeout=int(RETRY_SECONDS * 1000),
        yield_on_timeout=True,
    )
    unseen = True
    async with aclosing(changes):
        async for changed in changes:
            moved = _find_directories(parts) != places
            # What changed before the system began to watch was told to nobody.
            if changed or unseen or moved:
                await reload(parts)
            if moved:
                return
            unseen = False


def _find_directories(parts: HostParts) -> frozenset[_WatchTarget]:
    """The directories that exist, each with what it is now: one that was replaced has to be watched anew."""
    found: set[_WatchTarget] = set()
    for path in parts.registry.directories:
        with suppress(OSError):
            status = path.stat()
            if stat.S_ISDIR(status.st_mode):
                found.add((path, status.st_dev, status.st_ino))
    return frozenset(found)


async def _prepare(parts: HostParts, registrations: Iterable[Registration]) -> None:
    chosen = tuple(registrations)
    done = await asyncio.gather(*(_prepare_one(parts, each) for each in chosen), return_exceptions=True)
    for registration, error in zip(chosen, done, strict=True):
        if error is not None:
            # Runners are of other people, too. The others are served all the same.
            _log.error("%s could not be tried through a fault of its runner", registration.id, exc_info=error)


async def _prepare_one(parts: HostParts, registration: Registration) -> None:
    problem = None
    try:
        await parts.runners.get_runner(registration).prepare(registration)
    except SkillError as error:
        _log.warning("%s cannot be called: %s", registration.id, error.message)
        problem = Problem(error.reason.lower().replace("_", "-"), error.message, path=str(registration.origin or ""))
    parts.registry.set_problem(registration, problem)


async def _forget(parts: HostParts, registration: Registration | None) -> None:
    if registration is not None:
        with suppress(SkillError):
            await parts.runners.get_runner(registration).forget(registration.id)
