"""`openskills run`: the command and its options; the execution is in `run_execution`, which is imported on use."""

import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import can_ask, escape_line, say_json, warn
from openskills.cli.parameters import (
    GrantOptions,
    Json,
    Many,
    QuickCommand,
    Skills,
    Text,
    argument,
    get_settings,
    option,
)
from openskills.cli.sessions import complete_session
from openskills.cli.skills import complete_skill, find_skill_at, is_skill_path, open_catalog
from openskills.cli.trust import SecretConsent, ask_on_terminal, collect_grants
from openskills.errors import InvalidArgument, SkillError, UnknownSkill
from openskills.settings import Settings

if TYPE_CHECKING:
    from openskills.catalog.skill import Skill
    from openskills.executors.requests import RunResult


_COMMAND = "openskills.command"


class RunCommand(QuickCommand):
    """Separates the words before `--`, which are sources, from those after it, which are the command."""

    usage_end = "-- COMMAND [ARG]..."

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_COMMAND] = args[:at], args[at + 1 :]
        return super().parse_args(ctx, args)


def run(
    context: typer.Context,
    skill: Annotated[
        str, argument("SKILL", "A skill's name, or the path of its folder.", autocompletion=complete_skill)
    ],
    paths: Annotated[Many, argument("PATH", "Sources of skills, before `--`. After it comes the command.")] = None,
    skills: Skills = None,
    *,
    options: GrantOptions,
    executor: Annotated[Text, option("NAME", "auto, sandbox, container, landlock, local or ray.")] = None,
    cwd: Annotated[str, option("DIR", "A directory below the skill's root, or $WORK_DIR etc.")] = "",
    inputs: Annotated[
        Many, option("FROM=TO", "A file or URL to copy into the workspace; TO is optional.", names="--input")
    ] = None,
    outputs: Annotated[Many, option("GLOB", "Files to save as artifacts, such as out/*.csv.", names="--output")] = None,
    save_to: Annotated[Text, option("DIR", "Also copy the files of --output to this directory.", names="--to")] = None,
    session: Annotated[
        Text, option("ID", "Keep the workspace, and reuse it under this name.", autocompletion=complete_session)
    ] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="Pass stdin to the command.")] = False,
    as_json: Json = False,
) -> None:
    """Run a command of a skill in an isolated workspace, with live output.

    The workspace has skills/, work/, runs/ and out/. The command starts in a copy of the skill's folder, where out/,
    work/ and inputs/ link to those of the workspace. The workspace is removed at the end, unless --session is given.

    Variables that the skill declares (metadata.openclaw.requires.env) are passed on with --secret, or when you agree on
    the terminal. The project file may grant more; options override it.

    The command comes after `--`: several words are executed directly, a single word is run by bash.

    Examples:
      openskills run csv-report skills/ -- python3 scripts/report.py --help
      openskills run skills/pdf --with pypdf -- python3 scripts/extract.py
      openskills run csv --input a.csv --output 'out/*' -- 'wc inputs/* > out/n'
      openskills run skills/csv-report --json -- true

    Exit codes: that of the command; 1 if it could not be run, 2 wrong usage.
    """
    from openskills.cli.run_execution import RunInputs, run_once
    from openskills.executors.requests import RunRequest
    from openskills.executors.spec import DEFAULT_TIMEOUT, Limits
    from openskills.executors.staging.outputs import OutputSpec, describe_unmatched
    from openskills.project import combine_grants

    settings = get_settings(context)
    # Without `--` all words after SKILL are the command.
    after: list[str] | None = context.meta.get(_COMMAND)
    command = (paths or []) if after is None else after
    sources = [*(skills or ()), *(() if after is None else paths or ())]
    if not command:
        raise InvalidArgument("COMMAND", "missing; write it after --, as in: openskills run pdf-tools -- ls scripts")
    own = options.parse(settings)
    try:
        found = find_skill(skill, sources, settings, trusted=options.trust)
    except UnknownSkill as error:
        if after is not None or not Path(command[0]).exists():
            raise
        hint = f"without `--`, {command[0]} is the command; write: openskills run {skill} {command[0]} -- COMMAND"
        raise InvalidArgument("PATH", f"{error.message}; {hint}") from None
    grants = combine_grants(collect_grants(own, options, settings, skill=found.name), found.name)
    run_inputs = RunInputs(
        executor=executor or settings.executor,
        session=session or f"run-{secrets.token_hex(8)}",
        keep=session is not None,
        live=not as_json,
        save_to=Path(save_to) if save_to else None,
        grants=grants,
        ask_secrets=SecretConsent(settings, None if as_json else ask_on_terminal),
        install=options.parse_install(can_ask=not as_json and can_ask()),
        secrets={name: settings.environment[name] for name in grants.secrets},
        local_inputs=tuple(inputs or ()),
    )
    request = RunRequest(
        command[0] if len(command) == 1 else tuple(command),
        skill=found.name,
        cwd=cwd,
        env=grants.environment,
        secrets=grants.secrets,
        outputs=OutputSpec(tuple(outputs), save=True) if outputs else None,
        limits=Limits(timeout=DEFAULT_TIMEOUT if grants.timeout is None else grants.timeout),
        network=grants.network,
        readable=run_inputs.live,
        stdin=sys.stdin.buffer.read() if stdin else b"",
    )
    try:
        result = run_once(found, request, run_inputs, settings)
    except SkillError as error:
        if as_json:
            say_json({"error": {"code": error.code, "reason": error.reason, "message": error.message}})
        raise
    unmatched = describe_unmatched(outputs or (), result.output_files)
    result = replace(result, warnings=(*result.warnings, *unmatched))
    if as_json:
        from openskills.executors.records.journal import result_to_json

        say_json(result_to_json(result))
    else:
        _summarise(result)
    raise typer.Exit(result.exit_code if 0 <= result.exit_code < 256 else 1)


def find_skill(name: str, paths: list[str], settings: Settings, *, trusted: bool) -> "Skill":
    """The skill with this name, or the only one in the folder at this path.

    Raises `UnknownSkill`, `InvalidSkill`, or `InvalidArgument` for a folder of several skills.
    """
    if is_skill_path(name):
        return find_skill_at(name, "SKILL", settings)[0]
    return open_catalog(paths, settings, trusted=trusted).snapshot.find(name)


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
