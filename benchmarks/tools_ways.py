"""Ways to have a command of a skill run, ours and others', that can be taken in turns with a bare process."""

import shlex
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from peer_turns import in_turns_or_why
from report import Target
from running_bench import PYTHON, ground, write_skill
from running_commands import Maker
from running_part import NotMeasured, Surroundings, series_table
from running_peers import bare, trpc_agent
from sampling import Series
from tools_session import called, loaded_session

from openskills.errors import ExecutorUnavailable

BARE = "subprocess.run"
COMMANDS = {"true": ("true",), "python -c pass": (PYTHON, "-c", "pass")}

Found = Mapping[str, Mapping[str, Series]]
"""What was measured: by command, by way."""


class Ways:
    """Opens ways for as long as the stack is open, and keeps the reasons why some are not to be had."""

    def __init__(self, at: Surroundings, stack: AsyncExitStack) -> None:
        self.missing: dict[str, str] = {}
        self._at = at
        self._stack = stack
        self._skill = write_skill(at.scratch / "skills", 20)
        self.makers: dict[str, Maker] = {BARE: bare}

    async def add(self, names: Sequence[str], opening: Awaitable[Sequence[Maker]]) -> None:
        """Add these, or remember why not."""
        try:
            self.makers |= dict(zip(names, await opening, strict=True))
        except NotMeasured as reason:
            self.missing |= dict.fromkeys(names, str(reason))

    async def ours(self, name: str, **options: Any) -> Sequence[Maker]:
        """`skill_run` of a session of ours, with this executor."""
        try:
            place = await self._stack.enter_async_context(ground(name, self._at.scratch, **options))
        except ExecutorUnavailable as error:
            raise NotMeasured(f"the {name}: {error.message}") from error
        session = await self._stack.enter_async_context(loaded_session(place, self._skill.parent))
        return [partial(called, session)]

    async def theirs(self, states: Sequence[str], *engine: str, home: Path | None = None) -> Sequence[Maker]:
        """`skill_run` of trpc-agent-py in these states: see `running_trpc.py`."""
        opening = trpc_agent(self._at.scratch, self._skill.parent, self._skill.name, *engine, home=home)
        peer = await self._stack.enter_async_context(opening)
        return [lambda argv, state=state: peer.way(state, command=shlex.join(argv)) for state in states]

    async def measured(self, rounds: int) -> Found:
        """All commands in all ways that last; the slower command less often."""
        found: dict[str, Mapping[str, Series]] = {}
        for title, argv in COMMANDS.items():
            self._at.say(f"calling skill_run of `{title}` in {len(self.makers)} ways")
            number = rounds if title == "true" else max(rounds // 3, 1)
            ways = {name: make(argv) for name, make in self.makers.items()}
            found[title] = await in_turns_or_why(ways, number, self.missing)
        return found


def over(series: Mapping[str, Series], ours: str, theirs: str, missing: Mapping[str, str]) -> Target:
    """Ours over a bare process must be at most theirs over a bare process."""
    why = "; ".join(dict.fromkeys(missing[name] for name in (ours, theirs) if name in missing))
    costs = {name: one.median - series[BARE].median for name, one in series.items()}
    value = None if why else costs[ours] / costs[theirs]
    return Target(
        f"`true`, {ours}: overhead over {BARE}, relative to {theirs}", value, 1, at_least=False, digits=2, why=why
    )


def tables(found: Found) -> str:
    """A table for each command."""
    return "\n\n".join(f"**`{title}`**\n\n{series_table(series, base=BARE)}" for title, series in found.items())
