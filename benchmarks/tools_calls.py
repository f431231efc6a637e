"""What a call of `skill_run` costs over a bare process, against the same tool of trpc-agent-py."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from report import Bar, Target
from running_bench import PYTHON, ground, write_skill
from running_container import container_engine
from running_part import NotMeasured, Part, Surroundings, raw_series, series_table
from running_peers import bare, trpc_agent
from sampling import Series, Way, in_turns
from tools_session import called, loaded_session

from openskills.errors import ExecutorUnavailable

Maker = Callable[[Sequence[str]], Way]

BARE, SHELL = "subprocess.run", "subprocess.run, bash -c"
LOCAL, SANDBOX, CONTAINER = "OpenSkill, local", "OpenSkill, sandbox", "OpenSkill, container"
LOADED, UNLOADED = "trpc-agent-py, loaded", "trpc-agent-py, not loaded"
PROFILE = "trpc-agent-py, not loaded, with the user's profile"
BOXED, BOXED_UNLOADED = "trpc-agent-py, container, loaded", "trpc-agent-py, container, not loaded"
COMMANDS = {"true": ("true",), "python -c pass": (PYTHON, "-c", "pass")}

_ABOUT = f"""
A call of `skill_run` in a workspace that has been used before, with a skill of 20 files. Ours is `SkillSession.call`: the
arguments are checked, the skill is looked through for changes, what is new in `out/` is collected, and the run is written
to the audit log. trpc-agent-py 1.2.0 runs commands where its user is, with all of its rights and variables, unless it
has a container. When its skill is loaded it does not look at the skill again; when it is not, which is what its tool
allows by default, it looks through the skill and asks login shells, which read a profile: an empty one, or that of whoever
runs this. "Over" is the median less that of `subprocess.run(argv, capture_output=True)`, taken beside it.
"""


@dataclass
class Ways:
    """Ways that are taken in turns with each other, and why others are not there."""

    makers: dict[str, Maker]
    missing: dict[str, str] = field(default_factory=dict[str, str])

    async def add(self, names: Sequence[str], opening: Awaitable[Sequence[Maker]]) -> None:
        """Add these, or say why not."""
        try:
            self.makers |= dict(zip(names, await opening, strict=True))
        except NotMeasured as reason:
            self.missing |= dict.fromkeys(names, str(reason))


async def measure(at: Surroundings) -> Part:
    """Both commands, in all ways that this machine has."""
    found: dict[str, list[dict[str, Series]]] = {}
    async with AsyncExitStack() as stack:
        groups = await _groups(at.scratch, stack)
        missing = groups[0].missing | groups[1].missing
        for title, argv in COMMANDS.items():
            at.say(f"calling skill_run of `{title}` in {sum(len(group.makers) for group in groups)} ways")
            rounds = at.extent.many if title == "true" else max(at.extent.many // 3, 1)
            found[title] = [
                await in_turns({name: make(argv) for name, make in group.makers.items()}, number)
                for group, number in zip(groups, (rounds, min(rounds, at.extent.few)), strict=True)
            ]
    first = {name: one for group in reversed(found["true"]) for name, one in group.items()}
    return Part(
        "A call of skill_run in a warm workspace",
        _ABOUT,
        [target for title, groups in found.items() for target in targets(title, groups, missing)],
        "\n\n".join(_tables(title, groups) for title, groups in found.items()),
        [Bar(name, one.median, ours=name.startswith("OpenSkill")) for name, one in first.items()],
        list(dict.fromkeys(missing.values())),
        {title: [raw_series(group) for group in groups] for title, groups in found.items()},
    )


def targets(title: str, groups: Sequence[Mapping[str, Series]], missing: Mapping[str, str]) -> list[Target]:
    """Ours over a bare process, as a multiple of theirs over a bare process."""
    over = {name: one.median - group[BARE].median for group in groups for name, one in group.items()}
    compared = [(SANDBOX, UNLOADED), (SANDBOX, LOADED), (SANDBOX, BOXED), (LOCAL, LOADED), (CONTAINER, BOXED)]
    return [_target(title, ours, theirs, over, missing) for ours, theirs in compared]


def _target(title: str, ours: str, theirs: str, over: Mapping[str, float], missing: Mapping[str, str]) -> Target:
    why = "; ".join(dict.fromkeys(missing[name] for name in (ours, theirs) if name in missing))
    value = None if why else max(over[ours], 0.0) / max(over[theirs], 1e-9)
    return Target(f"`{title}`, {ours}: over {BARE}, times of {theirs}", value, 1, at_least=False, digits=2, why=why)


def _tables(title: str, groups: Sequence[Mapping[str, Series]]) -> str:
    return "\n\n".join([f"**`{title}`**", *(series_table(group, base=BARE) for group in groups if len(group) > 1)])


async def _groups(scratch: Path, stack: AsyncExitStack) -> list[Ways]:
    """What takes milliseconds, and what takes a tenth of a second and would disturb it."""
    skill = write_skill(scratch / "skills", 20)
    quick = Ways({BARE: bare, SHELL: lambda argv: bare(["bash", "-c", shlex.join(argv)])})
    await quick.add([LOCAL], _ours("local", skill, scratch, stack))
    await quick.add([SANDBOX], _ours("sandbox", skill, scratch, stack))
    await quick.add([LOADED, UNLOADED], _theirs(("warm", "unloaded"), skill, scratch, stack))
    slow = Ways({BARE: bare})
    await slow.add([PROFILE], _theirs(("unloaded",), skill, scratch, stack, home=Path.home()))
    await slow.add([CONTAINER, BOXED, BOXED_UNLOADED], _containers(skill, scratch, stack))
    return [quick, slow]


async def _ours(name: str, skill: Path, scratch: Path, stack: AsyncExitStack, **options: Any) -> Sequence[Maker]:
    try:
        place = await stack.enter_async_context(ground(name, scratch, **options))
    except ExecutorUnavailable as error:
        raise NotMeasured(f"the {name}: {error.message}") from error
    session = await stack.enter_async_context(loaded_session(place, skill.parent))
    return [partial(called, session)]


async def _theirs(
    states: Sequence[str], skill: Path, scratch: Path, stack: AsyncExitStack, *engine: str, home: Path | None = None
) -> Sequence[Maker]:
    opening = trpc_agent(scratch, skill.parent, skill.name, *engine, home=home)
    peer = await stack.enter_async_context(opening)
    return [lambda argv, state=state: peer.way(state, command=shlex.join(argv)) for state in states]


async def _containers(skill: Path, scratch: Path, stack: AsyncExitStack) -> Sequence[Maker]:
    engine = stack.enter_context(container_engine())
    ours = await _ours("container", skill, scratch, stack, options=engine.options)
    theirs = await _theirs(("warm", "unloaded"), skill, scratch, stack, engine.address or "", engine.image)
    return [partial(_of_the_image, make) for make in (*ours, *theirs)]


def _of_the_image(make: Maker, argv: Sequence[str]) -> Way:
    return make(["python3" if word == PYTHON else word for word in argv])
