"""What more and more open conversations cost: opening them, loading a skill in each, a request of each, memory."""

import gc
import itertools
import time
import tracemalloc
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import scale_corpus
from context_talk import SYSTEM
from running_part import Part, Surroundings
from sampling import Series
from scale_curve import LINEAR, Curve, chart_of, curves_table, raw_curves, targets_of, time_steps
from scale_sizes import sizes_of

from openskills.catalog.catalog import Catalog
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.settings import Settings

SKILLS = 100
OPEN, LOAD, REQUEST, CLOSE, MEMORY = "open", "load a skill", "build a request", "close", "memory"
STORES = ("memory", "SQLite")

_ABOUT = f"""
Concurrent conversations in one `SkillRuntime` over {SKILLS} skills: all are opened, a skill is loaded and a request
is built in each, and all are closed. Times are for all of them together, so linear means that each costs the same.
Conversations are stored in memory, or in an SQLite file, in which each load is flushed to disk. Memory is measured by
`tracemalloc` in a separate run, after a load and a request in each.
"""


@dataclass(frozen=True)
class Crowd:
    """Conversations in one runtime, new ones in every round."""

    catalog: Catalog
    settings: Settings
    store: str
    size: int
    _rounds: Any = field(default_factory=itertools.count)

    async def once(self) -> dict[str, float]:
        """Open, load, build and close; the seconds of each step."""
        took: dict[str, float] = {}
        async with SkillRuntime(self.catalog, settings=self.settings, store=self.store) as runtime:
            await _first_use(runtime)
            begin = time.perf_counter()
            async with AsyncExitStack() as stack:
                sessions = await self._opened(runtime, stack)
                took[OPEN], begin = time.perf_counter() - begin, time.perf_counter()
                await self._loaded(sessions)
                took[LOAD], begin = time.perf_counter() - begin, time.perf_counter()
                _requests(sessions)
                took[REQUEST], begin = time.perf_counter() - begin, time.perf_counter()
            took[CLOSE] = time.perf_counter() - begin
        return took

    async def taking(self) -> float:
        """Bytes that the conversations take, after a load and a request in each."""
        async with SkillRuntime(self.catalog, settings=self.settings, store=self.store) as runtime:
            await _first_use(runtime)
            gc.collect()
            tracemalloc.start()
            async with AsyncExitStack() as stack:
                sessions = await self._opened(runtime, stack)
                await self._loaded(sessions)
                _requests(sessions)
                gc.collect()
                taken, _ = tracemalloc.get_traced_memory()
                tracemalloc.stop()
        return float(taken)

    async def _opened(self, runtime: SkillRuntime, stack: AsyncExitStack) -> list[SkillSession]:
        turn = next(self._rounds)
        return [
            await stack.enter_async_context(runtime.session(f"s{self.size}-{turn}-{number}"))
            for number in range(self.size)
        ]

    async def _loaded(self, sessions: Sequence[SkillSession]) -> None:
        names = [skill.name for skill in self.catalog.skills]
        for number, session in enumerate(sessions):
            result = await session.call("skill_load", {"skill": names[number % len(names)]}, call_id="call_1")
            if result.error is not None:
                raise RuntimeError(result.text)


async def measure(at: Surroundings) -> Part:
    """Every step over all numbers of conversations, with both stores."""
    sizes = sizes_of(at.extent)
    catalog, settings = scale_corpus.few(at.scratch, SKILLS)
    curves: list[Curve] = []
    for name in STORES:
        at.say(f"sessions: up to {sizes.sessions[-1]:,} of them, {name}")
        crowds = {size: Crowd(catalog, settings, _store(name, at.scratch, size), size) for size in sizes.sessions}
        ways = {size: crowd.once for size, crowd in crowds.items()}
        steps = await time_steps(ways, max_turns=sizes.max_turns, seconds=2 * sizes.seconds)
        curves += [Curve(f"{step}, {name}", points, LINEAR) for step, points in steps.items() if _tells(step, name)]
    at.say("sessions: memory")
    crowds = {size: Crowd(catalog, settings, _store(STORES[0], at.scratch, size), size) for size in sizes.sessions}
    memory = {size: Series((await crowd.taking(),)) for size, crowd in crowds.items()}
    return _part(curves, Curve(MEMORY, memory, LINEAR, bytes=True))


def _tells(step: str, store: str) -> bool:
    """Building a request asks no store."""
    return step != REQUEST or store == STORES[0]


def _part(curves: Sequence[Curve], memory: Curve) -> Part:
    largest = max(memory.points)
    every = [*curves, memory]
    each = f"With {largest:,} conversations, each takes {memory.points[largest].median / largest / 1000:,.1f} KB."
    charts = [
        chart_of("sessions", "Time by number of conversations", "conversations", "seconds for all of them", curves),
        chart_of("memory", "Memory by number of conversations", "conversations", "bytes", [memory]),
    ]
    return Part(
        "Sessions",
        _ABOUT,
        targets_of(every, "sessions"),
        f"{curves_table(every, 'sessions')}\n\n{each}",
        raw=raw_curves(every),
        charts=charts,
    )


def _store(name: str, scratch: Path, size: int) -> str:
    return "memory:" if name == STORES[0] else f"sqlite:///{scratch}/sessions-{size}.db"


async def _first_use(runtime: SkillRuntime) -> None:
    """Objects made at the first use are not a cost of a conversation."""
    async with runtime.session("first") as session:
        await session.call("skill_load", {"skill": runtime.catalog.skills[0].name}, call_id="call_1")
        _requests([session])


def _requests(sessions: Sequence[SkillSession]) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "skill_load", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "Make the report."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "loaded"},
    ]
    for session in sessions:
        session.context(messages)
