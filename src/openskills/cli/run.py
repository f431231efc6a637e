"""Run.

`openskills run`: a command of a skill, in an isolated workspace.

One run from the shell: the executor, the session's workspace, the command with live output, and what it made.
"""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import Scope
from openskills.catalog.skill import Skill
from openskills.cli.output import CliProgress, escape_line, log_warnings, say_json, warn
from openskills.cli.skills import Json, Trust, get_settings, list_all_skills, open_catalog
from openskills.errors import InvalidArgument, InvalidSkill, SkillError
from openskills.executors.commands import CommandRules, CommandRunner, open_command_runner
from openskills.executors.open import open_executor
from openskills.executors.policy import CommandPolicy
from openskills.executors.protocol import Executor, Process, Workspace
from openskills.executors.requests import RunRequest, RunResult
from openskills.executors.spec import Isolation, OutputStream
from openskills.executors.staging.inputs import InputSpec
from openskills.executors.staging.packages import find_script
from openskills.paths import inside, to_printable
from openskills.settings import Settings
from openskills.sync import run as run_sync

Many = list[str] | None


def run(
    context: typer.Context,
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="A skill's name, or the path of its folder.")],
    command: Annotated[
        Many, typer.Argument(metavar="-- COMMAND", help="One word is given to bash; several are executed as they are.")
    ] = None,
    skills: Annotated[Many, typer.Option("--skills", metavar="DIR", help="Where to look for the skill.")] = None,
    executor: Annotated[
        str | None, typer.Option("--open_executor", metavar="NAME", help="auto, sandbox, container, landlock or local.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", help="End the command after so many seconds.")
    ] = 300.0,
    cwd: Annotated[
        str, typer.Option("--cwd", metavar="DIR", help="Below the skill's root, or $WORK_DIR and its kin.")
    ] = "",
    inputs: Annotated[
        Many,
        typer.Option("--input", metavar="FROM=TO", help="A file or URL to put into the workspace; TO may be left out."),
    ] = None,
    outputs: Annotated[
        Many, typer.Option("--output", metavar="GLOB", help="Files to bring back, as artifacts: out/*.csv.")
    ] = None,
    save_to: Annotated[
        str | None, typer.Option("--to", metavar="DIR", help="Also copy the files of --output into this directory.")
    ] = None,
    env: Annotated[Many, typer.Option("--env", metavar="NAME=VALUE", help="A variable for the command.")] = None,
    secret: Annotated[
        Many, typer.Option("--secret", metavar="NAME", help="Pass a variable of yours on, and never log it.")
    ] = None,
    network: Annotated[
        Many, typer.Option("--network", metavar="HOST", help="A host that the command may reach; none otherwise.")
    ] = None,
    install: Annotated[
        Many, typer.Option("--install", metavar="HOST", help="Install what the skill declares, from this host only.")
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Keep the workspace, and find it again under this name."),
    ] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="Give the command what is piped in.")] = False,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Run a command of a skill in an isolated workspace, with its output as it comes.

    The workspace has skills/ (read-only), work/, runs/ and out/; the command starts in the skill's folder, where
    out/, work/ and inputs/ lead to the workspace's. It is removed at the end unless --session names it.

    Examples:
      openskills run csv-report --skills skills -- python3 scripts/report.py --help
      openskills run csv-report --input data.csv --output 'out/*' -- 'wc -l inputs/data.csv > out/lines.txt'
      openskills run csv-report --json -- true

    Exit codes: that of the command; 1 when it could not be run, 2 for wrong usage.
    """

    settings = get_settings(context)
    if not command:
        raise InvalidArgument("COMMAND", "is missing; write it after --, as in: openskills run pdf-tools -- ls scripts")
    found = _find_skill(skill, skills or [], settings, trusted=trust)
    wishes = RunInputs(
        executor=executor or settings.executor,
        session=session or f"run-{secrets.token_hex(8)}",
        keep=session is not None,
        live=not as_json,
        save_to=Path(save_to) if save_to else None,
        network=tuple(network or ()),
        install=tuple(install or ()),
        secrets={name: settings.environment.get(name, "") for name in secret or ()},
        local_inputs=tuple(inputs or ()),
    )
    request = _build_request(found, command, timeout, cwd, outputs, env or [], wishes)
    if stdin:
        request = replace(request, stdin=sys.stdin.buffer.read())
    try:
        result = run_once(found, request, wishes, settings)
    except SkillError as error:
        if as_json:
            say_json({"error": {"code": error.code, "reason": error.reason, "message": error.message}})
        raise
    if as_json:
        from openskills.executors.records.journal import result_to_json as shown

        say_json(shown(result))
    else:
        _summarise(result)
    raise typer.Exit(result.exit_code if 0 <= result.exit_code < 256 else 1)


def _find_skill(name: str, paths: list[str], settings: "Settings", *, trusted: bool) -> "Skill":
    if os.sep in name or name in (os.curdir, os.pardir):
        from openskills.catalog.validate import resolve_skill_folder as skill_folder

        found = list_all_skills(open_catalog([str(skill_folder(name))], settings).snapshot)
        if not found:
            raise InvalidSkill(f"{name} cannot be used; openskills validate {name} says why")
        return found[0]
    return open_catalog(paths, settings, trusted=trusted).snapshot.find(name)


def _build_request(
    skill: "Skill", command: list[str], timeout: float, cwd: str, globs: Many, env: list[str], wishes: "RunInputs"
) -> "RunRequest":
    from openskills.executors.requests import RunRequest
    from openskills.executors.spec import Limits
    from openskills.executors.staging.outputs import OutputSpec

    if not 0 < timeout < 1e7:
        raise InvalidArgument("--timeout", f"{timeout:g} is no number of seconds; use something like 30")
    return RunRequest(
        command[0] if len(command) == 1 else tuple(command),
        skill=skill.name,
        cwd=cwd,
        env=dict(_split_pair(item, "--env") for item in env),
        secrets=tuple(wishes.secrets),
        outputs=OutputSpec(tuple(globs), save=True) if globs else None,
        limits=Limits(timeout=timeout),
        network=wishes.network,
        readable=wishes.live,
    )


def _split_pair(item: str, option: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals or not name:
        raise InvalidArgument(option, f"{item!r} is no assignment; write NAME=VALUE")
    return name, value


def _summarise(result: "RunResult") -> None:
    for warning in result.warnings:
        warn(("warning", "yellow"), f": {escape_line(warning)}")
    for file in result.output_files:
        warn(f"  {escape_line(file.path)}  {file.size:,} bytes  {file.mime_type}")
    for artifact in result.artifact_files:
        warn(f"  {escape_line(artifact.ref)}")
    ended = result.ended
    how = escape_line(ended.detail) if ended.detail else f"exit code {ended.exit_code} after {ended.duration_ms:,} ms"
    state = ("done", "green") if ended.exit_code == 0 else ("failed", "bold red")
    warn(state, f": {how}; isolation: {result.isolation}")


_SCHEMES = ("artifact://", "host://", "workspace://", "skill://")


@dataclass(frozen=True, slots=True)
class RunInputs:
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


def run_once(skill: Skill, request: RunRequest, wishes: RunInputs, settings: Settings) -> RunResult:
    """Run the command of a skill, show its output as it comes, and give its result."""
    specs, roots = _parse_inputs(wishes.local_inputs)
    rules = CommandRules(
        policy=CommandPolicy.of(settings.allowed_commands, settings.denied_commands),
        host_roots=(*settings.host_roots, *roots),
        values=wishes.secrets,
        network=wishes.network,
    )
    # Asked to end, it ends as with Ctrl-C: the command first, then its workspace.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with log_warnings():
        return run_sync(_run(skill, replace(request, inputs=specs), wishes, settings, rules))


async def _run(
    skill: Skill, request: RunRequest, wishes: RunInputs, settings: Settings, rules: CommandRules
) -> RunResult:
    place = open_executor(wishes.executor, settings)
    scope = Scope("cli", f"user-{os.getuid()}", wishes.session)
    artifacts = FileArtifactStore(settings.state_dir / "artifacts")
    bench: CommandRunner | None = None
    try:
        bench = await open_command_runner(place, settings, scope, artifacts=artifacts, rules=rules)
        if bench.workspace.isolation is Isolation.NONE:
            warn(("warning", "yellow"), ": this command is not isolated: it can do whatever you can")
        await bench.stage(skill.name, skill.path)
        if wishes.install:
            await _install(bench, skill, request, wishes.install)
        result = await (_run_live(bench, request) if wishes.live else bench.run(request))
        if wishes.save_to is not None:
            await _copy_outputs(bench.workspace, result, wishes.save_to)
    finally:
        await asyncio.shield(_clean_up(place, bench, keep=wishes.keep))
    return result


async def _clean_up(place: Executor, bench: CommandRunner | None, *, keep: bool) -> None:
    if bench is not None:
        await bench.close()
        if not keep:
            await place.remove(bench.key)
    await place.close()


async def _install(bench: CommandRunner, skill: Skill, request: RunRequest, hosts: tuple[str, ...]) -> None:
    script = find_script(request.command.split() if isinstance(request.command, str) else request.command)
    with CliProgress("installing packages"):
        done = await bench.install(skill.name, script=script, network=hosts)
    for warning in done.warnings:
        warn(("warning", "yellow"), f": {escape_line(warning)}")


async def _run_live(bench: CommandRunner, request: RunRequest) -> RunResult:
    started = await bench.start(request)
    process = started.process
    try:
        await asyncio.gather(
            _copy_stream(process, OutputStream.STDOUT, sys.stdout.fileno()),
            _copy_stream(process, OutputStream.STDERR, sys.stderr.fileno()),
        )
        return await bench.finish(started)
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
            warn(f"[... {output.missed:,} bytes came faster than they could be shown ...]")
        if output.data:
            data = _escape_bytes(output.data) if safe else output.data
            await asyncio.to_thread(_write, descriptor, data)
        if output.ended:
            return


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _escape_bytes(data: bytes) -> bytes:
    """Text for a terminal: what would move the cursor, set a title or ask the terminal something is made visible."""
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    return "".join(_escape_line(line) for line in lines).encode()


def _escape_line(line: str) -> str:
    body = line.rstrip("\r\n")
    end = line[len(body) :]
    return "\t".join(to_printable(part) for part in body.split("\t")) + end


def _parse_inputs(items: tuple[str, ...]) -> tuple[tuple[InputSpec, ...], list[Path]]:
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


async def _copy_outputs(workspace: Workspace, result: RunResult, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for file in result.output_files:
        target = inside(directory, file.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        async with workspace.open(file.path) as reading:
            with open(target, "wb") as copy:
                async for chunk in reading.chunks:
                    copy.write(chunk)
