"""What skills need beside themselves, installed before their commands run. Only where the application says so."""

import shlex
from collections.abc import Sequence

from openskills.executors.staging.dependencies import script_of
from openskills.executors.workbench import Workbench


async def install_declared(bench: Workbench, skill: str, command: str, hosts: Sequence[str]) -> tuple[str, ...]:
    """Install what a staged skill declares, or the script of this command, unless that is done; gives warnings.

    Raises what keeps it from being installed: `CommandDenied` when somebody was asked and said no, `InvalidSkill` with
    the last lines of an installation that failed.
    """
    done = await bench.install(skill, script=script_of(_words(command)), network=hosts)
    return done.warnings


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        # The shell will say what is wrong with it.
        return []
