"""One small command in a workspace that is there already: what everything around it costs."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from peer_turns import in_turns_or_why
from report import Bar, Target
from running_bench import PYTHON, command_of, ground, run_of, write_skill
from running_container import container_engine
from running_part import NotMeasured, Part, Surroundings, raw_series, series_table
from running_peers import bare, bubblewrap, trpc_agent
from sampling import Series, Way

from openskills.errors import ExecutorUnavailable
from openskills.executors.commands import CommandRunner

BARE, LOCAL, SANDBOX = "subprocess.run", "OpenSkill, local", "OpenSkill, sandbox"
CONTAINER, BWRAP, TRPC, DOCKER = "OpenSkill, container", "bwrap alone", "trpc-agent-py, local", "docker exec"
OURS, PICTURED = (LOCAL, SANDBOX, CONTAINER), (BARE, LOCAL, TRPC, BWRAP, SANDBOX, CONTAINER, DOCKER)

Maker = Callable[[Sequence[str]], Way]
"""From a command to a way of running it."""
Opener = Callable[[Path, Path, AsyncExitStack], Awaitable[dict[str, Maker]]]
"""Opens what some ways need, with a scratch directory and a skill; raises `NotMeasured` when it is not to be had."""

_EXECUTOR = ", executor only"
_NEW = "OpenSkill, sandbox, new each time"
_COMMANDS = {"true": ("true",), "python -c pass": (PYTHON, "-c", "pass")}
_ABOUT = f"""
`true` and `python -c pass` in a warm workspace with a staged skill of 20 files. "{BARE}" is `subprocess.run(argv,
capture_output=True)`; it is measured again for each group, because variants that run after each other share processor
caches. OpenSkill is `CommandRunner.run`, as the command line calls it: policy, audit log, environment, executor,
result. "Executor only" leaves out everything around the executor; the targets are for it, because they compare
starting a command with starting a command. "With out/**" also collects the files that the command wrote, which
trpc-agent-py always does. trpc-agent-py 1.2.0 runs `skill_run` of a loaded skill with its local executor, which
isolates nothing. "{BWRAP}" has new namespaces and a read-only file system, but no limits, no system call filter and
no separate user. In a warm workspace, a sandbox is reused if the last command left it unchanged; "new each time"
disables that (`OPENSKILL_SANDBOX_KEPT=0`). In containers, Python is the image's.
"""


async def measure(at: Surroundings) -> Part:
    """Both commands, in all ways that this machine has."""
    found: dict[str, list[dict[str, Series]]] = {}
    async with AsyncExitStack() as stack:
        groups, missing = await _groups(at.scratch, stack)
        for title, argv in _COMMANDS.items():
            at.say(f"running `{title}` in {sum(map(len, groups))} ways")
            rounds = at.extent.many if title == "true" else max(at.extent.many // 3, 1)
            ways = [{name: make(argv) for name, make in group.items()} for group in groups]
            found[title] = [await in_turns_or_why(one, rounds, missing) for one in ways]
    first = {name: one for group in reversed(found["true"]) for name, one in group.items()}
    return Part(
        "A small command in a warm workspace",
        _ABOUT,
        [target for title, series in found.items() for target in _targets(title, series, missing)],
        "\n\n".join(_tables(title, series) for title, series in found.items()),
        [Bar(name, first[name].median, ours=name in OURS) for name in PICTURED if name in first],
        list(dict.fromkeys(missing.values())),
        {title: [raw_series(one) for one in series] for title, series in found.items()},
    )


def _tables(title: str, groups: Sequence[Mapping[str, Series]]) -> str:
    return "\n\n".join([f"**`{title}`**", *(series_table(group, base=BARE) for group in groups)])


def _targets(title: str, groups: Sequence[Mapping[str, Series]], missing: Mapping[str, str]) -> list[Target]:
    medians = {name: (one.median, group[BARE].median) for group in groups for name, one in group.items()}
    local, beside = medians[f"{LOCAL}{_EXECUTOR}"]
    over = medians.get(f"{SANDBOX}{_EXECUTOR}")
    sandbox = (over[0] - over[1]) * 1000 if over is not None else None
    why = missing.get(SANDBOX, "")
    return [
        Target(f"`{title}`, local: relative to {BARE}", local / beside, 1.5, at_least=False, digits=2),
        Target(f"`{title}`, sandbox: overhead over {BARE}", sandbox, 8, at_least=False, unit="ms", why=why),
    ]


async def _groups(scratch: Path, stack: AsyncExitStack) -> tuple[list[dict[str, Maker]], dict[str, str]]:
    """All ways that there are, those beside each other that are compared, and the reasons why others are not."""
    skill = write_skill(scratch / "skills", 20)
    missing: dict[str, str] = {}
    groups: list[dict[str, Maker]] = []
    openers: list[dict[str, Opener]] = [
        {LOCAL: _local, TRPC: _peer},
        {BWRAP: _bubblewrap, SANDBOX: _sandbox},
        {CONTAINER: _containers},
    ]
    for group in openers:
        makers: dict[str, Maker] = {}
        for name, opener in group.items():
            try:
                makers |= await opener(scratch, skill, stack)
            except NotMeasured as reason:
                missing[name] = str(reason)
        if makers:
            groups.append({BARE: bare, **makers})
    return groups, missing


async def _local(scratch: Path, skill: Path, stack: AsyncExitStack) -> dict[str, Maker]:
    return _ours(LOCAL, await _bench("local", scratch, skill, stack))


async def _peer(scratch: Path, skill: Path, stack: AsyncExitStack) -> dict[str, Maker]:
    peer = await stack.enter_async_context(trpc_agent(scratch, skill.parent, skill.name))
    return {TRPC: lambda argv: peer.way("warm", command=shlex.join(argv))}


async def _bubblewrap(scratch: Path, skill: Path, stack: AsyncExitStack) -> dict[str, Maker]:
    del scratch, skill, stack
    return {BWRAP: bubblewrap()}


async def _sandbox(scratch: Path, skill: Path, stack: AsyncExitStack) -> dict[str, Maker]:
    try:
        new = await _bench("sandbox", scratch / "new", skill, stack, kept=0)
        return {**_ours(SANDBOX, await _bench("sandbox", scratch, skill, stack)), _NEW: lambda argv: run_of(new, argv)}
    except ExecutorUnavailable as error:
        raise NotMeasured(f"the sandbox: {error.message}") from error


async def _containers(scratch: Path, skill: Path, stack: AsyncExitStack) -> dict[str, Maker]:
    engine = stack.enter_context(container_engine())
    bench = await _bench("container", scratch, skill, stack, options=engine.options)
    identity = stack.enter_context(engine.bare_container())
    return {
        CONTAINER: lambda argv: run_of(bench, of_the_image(argv)),
        DOCKER: lambda argv: bare(engine.docker("exec", identity, *of_the_image(argv))),
    }


async def _bench(name: str, scratch: Path, skill: Path, stack: AsyncExitStack, **options: Any) -> CommandRunner:
    place = await stack.enter_async_context(ground(name, scratch, **options))
    return await place.bench(skill)


def _ours(name: str, bench: CommandRunner) -> dict[str, Maker]:
    return {
        name: partial(run_of, bench),
        f"{name}, with out/**": partial(run_of, bench, collecting=True),
        f"{name}{_EXECUTOR}": partial(command_of, bench),
    }


def of_the_image(argv: Sequence[str]) -> list[str]:
    """The same command where Python is that of a container's image."""
    return ["python3" if word == PYTHON else word for word in argv]
