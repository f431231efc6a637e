"""Skills that come, go and change while the host runs."""

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import watchfiles

from openskills.errors import SkillError
from openskills.host.parts import Parts
from openskills.host.registration import Registration
from openskills.host.registry.entries import Changes
from openskills.skillmd.problem import Problem

_log = logging.getLogger("openskills.host")
LOOK_AGAIN = 2.0
"""Seconds between looks where the system cannot tell of changes."""


async def prepare_all(parts: Parts) -> None:
    """Try every skill: what cannot be called here is marked as unavailable, with what is missing."""
    await _prepare(parts, parts.registry.all())
    parts.prepared = True


async def reload(parts: Parts) -> Changes:
    """Read the manifests that have changed. Invocations that are under way go on with what they began with."""
    before = {registration.id: registration for registration in parts.registry.all()}
    changes = await asyncio.to_thread(parts.registry.reload)
    if not changes:
        return changes
    for skill_id in (*changes.removed, *changes.changed):
        parts.host.forget(skill_id)
        await _forget(parts, before.get(skill_id))
    fresh = {*changes.added, *changes.changed}
    await _prepare(parts, (each for each in parts.registry.all() if each.id in fresh))
    _log.info("skills: added %s, removed %s, changed %s", changes.added, changes.removed, changes.changed)
    return changes


async def watch(parts: Parts) -> None:
    """Reload whenever something changes in the directories of the registry. Runs until it is cancelled."""
    while True:
        present = [directory for directory in parts.registry.directories if directory.is_dir()]
        try:
            await _changed(present)
        except OSError as error:
            _log.warning("changes of manifests are looked for every %g s: %s", LOOK_AGAIN, error)
            await asyncio.sleep(LOOK_AGAIN)
        await reload(parts)


@contextmanager
def reloads_on_hangup(parts: Parts) -> Generator[None]:
    """In this block SIGHUP means: read the manifests again. Where signals belong to somebody else they stay theirs."""
    loop = asyncio.get_running_loop()
    going: set[asyncio.Task[Changes]] = set()

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


async def _changed(directories: Iterable[Path]) -> None:
    """Wait until something has changed."""
    found = list(directories)
    if not found:
        await asyncio.sleep(LOOK_AGAIN)
        return
    # Its type is not known whole.
    changes: AsyncGenerator[object] = cast("Any", watchfiles).awatch(*found, debounce=200, step=50)
    async with aclosing(changes):
        await anext(changes, None)


async def _prepare(parts: Parts, registrations: Iterable[Registration]) -> None:
    await asyncio.gather(*(_prepare_one(parts, registration) for registration in registrations))


async def _prepare_one(parts: Parts, registration: Registration) -> None:
    problem = None
    try:
        await parts.runners.for_(registration).prepare(registration)
    except SkillError as error:
        _log.warning("%s cannot be called: %s", registration.id, error.message)
        problem = Problem(error.reason.lower().replace("_", "-"), error.message, path=str(registration.origin or ""))
    # Gone again meanwhile: then there is nothing to mark.
    with suppress(SkillError):
        parts.registry.mark(registration.id, problem)


async def _forget(parts: Parts, registration: Registration | None) -> None:
    if registration is not None:
        with suppress(SkillError):
            await parts.runners.for_(registration).forget(registration.id)
