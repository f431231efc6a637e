"""One run from the shell: the executor, the session's workspace, the command with live output, and what it made."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import Scope
from openskills.catalog.skill import Skill
from openskills.cli.output import plain, warn
from openskills.cli.progress import Waiting
from openskills.cli.reporting import reported
from openskills.errors import InvalidArgument
from openskills.executors.choose import executor
from openskills.executors.protocol import Executor, Process, Workspace
from openskills.executors.requests import RunRequest, RunResult
from openskills.executors.rules.policy import CommandPolicy
from openskills.executors.spec import Isolation, Stream
from openskills.executors.staging.dependencies import script_of
from openskills.executors.staging.inputs import InputSpec
from openskills.executors.workbench import Rules, Workbench, open_workbench
from openskills.paths import inside, printable
from openskills.settings import Settings
from openskills.sync import run

_SCHEMES = ("artifact://", "host://", "workspace://", "skill://")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for beside the command itself."""

    executor: str
    session: str
    keep: bool
    live: bool
    save_to: Path | None = None
    network: tuple[str, ...] = ()
    install: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    local_inputs: tuple[str, ...] = ()


def run_once(skill: Skill, request: RunRequest, wishes: Wishes, settings: Settings) -> RunResult:
    """Run the command of a skill, show its output as it comes, and give its result."""
    specs, roots = _inputs(wishes.local_inputs)
    rules = Rules(
        policy=CommandPolicy.of(settings.allowed_commands, settings.denied_commands),
        host_roots=(*settings.host_roots, *roots),
        values=wishes.secrets,
        network=wishes.network,
    )
    # Asked to end, it ends as with Ctrl-C: the command first, then its workspace.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with reported():
        return run(_run(skill, replace(request, inputs=specs), wishes, settings, rules))


async def _run(skill: Skill, request: RunRequest, wishes: Wishes, settings: Settings, rules: Rules) -> RunResult:
    place = executor(wishes.executor, settings)
    scope = Scope("cli", f"user-{os.getuid()}", wishes.session)
    artifacts = FileArtifactStore(settings.state_dir / "artifacts")
    bench: Workbench | None = None
    try:
        bench = await open_workbench(place, settings, scope, artifacts=artifacts, rules=rules)
        if bench.workspace.isolation is Isolation.NONE:
            warn(("warning", "yellow"), ": this command is not isolated: it can do whatever you can")
        await bench.stage(skill.name, skill.path)
        if wishes.install:
            await _install(bench, skill, request, wishes.install)
        result = await (_live(bench, request) if wishes.live else bench.run(request))
        if wishes.save_to is not None:
            await _copy(bench.workspace, result, wishes.save_to)
    finally:
        await asyncio.shield(_tidy(place, bench, keep=wishes.keep))
    return result


async def _tidy(place: Executor, bench: Workbench | None, *, keep: bool) -> None:
    if bench is not None:
        await bench.close()
        if not keep:
            await place.remove(bench.key)
    await place.close()


async def _install(bench: Workbench, skill: Skill, request: RunRequest, hosts: tuple[str, ...]) -> None:
    script = script_of(request.command.split() if isinstance(request.command, str) else request.command)
    with Waiting("installing packages"):
        done = await bench.install(skill.name, script=script, network=hosts)
    for warning in done.warnings:
        warn(("warning", "yellow"), f": {plain(warning)}")


async def _live(bench: Workbench, request: RunRequest) -> RunResult:
    started = await bench.start(request)
    process = started.process
    try:
        await asyncio.gather(
            _show(process, Stream.STDOUT, sys.stdout.fileno()), _show(process, Stream.STDERR, sys.stderr.fileno())
        )
        return await bench.finish(started)
    except asyncio.CancelledError:
        await asyncio.shield(process.kill())
        raise


async def _show(process: Process, stream: Stream, descriptor: int) -> None:
    offset = 0
    safe = os.isatty(descriptor)
    while True:
        output = await process.read(offset, wait=60.0, stream=stream)
        offset = output.next_offset
        if output.missed:
            warn(f"[... {output.missed:,} bytes came faster than they could be shown ...]")
        if output.data:
            data = _harmless(output.data) if safe else output.data
            await asyncio.to_thread(_write, descriptor, data)
        if output.ended:
            return


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _harmless(data: bytes) -> bytes:
    """Text for a terminal: what would move the cursor, set a title or ask the terminal something is made visible."""
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    return "".join(_harmless_line(line) for line in lines).encode()


def _harmless_line(line: str) -> str:
    body = line.rstrip("\r\n")
    end = line[len(body) :]
    return "\t".join(printable(part) for part in body.split("\t")) + end


def _inputs(items: tuple[str, ...]) -> tuple[tuple[InputSpec, ...], list[Path]]:
    """What `--input` says. A path of this machine is what the person at the shell has, so it may be read."""
    specs: list[InputSpec] = []
    roots: list[Path] = []
    for item in items:
        # A file's own name may have the sign in it.
        source, _, to = (item, "", "") if os.path.lexists(item) else item.partition("=")
        if not source.startswith(_SCHEMES):
            path = Path(source).expanduser().absolute()
            if not path.exists():
                raise InvalidArgument("--input", f"{source!r} does not exist")
            # The name that the person knows, the place where the file really is.
            to = to or f"inputs/{path.name}"
            path = path.resolve()
            roots.append(path.parent)
            source = f"host://{path}"
        specs.append(InputSpec.parse({"from": source, "to": to or None}))
    return tuple(specs), roots


async def _copy(workspace: Workspace, result: RunResult, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for file in result.output_files:
        target = inside(directory, file.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        async with workspace.open(file.path) as reading:
            with open(target, "wb") as copy:
                async for chunk in reading.chunks:
                    copy.write(chunk)
