"""`openskills run`: a command of a skill, in an isolated workspace."""

import os
import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.consent import everything_in
from openskills.cli.listing import Json, Trust
from openskills.cli.output import plain, say_json, warn
from openskills.cli.skills import open_catalog, settings_of
from openskills.errors import InvalidArgument, InvalidSkill, SkillError

if TYPE_CHECKING:
    from openskills.catalog.skill import Skill
    from openskills.cli.running import Wishes
    from openskills.executors.requests import RunRequest, RunResult
    from openskills.settings import Settings

Many = list[str] | None


def run(
    context: typer.Context,
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="A skill's name, or the path of its folder.")],
    command: Annotated[
        Many, typer.Argument(metavar="-- COMMAND", help="One word is given to bash; several are executed as they are.")
    ] = None,
    skills: Annotated[Many, typer.Option("--skills", metavar="DIR", help="Where to look for the skill.")] = None,
    executor: Annotated[
        str | None, typer.Option("--executor", metavar="NAME", help="auto, sandbox, container, landlock or local.")
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
    from openskills.cli.running import Wishes, run_once

    settings = settings_of(context)
    if not command:
        raise InvalidArgument("COMMAND", "is missing; write it after --, as in: openskills run pdf-tools -- ls scripts")
    found = _skill(skill, skills or [], settings, trusted=trust)
    wishes = Wishes(
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
    request = _request(found, command, timeout, cwd, outputs, env or [], wishes)
    if stdin:
        request = replace(request, stdin=sys.stdin.buffer.read())
    try:
        result = run_once(found, request, wishes, settings)
    except SkillError as error:
        if as_json:
            say_json({"error": {"code": error.code, "reason": error.reason, "message": error.message}})
        raise
    if as_json:
        from openskills.executors.stored import shown

        say_json(shown(result))
    else:
        _summarise(result)
    raise typer.Exit(result.exit_code if 0 <= result.exit_code < 256 else 1)


def _skill(name: str, paths: list[str], settings: "Settings", *, trusted: bool) -> "Skill":
    if os.sep in name or name in (os.curdir, os.pardir):
        from openskills.catalog.validate import skill_folder

        found = everything_in(open_catalog([str(skill_folder(name))], settings).snapshot)
        if not found:
            raise InvalidSkill(f"{name} cannot be used; openskills validate {name} says why")
        return found[0]
    return open_catalog(paths, settings, trusted=trusted).snapshot.find(name)


def _request(
    skill: "Skill", command: list[str], timeout: float, cwd: str, globs: Many, env: list[str], wishes: "Wishes"
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
        env=dict(_pair(item, "--env") for item in env),
        secrets=tuple(wishes.secrets),
        outputs=OutputSpec(tuple(globs), save=True) if globs else None,
        limits=Limits(timeout=timeout),
        network=wishes.network,
        readable=wishes.live,
    )


def _pair(item: str, option: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals or not name:
        raise InvalidArgument(option, f"{item!r} is no assignment; write NAME=VALUE")
    return name, value


def _summarise(result: "RunResult") -> None:
    for warning in result.warnings:
        warn(("warning", "yellow"), f": {plain(warning)}")
    for file in result.output_files:
        warn(f"  {plain(file.path)}  {file.size:,} bytes  {file.mime_type}")
    for artifact in result.artifact_files:
        warn(f"  {plain(artifact.ref)}")
    ended = result.ended
    how = plain(ended.detail) if ended.detail else f"exit code {ended.exit_code} after {ended.duration_ms:,} ms"
    state = ("done", "green") if ended.exit_code == 0 else ("failed", "bold red")
    warn(state, f": {how}; isolation: {result.isolation}")
