"""A script that imports pandas, from a warm interpreter against a cold one, in the same sandbox."""

from report import Target
from running_bench import ground
from running_part import NotMeasured, Part, Surroundings, raw_series, series_table
from running_peers import ENVIRONMENT, PEER_PYTHON
from sampling import Series, Way, in_turns, timed

from openskills.errors import ExecutorUnavailable
from openskills.executors.requests import RunRequest
from openskills.executors.workbench import Workbench

TITLE, COLD, WARM = "A warm interpreter", "cold", "warm"
_SCRIPT = b"import pandas\nprint(pandas.Series([1, 2, 3]).sum())\n"
_COMMAND, _MODULES, _TRIES = (str(PEER_PYTHON), "sum.py"), ("pandas",), 10
_PROMISE, _BOUND = "a script that imports pandas: warm, faster than cold", 20

_ABOUT = """
A script that imports pandas and adds three numbers, in the sandbox. Cold, its interpreter is started for it. Warm, a
fresh process is forked for it from an interpreter in the session's own sandbox that has pandas loaded already; that
one was started before the clock.
"""


async def measure(at: Surroundings) -> Part:
    """Both ways, in one workspace."""
    try:
        found = await _measured(at)
    except NotMeasured as reason:
        return Part(TITLE, _ABOUT, [Target(_PROMISE, None, _BOUND, why=str(reason))], "", missing=[str(reason)])
    target = Target(_PROMISE, found[COLD].median / found[WARM].median, _BOUND)
    return Part(TITLE, _ABOUT, [target], series_table(found, base=COLD), raw=raw_series(found))


async def _measured(at: Surroundings) -> dict[str, Series]:
    if not list(ENVIRONMENT.glob("lib/*/site-packages/pandas")):
        raise NotMeasured("pandas is not installed; `make peers` installs it where it can")
    try:
        async with ground("sandbox", at.scratch, read_only=[ENVIRONMENT]) as place:
            bench = await place.bench()
            await bench.workspace.write("work/sum.py", _SCRIPT)
            at.say("importing pandas, cold and warm")
            await _warmed(bench)
            return await in_turns({COLD: _run(bench, None), WARM: _run(bench, _MODULES)}, at.extent.few)
    except ExecutorUnavailable as error:
        raise NotMeasured(f"the sandbox: {error.message}") from error


async def _warmed(bench: Workbench) -> None:
    """Let the interpreter be started; commands that come before it is ready are started cold."""
    why = ""
    for _ in range(_TRIES):
        why = "; ".join((await bench.run(RunRequest(_COMMAND, cwd="work", warm=_MODULES))).ended.notes)
        if not why:
            return
    raise NotMeasured(f"the warm interpreter: {why}")


def _run(bench: Workbench, warm: tuple[str, ...] | None) -> Way:
    request = RunRequest(_COMMAND, cwd="work", warm=warm)

    async def act() -> None:
        result = await bench.run(request)
        if result.exit_code or result.ended.notes or result.stdout.strip() != "6":
            raise RuntimeError(f"the script failed: {result.ended.notes} {result.stderr}")

    return timed(act)
