"""What a call of `skill_run` costs where something is kept out, against trpc-agent-py's container."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from running_commands import Maker, of_the_image
from running_container import container_engine
from running_part import Part, Surroundings, raw_series
from sampling import Way
from tools_calls import SANDBOX
from tools_ways import Ways, over, tables

CONTAINER = "OpenSkill, container"
BOXED, BOXED_UNLOADED = "trpc-agent-py, container, loaded", "trpc-agent-py, container, not loaded"
PROFILE = "trpc-agent-py, not loaded, with the user's profile"

_ABOUT = f"""
The same call, with OpenSkill in the sandbox and in a container, and trpc-agent-py in its container, which is its only
executor on this machine that isolates commands. "{PROFILE}" runs without a container; its login shells read the
profile of the current user, as they do for its users. In containers, Python is the image's.
"""


async def measure(at: Surroundings) -> Part:
    """Both commands; each way takes up to a second."""
    async with AsyncExitStack() as stack:
        ways = Ways(at, stack)
        await ways.add([SANDBOX], ways.ours("sandbox"))
        await ways.add([PROFILE], ways.theirs(("unloaded",), home=Path.home()))
        await ways.add([CONTAINER, BOXED, BOXED_UNLOADED], _containers(ways, stack))
        found = await ways.measured(at.extent.few)
    compared = [(SANDBOX, BOXED), (CONTAINER, BOXED)]
    return Part(
        "Isolated skill_run calls",
        _ABOUT,
        [over(found["true"], ours, theirs, ways.missing) for ours, theirs in compared],
        tables(found),
        missing=list(dict.fromkeys(ways.missing.values())),
        raw={title: raw_series(series) for title, series in found.items()},
    )


async def _containers(ways: Ways, stack: AsyncExitStack) -> Sequence[Maker]:
    engine = stack.enter_context(container_engine())
    ours = await ways.ours("container", options=engine.options)
    theirs = await ways.theirs(("warm", "unloaded"), engine.address or "", engine.image)
    return [partial(_translated, make) for make in (*ours, *theirs)]


def _translated(make: Maker, argv: Sequence[str]) -> Way:
    return make(of_the_image(argv))
