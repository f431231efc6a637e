"""The packages of a session's skills: installed when the caller allows it, used when a script asks for them."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from openskills.executors.layout import SKILLS
from openskills.executors.protocol import Workspace
from openskills.executors.rules.resolving import resolved
from openskills.executors.spec import Command
from openskills.executors.staging.dependencies import SetUp, Tools, plan, script_of, uv_environment, with_uv
from openskills.executors.staging.installing import SetUpResult, declared, is_set_up, set_up

_SCRIPT_FIRST = re.compile(r"\s*(?:python(?:3(?:\.\d+)?)?\s+)?[\w./-]+\.py(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A command as it is to be run so that its script finds its packages, and the variables for that."""

    argv: tuple[str, ...]
    env: dict[str, str]


class Packages:
    """Looks after one workspace. `index_arguments` say where packages come from, as pip and uv understand them."""

    def __init__(self, workspace: Workspace, *, index_arguments: tuple[str, ...] = ()) -> None:
        self._workspace = workspace
        self._index_arguments = index_arguments
        self._tools: Tools | None = None
        self._plain: set[tuple[str, str, str]] = set()

    def of_index(self, arguments: tuple[str, ...]) -> "Packages":
        """The same workspace with packages from another index."""
        return self if arguments == self._index_arguments else Packages(self._workspace, index_arguments=arguments)

    async def ready(self, skill: str, *, script: str | None = None) -> SetUpResult | None:
        """What `install` would say when it has nothing to do, or can do nothing; None when there is something."""
        found = await self._plan(skill, script)
        if found is None or not found.steps:
            return SetUpResult(ready=found is None, changed=False, warnings=found.warnings if found else ())
        done = await is_set_up(self._workspace, found)
        return SetUpResult(ready=True, changed=False, warnings=found.warnings) if done else None

    async def install(self, skill: str, *, script: str | None = None, network: Sequence[str] = ()) -> SetUpResult:
        """Install what a staged skill declares, or one script of it, unless that is done; `network` for this only.

        Raises `InvalidSkill` with the last lines of an installation that failed.
        """
        found = await self._plan(skill, script)
        if found is None:
            return SetUpResult(ready=True, changed=False)
        return await set_up(self._workspace, found, allowed_network=network)

    async def rewritten(self, skill: str, digest: str, wanted: str | tuple[str, ...], cwd: str) -> Rewritten | None:
        """A command whose script has a block of its own (PEP 723), run by uv; None for every other command."""
        argv, rest = _parts(wanted)
        script = script_of(argv)
        if script is None or cwd != f"{SKILLS}/{skill}" or (skill, digest, script) in self._plain:
            return None
        files = await declared(self._workspace, skill, script)
        changed = with_uv(argv, files, await self._found())
        if changed == argv:
            # What a snapshot does not ask for it never will.
            self._plain.add((skill, digest, script))
            return None
        if isinstance(wanted, str):
            # Still given to a shell, which may have variables to fill in and pipes to connect.
            changed = ("bash", "-c", shlex.join(changed) + rest)
        return Rewritten(changed, uv_environment(self._workspace.root))

    async def _plan(self, skill: str, script: str | None) -> SetUp | None:
        files = await declared(self._workspace, skill, *([script] if script else []))
        return plan(skill, files, script=script, tools=await self._found())

    async def _found(self) -> Tools:
        if self._tools is None:
            uv = await resolved(self._workspace, ("uv",), Command(("uv",), run_dir="runs/set-up"))
            self._tools = Tools(uv=uv, index_arguments=self._index_arguments)
        return self._tools


def _parts(wanted: str | tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The words of a command that matter here, and of text what comes after them."""
    if not isinstance(wanted, str):
        return wanted, ""
    match = _SCRIPT_FIRST.match(wanted)
    return (tuple(match[0].split()), wanted[match.end() :]) if match else ((), "")
