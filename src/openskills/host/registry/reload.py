"""Reload skills that are added, removed or changed while the host runs."""

import asyncio
import logging
import signal
import stat
from collections.abc import AsyncGenerator, Awaitable, Generator, Iterable
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import watchfiles

from openskills.errors import SkillError
from openskills.host.database import CHANGE_INTERVAL, CHANGE_KEYS, CHANGE_SKILLS, read_changes
from openskills.host.model import Registration
from openskills.host.parts import HostParts
from openskills.host.registry.registry import RegistryChanges
from openskills.skillmd.problem import Problem

_log = logging.getLogger("openskills.host")
RETRY_SECONDS = 2.0
"""Seconds between two polls where file events are not available."""
_WatchTarget = tuple[Path, int, int]


async def prepare_all(parts: HostParts) -> None:
    """Prepare all skills; those that fail are marked as unavailable, with the reason."""
    await _prepare(parts, parts.registry.list_registrations())
    parts.prepared = True


async def reload(parts: HostParts) -> RegistryChanges:
    """Reload changed manifests. Running invocations keep their registration."""
    before = {registration.id: registration for registration in parts.registry.list_registrations()}
    changes = await asyncio.to_thread(parts.registry.reload)
    if not changes:
        return changes
    for skill_id in (*changes.removed, *changes.changed):
        parts.host.forget(skill_id)
        if (registration := before.get(skill_id)) is not None:
            with suppress(SkillError):
                await parts.runners.get_runner(registration).forget(skill_id)
    fresh = {*changes.added, *changes.changed}
    await _prepare(parts, (each for each in parts.registry.list_registrations() if each.id in fresh))
    await notify_reload(parts)
    _log.info("skills: added %s, removed %s, changed %s", changes.added, changes.removed, changes.changed)
    return changes


async def prepare_unavailable(parts: HostParts) -> tuple[str, ...]:
    """Prepare the skills again that are unavailable, such as one whose directory was missing; those that are ready."""
    entries = parts.registry.list_entries()
    absent = [one.registration for one in entries if one.status == "unavailable" and one.registration is not None]
    await _prepare(parts, absent)
    return tuple(one.id for one in absent if parts.registry.get_entry(one.id).status == "ready")


async def notify_reload(parts: HostParts) -> None:
    """Call the functions that want to know when skills have changed."""
    for notify in parts.on_reload:
        if isinstance(told := notify(), Awaitable):
            await told


async def watch(parts: HostParts) -> None:
    """Reload whenever the directories of the registry change, until cancelled."""
    while True:
        try:
            await _reload_on_changes(parts, _find_directories(parts))
        except OSError as error:
            _log.warning("cannot watch manifests, polling every %g s instead: %s", RETRY_SECONDS, error)
            await asyncio.sleep(RETRY_SECONDS)
            await reload(parts)


async def follow_changes(parts: HostParts) -> None:
    """With PostgreSQL: do what other hosts have asked for, until cancelled: new keys, uploads, reloads.

    A call begins with all of it, because it may continue one that has failed.
    """
    done: dict[str, int] = {}
    failed = False
    while parts.database.is_shared:
        try:
            await _apply_changes(parts, done)
            failed = False
        except SkillError as error:
            if not failed:
                _log.warning("cannot see what other hosts have changed, trying again: %s", error.message)
            failed = True
        await asyncio.sleep(CHANGE_INTERVAL)


async def _apply_changes(parts: HostParts, done: dict[str, int]) -> None:
    """Do what `done` lacks, and add to it what was done; so that what fails is done the next time."""
    found = await parts.database.read(read_changes)
    keys, skills = found.get(CHANGE_KEYS, 0), found.get(CHANGE_SKILLS, 0)
    if keys != done.get(CHANGE_KEYS):
        await parts.keys.refresh()
        done[CHANGE_KEYS] = keys
    if parts.uploads is not None and await parts.uploads.refresh():
        done.pop(CHANGE_SKILLS, None)
    if skills != done.get(CHANGE_SKILLS):
        await reload(parts)
        done[CHANGE_SKILLS] = skills


@contextmanager
def reload_on_hangup(parts: HostParts) -> Generator[None]:
    """Reload on SIGHUP while the block runs. Does nothing outside of the main thread."""
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
    """Reload after each change, until a directory appears, disappears or is replaced."""
    if not places:
        await asyncio.sleep(RETRY_SECONDS)
        await reload(parts)
        return
    # One iterator, so that changes during a reload are reported after it. It is not fully typed.
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
            # Changes before the watch was set up are not reported.
            if changed or unseen or moved:
                await reload(parts)
            if moved:
                return
            unseen = False


def _find_directories(parts: HostParts) -> frozenset[_WatchTarget]:
    # With inodes: a directory that was replaced has to be watched anew.
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
            # Runners may come from other packages. Other skills are served anyway.
            _log.error("%s: its runner failed to prepare it", registration.id, exc_info=error)


async def _prepare_one(parts: HostParts, registration: Registration) -> None:
    problem = None
    try:
        await parts.runners.get_runner(registration).prepare(registration)
    except SkillError as error:
        _log.warning("%s is unavailable: %s", registration.id, error.message)
        problem = Problem(error.reason.lower().replace("_", "-"), error.message, path=str(registration.origin or ""))
    parts.registry.set_problem(registration, problem)
