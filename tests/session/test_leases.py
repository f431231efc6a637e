"""Leases of sessions: whatever happens in whatever order, every store agrees with a model of the rules."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openskills.errors import LeaseLost, SessionInUse
from openskills.session.events import new_event
from openskills.session.memory import MemorySessionStore
from openskills.session.open import open_session_store
from openskills.session.store import SessionKey, SessionLease, SessionStore
from openskills.settings import Settings
from openskills.sync import run
from tests.long_form import examples

Step = tuple[str, str, int]
STEP = st.tuples(
    st.sampled_from(["acquire", "acquire", "expire", "renew", "release", "append", "append", "plain", "delete"]),
    st.sampled_from("abc"),
    st.integers(0, 9),
)
LONG, SHORT = 600.0, 0.001


class Model:
    """The rules, written again: at most one lease counts, and epochs only grow."""

    def __init__(self) -> None:
        self.leases: list[SessionLease] = []
        self.current: SessionLease | None = None
        self.is_short = False
        self.log: list[str] = []

    def excludes(self, holder: str) -> bool:
        return self.current is not None and self.current.holder != holder and not self.is_short


async def acquire(store: SessionStore, key: SessionKey, holder: str, ttl: float, *, until_free: bool) -> SessionLease:
    while True:
        try:
            return (await store.acquire_lease(key, holder, ttl=ttl))[0]
        except SessionInUse:
            if not until_free:
                raise
            await asyncio.sleep(0)


async def follow(store: SessionStore, key: SessionKey, model: Model, step: Step) -> None:
    verb, holder, index = step
    if verb in ("acquire", "expire"):
        if model.excludes(holder):
            with pytest.raises(SessionInUse):
                await store.acquire_lease(key, holder, ttl=LONG)
            return
        taken = await acquire(store, key, holder, SHORT if verb == "expire" else LONG, until_free=model.is_short)
        assert all(taken.epoch > other.epoch for other in model.leases)
        model.leases.append(taken)
        model.current, model.is_short = taken, verb == "expire"
    elif verb == "plain":
        event = new_event("x", "note")
        await store.append(key, event)
        model.log.append(event.id)
    elif verb == "delete":
        await store.delete(key)
        model.log.clear()
    elif model.leases:
        await use_lease(store, key, model, verb, model.leases[index % len(model.leases)])


async def use_lease(store: SessionStore, key: SessionKey, model: Model, verb: str, lease: SessionLease) -> None:
    is_current = lease is model.current
    event = new_event("x", "note")
    try:
        if verb == "append":
            await store.append(key, event, epoch=lease.epoch)
            model.log.append(event.id)
        elif verb == "renew":
            await store.renew_lease(lease, ttl=LONG)
            model.is_short = False
        else:
            await store.release_lease(lease)
            model.current = None if is_current else model.current
            return
    except LeaseLost:
        assert not is_current
    else:
        assert is_current


async def check(make: Callable[[], SessionStore], steps: list[Step]) -> None:
    store, model, key = make(), Model(), SessionKey("app", "u", uuid4().hex)
    try:
        for step in steps:
            await follow(store, key, model, step)
        found = await store.get(key)
        assert [event.id for event in (found.events if found else ())] == model.log
    finally:
        if close := getattr(store, "close", None):
            await close()


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(STEP, max_size=15))
def test_in_memory_the_rules_of_epochs_hold(steps: list[Step]) -> None:
    run(check(MemorySessionStore, steps))


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, max_size=15))
def test_in_every_durable_store_the_rules_of_epochs_hold(store_url: str, tmp_path: Path, steps: list[Step]) -> None:
    home = Settings.from_env({"HOME": str(tmp_path)})
    run(check(lambda: open_session_store(store_url, home), steps))
