"""Installing what a skill declares, by commands in its workspace, so under the same isolation as everything else."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from openskills.errors import DeadlineExceeded, InvalidArgument, InvalidSkill
from openskills.executors.layout import SKILLS, VENV
from openskills.executors.protocol import Workspace
from openskills.executors.spec import Command, Ended, Ending, Limits
from openskills.executors.staging.dependencies import PROMPT, SetUp, Step, declaring, uv_environment

MAX_FILE = 1024 * 1024
LIMITS = Limits(timeout=900.0, output_bytes=64 * 1024)
"""What each command of a set-up may use."""

_TEMPORARY = "work/.cache/tmp"
_LAST_LINES = 20
_NOTE = 'mkdir -p "$(dirname "$1")" && printf %s "$2" > "$1"'
_busy: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class SetUpResult:
    """What a set-up has come to. `changed`: packages were installed just now; `ready`: they are there."""

    ready: bool
    changed: bool
    log: str = ""
    warnings: tuple[str, ...] = ()


async def declared(workspace: Workspace, skill: str, *scripts: str) -> dict[str, bytes]:
    """The files of a staged skill that declare packages, and these scripts, as far as they are there."""
    found: dict[str, bytes] = {}
    for name in scripts:
        await _take(workspace, skill, name, found)
    for name in declaring(found):
        await _take(workspace, skill, name, found)
    return found


async def set_up(
    workspace: Workspace, plan: SetUp, *, allowed_network: Sequence[str] = (), limits: Limits = LIMITS
) -> SetUpResult:
    """Do what a plan says, unless that is done already. Two calls for one skill wait for each other.

    Only downloads get the network, and only to the hosts of `allowed_network` (see `hosts.py`). Without any nothing is
    downloaded, and a warning says so. What was broken off is done again from its start; a `.venv` that somebody else
    made is left alone. Raises `InvalidSkill` with the last lines when an installation fails, `DeadlineExceeded` when
    it takes too long.
    """
    if not plan.steps:
        return SetUpResult(ready=False, changed=False, warnings=plan.warnings)
    lock = _busy.setdefault((workspace.id, plan.skill), asyncio.Lock())
    async with lock:
        if await is_set_up(workspace, plan):
            return SetUpResult(ready=True, changed=False, warnings=plan.warnings)
        reason = await _hindrance(workspace, plan, allowed_network)
        if reason:
            return SetUpResult(ready=False, changed=False, warnings=(*plan.warnings, reason))
        log = await _installed(workspace, plan, tuple(allowed_network), limits)
    return SetUpResult(ready=True, changed=True, log=log, warnings=plan.warnings)


async def is_set_up(workspace: Workspace, plan: SetUp) -> bool:
    """Whether everything that a plan says is done."""
    return await _read(workspace, plan.skill, plan.marker) == plan.key.encode()


async def _hindrance(workspace: Workspace, plan: SetUp, allowed_network: Sequence[str]) -> str:
    if plan.makes_venv and await _is_foreign(workspace, plan.skill):
        return f"{plan.source} was not installed: {plan.skill} has a {VENV} that it has made itself"
    if not allowed_network and any(step.downloads and "--no-index" not in step.argv for step in plan.steps):
        return f"{plan.source} was not installed: set-up has no network; allow it the hosts of a package index"
    return ""


async def _is_foreign(workspace: Workspace, skill: str) -> bool:
    """Whether something is in `.venv`, and not an environment of ours, whole or broken off."""
    config = await _read(workspace, skill, f"{VENV}/pyvenv.cfg")
    if config is not None:
        return f"prompt = '{PROMPT}'".encode() not in config
    return bool((await workspace.list([f"{SKILLS}/{skill}/{VENV}/**"], limit=1)).files)


async def _installed(workspace: Workspace, plan: SetUp, network: tuple[str, ...], limits: Limits) -> str:
    note = Step(("sh", "-c", _NOTE, "sh", plan.marker, plan.key))
    await workspace.make_directory(_TEMPORARY)
    try:
        return "".join([await _done(workspace, plan, step, network, limits) for step in (*plan.steps, note)])
    finally:
        await workspace.remove(_TEMPORARY)


async def _done(workspace: Workspace, plan: SetUp, step: Step, network: tuple[str, ...], limits: Limits) -> str:
    # What is unpacked on the way can be larger than the temporary directory of a sandbox.
    argv = ("env", f"TMPDIR={workspace.root}/{_TEMPORARY}", *step.argv)
    command = Command(
        argv,
        skill=plan.skill,
        cwd=f"{SKILLS}/{plan.skill}",
        env=uv_environment(workspace.root),
        limits=limits,
        network=network if step.downloads else (),
    )
    process = await workspace.start(command)
    try:
        ended = await process.wait()
    except BaseException:
        # Cancelled: nobody waits for it any more, and nobody may find it at work.
        await process.kill()
        raise
    return _checked(ended, plan, step)


def _checked(ended: Ended, plan: SetUp, step: Step) -> str:
    log = ended.stdout.text() + ended.stderr.text()
    what = f"{plan.skill}: {plan.source} cannot be installed"
    if ended.ending is Ending.TIMED_OUT:
        raise DeadlineExceeded(f"{what}: `{step.argv[0]}` took more than its time\n{_end_of(log)}")
    if ended.exit_code:
        said = ended.detail or f"`{' '.join(step.argv[:4])}` ended with {ended.exit_code}"
        raise InvalidSkill(f"{what}: {said}\n{_end_of(log)}")
    return log


def _end_of(log: str) -> str:
    return "\n".join(log.rstrip().split("\n")[-_LAST_LINES:])


async def _take(workspace: Workspace, skill: str, name: str, found: dict[str, bytes]) -> None:
    data = await _read(workspace, skill, name)
    if data is not None:
        found[name] = data


async def _read(workspace: Workspace, skill: str, name: str) -> bytes | None:
    try:
        async with workspace.open(f"{SKILLS}/{skill}/{name}") as reading:
            size = reading.info.size
            if size <= MAX_FILE:
                return b"".join([chunk async for chunk in reading.chunks])
    except InvalidArgument:
        return None
    raise InvalidArgument(name, f"has {size:,} bytes, and {MAX_FILE:,} is the most for a file that declares packages")
