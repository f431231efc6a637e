"""Time by length of the conversation: its next request, another event in its log, opening it, a turn of an agent."""

import asyncio
import itertools
import json
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import scale_corpus
from context_talk import LOOKED, SYSTEM
from running_part import Part, Surroundings
from sampling import Way, timed
from scale_costs import Costs, Growing
from scale_curve import FLAT, LINEAR, timing
from scale_sizes import sizes_of

from openskills.agent.agent import END, TOOL_CALL, Agent, build_transcript
from openskills.agent.models.model import ModelEvent, ModelRequest, ModelResponse
from openskills.agent.runner import Runner
from openskills.catalog.catalog import Catalog
from openskills.runtime.runtime import SkillRuntime
from openskills.session.events import MESSAGE, TOOL_RESPONSE, USER, Event, new_event
from openskills.session.sqlite import SqliteSessionStore
from openskills.session.store import SessionKey
from openskills.settings import Settings

SKILLS, APPENDS = 50, 3
APP, WHO, AGENT, NAME = "bench", "user", "assistant", "talk"

_ABOUT = f"""
Conversations with the given number of events in an SQLite file: six for each turn of the user, including a tool call
and its result of {len(LOOKED):,} characters. "Next request" is `session.context` of all messages. "Append" adds
{APPENDS} events one after the other, each flushed to disk; the time is for one. "Open" is `runtime.session`, "read
the log" is `session.events()`, and "turn of an agent" is everything: `Runner.reply` with a model that answers
immediately. Measurements that change the log use a copy of it.
"""


class AtOnce:
    """A model that has its answer ready."""

    name = "at once"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """One short answer."""
        del request
        yield ModelResponse("Done.", model=self.name)

    async def close(self) -> None:
        """There is nothing to give back."""


@dataclass(frozen=True)
class Log:
    """A conversation in a file that stays as it is."""

    path: Path
    size: int
    catalog: Catalog
    settings: Settings
    events: Sequence[Event]
    _copies: Any = field(default_factory=itertools.count)

    def copied(self) -> Path:
        """A copy of the file."""
        copy = self.path.with_name(f"{self.path.stem}-{next(self._copies)}.db")
        shutil.copy(self.path, copy)
        return copy

    def runtime(self, path: Path) -> SkillRuntime:
        """What serves the conversation from a file."""
        return SkillRuntime(self.catalog, settings=self.settings, store=f"sqlite:///{path}")


async def measure(at: Surroundings) -> Part:
    """Every cost, over all lengths."""
    sizes = sizes_of(at.extent).events
    catalog, settings = scale_corpus.few(at.scratch, SKILLS)
    at.say(f"transcripts: writing up to {sizes[-1]:,} events")
    logs = {size: await _written(at.scratch / f"log-{size}.db", size, catalog, settings) for size in sizes}
    growing = Growing("Transcripts", _ABOUT, "Time by length of the conversation", "events", _COSTS)
    return await growing.measured(logs, at)


async def _written(path: Path, size: int, catalog: Catalog, settings: Settings) -> Log:
    store = SqliteSessionStore(path)
    events = list(itertools.islice(_talk(), size))
    for event in events:
        await store.append(_KEY, event)
    found = await store.get(_KEY)
    await store.close()
    if found is None or found.revision != size:
        raise RuntimeError(f"the log has not {size} events")
    return Log(path, size, catalog, settings, found.events)


def _talk() -> "itertools.chain[Event]":
    return itertools.chain.from_iterable(map(_turn, itertools.count()))


def _turn(number: int) -> list[Event]:
    identity, arguments = f"call_{number}", json.dumps({"table": f"figures {number}"})
    call = {"id": identity, "type": "function", "function": {"name": "lookup", "arguments": arguments}}
    asked = {"role": "user", "content": f"Look up the figures of table {number}, please."}
    calls = {"role": "assistant", "content": None, "tool_calls": [call]}
    said = {"role": "assistant", "content": f"Here are the figures of table {number}, as far as there are any."}
    return [
        new_event(USER, MESSAGE, {"to": AGENT, "message": asked, "files": []}),
        new_event(AGENT, MESSAGE, {"message": calls}),
        new_event(AGENT, TOOL_CALL, {"call_id": identity, "tool": "lookup", "arguments": arguments}),
        new_event(AGENT, TOOL_RESPONSE, {"call_id": identity, "tool": "lookup", "content": LOOKED, "failed": False}),
        new_event(AGENT, MESSAGE, {"message": said}),
        new_event(AGENT, END, {"text": said["content"]}),
    ]


async def _request(log: Log, stack: AsyncExitStack) -> Way:
    runtime = await stack.enter_async_context(SkillRuntime(log.catalog, settings=log.settings))
    session = await stack.enter_async_context(runtime.session(NAME))
    messages = [{"role": "system", "content": SYSTEM}, *build_transcript(log.events, AGENT)]
    return timing(lambda: session.context(messages), times=3)


async def _append(log: Log, _: AsyncExitStack) -> Way:
    async def once() -> float:
        path = log.copied()
        store = SqliteSessionStore(path)
        await store.get(_KEY, after=log.size)
        await store.append(_KEY, new_event(USER, MESSAGE, {"message": "the first one opens the file for writing"}))
        events = [new_event(AGENT, MESSAGE, {"message": LOOKED}) for _ in range(APPENDS)]

        async def act() -> None:
            for event in events:
                await store.append(_KEY, event)

        seconds = await timed(act)()
        await store.close()
        return seconds / APPENDS

    return once


async def _open(log: Log, stack: AsyncExitStack) -> Way:
    runtime = await stack.enter_async_context(log.runtime(log.path))

    async def act() -> None:
        async with _session(runtime):
            await asyncio.sleep(0)

    return timed(act)


async def _read(log: Log, stack: AsyncExitStack) -> Way:
    runtime = await stack.enter_async_context(log.runtime(log.path))
    session = await stack.enter_async_context(_session(runtime))
    return timed(session.events)


async def _agent(log: Log, _: AsyncExitStack) -> Way:
    async def once() -> float:
        async with log.runtime(log.copied()) as runtime:
            runner = Runner(APP, Agent(AGENT, AtOnce(), runtime))

            async def act() -> None:
                reply = await runner.reply(user=WHO, session=NAME, message="And now?")
                if reply.error is not None:
                    raise RuntimeError(str(reply.error))

            return await timed(act)()

    return once


def _session(runtime: SkillRuntime) -> Any:
    return runtime.session(NAME, agent=AGENT, user=WHO, app=APP)


_KEY = SessionKey(APP, WHO, NAME)
_COSTS: Costs[Log] = {
    "next request": (_request, LINEAR),
    "append": (_append, FLAT),
    "open": (_open, FLAT),
    "read the log": (_read, LINEAR),
    "turn of an agent": (_agent, LINEAR),
}
