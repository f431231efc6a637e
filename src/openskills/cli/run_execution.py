"""Execution of `openskills run`: staging, live output, saving of outputs, and cleanup."""

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
from openskills.cli.output import CliProgress, escape_line, log_warnings, warn
from openskills.cli.sessions import COMMAND_LINE, current_user
from openskills.cli.trust import ask_on_terminal
from openskills.errors import InvalidArgument
from openskills.executors.approval import ApprovalRequest
from openskills.executors.commands import CommandRules, CommandRunner, open_command_runner
from openskills.executors.open import open_executor
from openskills.executors.policy import CommandPolicy
from openskills.executors.protocol import Executor, Process, Workspace
from openskills.executors.requests import (
    InstallMode,
    PackageOptions,
    RunRequest,
    RunResult,
    SecretCallback,
    build_secret_request,
)
from openskills.executors.spec import Isolation, OutputStream
from openskills.executors.staging.inputs import InputSpec
from openskills.executors.staging.packages import PackageSet
from openskills.filesystem import write_all
from openskills.paths import inside, to_printable
from openskills.project import NO_GRANTS, SkillGrants
from openskills.settings import Settings
from openskills.sync import run as run_sync

_SCHEMES = ("artifact://", "host://", "workspace://", "skill://")


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The options of a run other than the command."""

    executor: str
    session: str
    keep: bool
    live: bool
    save_to: Path | None = None
    grants: SkillGrants = NO_GRANTS
    ask_secrets: SecretCallback | None = None
    install: str = "never"
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    local_inputs: tuple[str, ...] = ()


def run_once(skill: Skill, request: RunRequest, run_inputs: RunInputs, settings: Settings) -> RunResult:
    """Run the command of a skill, show its output live, and return the result."""
    specs, roots = _parse_inputs(run_inputs.local_inputs)
    rules = CommandRules(
        policy=CommandPolicy.of(settings.allowed_commands, settings.denied_commands),
        host_roots=(*settings.host_roots, *roots),
        values=run_inputs.secrets,
        network=run_inputs.grants.network,
        approve_install=_approve_install,
    )
    # Treat SIGTERM like Ctrl-C: stop the command, then clean up the workspace.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with log_warnings():
        return run_sync(_run(skill, replace(request, inputs=specs), run_inputs, settings, rules))


async def _run(
    skill: Skill, request: RunRequest, run_inputs: RunInputs, settings: Settings, rules: CommandRules
) -> RunResult:
    executor = open_executor(run_inputs.executor, settings)
    scope = Scope(COMMAND_LINE, current_user(), run_inputs.session)
    artifacts = FileArtifactStore(settings.state_dir / "artifacts")
    runner: CommandRunner | None = None
    try:
        runner = await open_command_runner(executor, settings, scope, artifacts=artifacts, rules=rules)
        if runner.workspace.isolation is Isolation.NONE:
            warn(("warning", "yellow"), ": this command is not isolated: it has all of your permissions")
        await asyncio.to_thread(skill.download)
        snapshot = await runner.stage(skill.name, skill.path, check=skill.check_unchanged)
        wanted = build_secret_request(skill, snapshot.digest, run_inputs.grants, scope)
        if wanted is not None and run_inputs.ask_secrets is not None:
            asked = await run_inputs.ask_secrets(wanted)
            runner, request = runner.with_secrets(asked), replace(request, secrets=(*request.secrets, *asked))
        grants = run_inputs.grants
        packages = PackageOptions(PackageSet(grants.packages, grants.npm), grants.venv, InstallMode(run_inputs.install))
        with CliProgress("installing packages") as progress:
            provided = await runner.provide_packages(
                skill.name, request.command, packages, progress=lambda line: progress(line, 0, None)
            )
        for warning in provided.warnings:
            warn(("warning", "yellow"), f": {escape_line(warning)}")
        request = replace(request, packages=provided.environment)
        result = await (_run_live(runner, request) if run_inputs.live else runner.run(request))
        if run_inputs.save_to is not None:
            await _copy_outputs(runner.workspace, result, run_inputs.save_to)
    finally:
        await asyncio.shield(_clean_up(executor, runner, keep=run_inputs.keep))
    return result


async def _approve_install(request: ApprovalRequest) -> bool:
    packages = ", ".join(map(escape_line, request.argv[1:]))
    return await ask_on_terminal(f"{escape_line(request.skill or '')} declares {packages}. Install?") is True


async def _clean_up(executor: Executor, runner: CommandRunner | None, *, keep: bool) -> None:
    if runner is not None:
        await runner.close()
        if not keep:
            await executor.remove(runner.key)
    await executor.close()


async def _run_live(runner: CommandRunner, request: RunRequest) -> RunResult:
    started = await runner.start(request)
    process = started.process
    try:
        await asyncio.gather(
            _copy_stream(process, OutputStream.STDOUT, sys.stdout.fileno()),
            _copy_stream(process, OutputStream.STDERR, sys.stderr.fileno()),
        )
        return await runner.finish(started)
    except asyncio.CancelledError:
        await asyncio.shield(process.kill())
        raise


async def _copy_stream(process: Process, stream: OutputStream, descriptor: int) -> None:
    offset = 0
    safe = os.isatty(descriptor)
    while True:
        output = await process.read(offset, wait=60.0, stream=stream)
        offset = output.next_offset
        if output.missed:
            warn(f"[... {output.missed:,} bytes were dropped because the output was too fast ...]")
        if output.data:
            data = _escape_bytes(output.data) if safe else output.data
            await asyncio.to_thread(write_all, descriptor, data)
        if output.ended:
            return


def _escape_bytes(data: bytes) -> bytes:
    """Escape control sequences, so that output cannot manipulate the terminal."""
    escaped: list[str] = []
    for line in data.decode("utf-8", "replace").splitlines(keepends=True):
        body = line.rstrip("\r\n")
        escaped += ["\t".join(to_printable(part) for part in body.split("\t")), line[len(body) :]]
    return "".join(escaped).encode()


def _parse_inputs(items: tuple[str, ...]) -> tuple[tuple[InputSpec, ...], list[Path]]:
    """Parse the values of `--input`; local paths are allowed, with their directories as roots."""
    specs: list[InputSpec] = []
    roots: list[Path] = []
    for item in items:
        # The name of a file may contain `=`.
        source, _, to = (item, "", "") if os.path.lexists(item) else item.partition("=")
        if not source.startswith(_SCHEMES):
            path = Path(source).expanduser().absolute()
            if not path.exists():
                raise InvalidArgument("--input", f"{source!r} does not exist")
            # Keep the given name, but read from the resolved path.
            to = to or f"inputs/{path.name}"
            path = path.resolve()
            roots.append(path.parent)
            source = f"host://{path}"
        specs.append(InputSpec.parse({"from": source, "to": to or None}))
    return tuple(specs), roots


async def _copy_outputs(workspace: Workspace, result: RunResult, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for file in result.output_files:
        target = inside(directory, file.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        async with workspace.open(file.path) as reading:
            with open(target, "wb") as copy:
                async for chunk in reading.chunks:
                    copy.write(chunk)
