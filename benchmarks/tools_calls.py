"""What a call of `skill_run` costs over a bare process, against the same tool of trpc-agent-py."""

import shlex
from contextlib import AsyncExitStack

from report import Bar
from running_part import Part, Surroundings, raw_series
from running_peers import bare
from tools_ways import Ways, over, tables

SHELL = "subprocess.run, bash -c"
LOCAL, SANDBOX = "OpenSkill, local", "OpenSkill, sandbox"
LOADED, UNLOADED = "trpc-agent-py, loaded", "trpc-agent-py, not loaded"

_ABOUT = f"""
A call of `skill_run` in a warm workspace, with a skill of 20 files. OpenSkill is `SkillSession.call`: it validates
the arguments, checks the skill for changes, collects new files in `out/`, and writes to the audit log. trpc-agent-py
1.2.0 runs commands as the current user with the same permissions and environment. If its skill is loaded, it does not
check the skill again; if not, which its tool allows by default, it checks the skill and starts a login shell, here
with an empty profile. It passes every command to bash, like "{SHELL}"; OpenSkill starts a program directly if bash
would only start it. The difference is to the median of `subprocess.run(argv, capture_output=True)`.
"""


async def measure(at: Surroundings) -> Part:
    """Both commands, on this machine itself."""
    async with AsyncExitStack() as stack:
        ways = Ways(at, stack)
        ways.makers[SHELL] = lambda argv: bare(["bash", "-c", shlex.join(argv)])
        await ways.add([LOCAL], ways.ours("local"))
        await ways.add([SANDBOX], ways.ours("sandbox"))
        await ways.add([LOADED, UNLOADED], ways.theirs(("warm", "unloaded")))
        found = await ways.measured(at.extent.many)
    compared = [(SANDBOX, UNLOADED), (SANDBOX, LOADED), (LOCAL, UNLOADED), (LOCAL, LOADED)]
    return Part(
        "skill_run in a warm workspace",
        _ABOUT,
        [over(found["true"], ours, theirs, ways.missing) for ours, theirs in compared],
        tables(found),
        [Bar(name, one.median, ours=name in (LOCAL, SANDBOX)) for name, one in found["true"].items()],
        list(dict.fromkeys(ways.missing.values())),
        {title: raw_series(series) for title, series in found.items()},
    )
