"""Skill_run.

What a model and a program are told about a run: the fields of the mission documents. Pure.

A command that failed is a result like any other. A field that has nothing to say is left out, but for those that every
result has: `stdout`, `stderr`, `exit_code`, `timed_out`, `duration_ms`, `isolation` and `output_files`.

Load first: a skill's commands are for those who have read its instructions. Pure.

What skills need beside themselves, installed before their commands run. Only where the application says so.

From what a model wrote to a command that can be run: the gate, staging, limits, and what is to come back.

`skill_run`: one command of a loaded skill, from its beginning to its end.
"""

import json
import shlex
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from openskills.catalog.skill import Skill
from openskills.errors import InvalidArgument, NotLoaded
from openskills.executors.commands import CommandRunner
from openskills.executors.files.mime import SNIFF_BYTES, TEXT, detect_mime_type
from openskills.executors.requests import RunRequest, RunResult, read_warm_modules
from openskills.executors.spec import CapturedOutput, CommandResult, EndReason, Limits
from openskills.executors.staging.inputs import InputSpec
from openskills.executors.staging.outputs import PRIMARY_BYTES, OutputFile, OutputSpec, select_primary
from openskills.executors.staging.packages import find_script
from openskills.paths import to_printable
from openskills.session.state import AgentView
from openskills.tools.run_arguments import RunArguments
from openskills.tools.tool import Tool, ToolContext, ToolOptions, ToolResult
from openskills.tools.uploads import UploadReport, UploadStager, WorkspaceUpload

STREAM_BYTES = 16 * 1024
CONTENT_BYTES = 128 * 1024
MAX_LISTED_FILES = 1_000
"""So many files of a run are told by name; the others are counted."""
MAX_WARNINGS = 50


@dataclass(frozen=True, slots=True)
class RunResultOptions:
    """How much of a run goes into its result.

    `stream_bytes` of stdout and stderr each; a primary output of at most `primary_bytes`; `content_bytes` of all files
    together, unless they come without it (`inline`, `primary_content`). `patterns` are those that somebody asked for;
    `advice` is what to do about a timeout.
    """

    stream_bytes: int = STREAM_BYTES
    primary_bytes: int = PRIMARY_BYTES
    content_bytes: int = CONTENT_BYTES
    inline: bool = True
    primary_content: bool = True
    patterns: tuple[str, ...] = ()
    advice: str = "give it more time, or do less in one call"


def build_result_data(
    result: RunResult, shape: RunResultOptions, staged: Iterable[WorkspaceUpload] = (), warnings: Iterable[str] = ()
) -> dict[str, Any]:
    """The data of a result; plain JSON values. `staged` and `warnings` are what is known from before the run."""
    streams = {name: _clip_stream(one, shape.stream_bytes) for name, one in _get_streams(result.ended)}
    files, cut = _files_to_json(result.output_files[:MAX_LISTED_FILES], shape)
    kept = result.artifact_files[:MAX_LISTED_FILES]
    optional = {
        "primary_output": _primary_to_json(result.output_files, shape),
        "artifact_files": [{"name": one.name, "version": one.version, "ref": one.ref} for one in kept],
        "staged_inputs": [_upload_to_json(one) for one in staged],
        "warnings": _limit_warnings(
            [
                *_describe_ending(result.ended, shape.advice),
                *warnings,
                *_describe_cuts(result.ended, streams),
                *_describe_no_output(result, shape.patterns),
                *cut,
                *_describe_unlisted(result),
                # What a warm start would have saved is for the author of the skill.
                *(warning for warning in result.warnings if not warning.startswith("started cold: ")),
            ]
        ),
    }
    return {
        **{name: one.text() for name, one in streams.items()},
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "duration_ms": result.ended.duration_ms,
        "isolation": str(result.isolation),
        "output_files": files,
        **{name: value for name, value in optional.items() if value},
    }


def describe_result(data: Mapping[str, Any]) -> str:
    """The same for a model: compact JSON, in which no content stands twice."""
    found = data.get("primary_output")
    if found and any(one["name"] == found["name"] and "content" in one for one in data["output_files"]):
        data = {**data, "primary_output": {key: one for key, one in found.items() if key != "content"}}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _get_streams(ended: CommandResult) -> Sequence[tuple[str, CapturedOutput]]:
    return (("stdout", ended.stdout), ("stderr", ended.stderr))


def _clip_stream(stream: CapturedOutput, limit: int) -> CapturedOutput:
    """The beginning and the end of a stream; the same object when all that was kept of it is short enough."""
    if len(stream.head) + len(stream.tail) <= limit:
        return stream
    head, tail = (stream.head, stream.tail) if stream.cut else (stream.head + stream.tail,) * 2
    first = min(limit - limit // 2, len(head))
    last = limit - first
    return CapturedOutput(head[:first], tail[-last:] if last else b"", stream.total - first - min(last, len(tail)))


def _describe_cuts(ended: CommandResult, shown: Mapping[str, CapturedOutput]) -> list[str]:
    return [
        f"{name} has {whole.total:,} bytes, of which {len(part.head) + len(part.tail):,} are shown, from its beginning"
        " and its end; write long output to a file in out/"
        for name, whole in _get_streams(ended)
        if (part := shown[name]) is not whole
    ]


def _describe_ending(ended: CommandResult, advice: str) -> Sequence[str]:
    """Who ended the command if it did not end by itself, in words that can be acted on."""
    match ended.ending:
        case EndReason.EXITED:
            return (ended.detail,) if ended.detail else ()
        case EndReason.TIMED_OUT:
            return (f"the command was stopped: {ended.detail or 'its time was up'}; {advice}",)
        case EndReason.LIMIT:
            return (f"the command was stopped: {ended.detail or 'it used too much'}; make it use less",)
        case EndReason.KILLED:
            return (f"the command was killed{f': {ended.detail}' if ended.detail else ''}",)
        case EndReason.INTERRUPTED:
            return (f"how the command ended is not known: {ended.detail}; look at its files before it is run again",)


def _describe_no_output(result: RunResult, patterns: Sequence[str]) -> Sequence[str]:
    if result.output_files or not patterns:
        return ()
    return (f"no file that this run made or changed matches {to_printable(', '.join(patterns)[:300])}",)


def _describe_unlisted(result: RunResult) -> Sequence[str]:
    more = len(result.output_files) - MAX_LISTED_FILES
    return (f"{more:,} more files came of this run than are listed here; list_files shows them",) if more > 0 else ()


def _limit_warnings(warnings: list[str]) -> list[str]:
    more = len(warnings) - MAX_WARNINGS
    return [*warnings[:MAX_WARNINGS], f"{more:,} more warnings are left out"] if more > 0 else warnings


def _files_to_json(files: Sequence[OutputFile], shape: RunResultOptions) -> tuple[list[dict[str, Any]], Sequence[str]]:
    """The files, with as much of their text as there is room for, and a sentence when that is not all."""
    room = shape.content_bytes
    found: list[dict[str, Any]] = []
    cut = 0
    for file in files:
        if not (shape.inline and _is_text(file)):
            found.append(_file_to_json(file if shape.inline else replace(file, truncated=False)))
            continue
        shown = file if len(file.data) <= room else replace(file, data=file.data[:room], truncated=True)
        cut += shown is not file
        room -= len(shown.data)
        found.append(_file_to_json(shown, shown.text()))
    if not cut:
        return found, ()
    cut_files = "1 file is" if cut == 1 else f"{cut} files is"
    most = f"{shape.content_bytes:,} bytes in all"
    return found, (f"the content of {cut_files} cut to {most}; read on by ref, with read_file or with a command",)


def _primary_to_json(files: Sequence[OutputFile], shape: RunResultOptions) -> dict[str, Any] | None:
    short = (file for file in files if len(file.data) <= shape.primary_bytes)
    found = select_primary(filter(_is_text, short), limit=shape.primary_bytes)
    return found and _file_to_json(found, found.text() if shape.primary_content else None)


def _file_to_json(file: OutputFile, content: str | None = None) -> dict[str, Any]:
    text = {} if content is None else {"content": content}
    about = {"mime_type": file.mime_type, "size_bytes": file.size, "truncated": file.truncated}
    return {"name": file.path, "ref": file.ref, **text, **about}


def _upload_to_json(file: WorkspaceUpload) -> dict[str, Any]:
    return {
        "name": file.path,
        "original_name": file.original_name,
        "mime_type": file.mime_type,
        "size_bytes": file.size,
    }


def _is_text(file: OutputFile) -> bool:
    """Whether there is text in it to show. What begins like a PDF is none, even when every byte of it is a letter."""
    text = file.text()
    return text is not None and detect_mime_type("x.txt", text[:SNIFF_BYTES].encode()[:SNIFF_BYTES]) == TEXT


def require_loaded(context: ToolContext, name: str) -> Skill:
    """The skill of this name, which the agent has loaded. A load that was seen once (`LoadMode.ONCE`) still counts.

    Raises `UnknownSkill` with the nearest names, then `NotLoaded` with what happened and what to do. With
    `ToolOptions.require_loaded` off every visible skill passes.
    """
    skill = context.skills.get(name)
    if context.options.require_loaded:
        view = context.view()
        if not view.can_run(skill.name):
            raise NotLoaded(_suggest_load(skill.name, view), skill=skill.name)
    return skill


def _suggest_load(name: str, view: AgentView) -> str:
    call = f"call skill_load with {json.dumps({'skill': name}, ensure_ascii=False)}"
    entry = view.entries.get(name)
    if entry is None or not entry.loaded:
        return f"{name!r} is not loaded; {call} first"
    if view.turn > entry.unloaded:
        return f"{name!r} was loaded before the user's last message and is not any more; {call} again first"
    return f"{name!r} was unloaded, or made room for skills that were used more recently; {call} again first"


async def install_requirements(bench: CommandRunner, skill: str, command: str, hosts: Sequence[str]) -> tuple[str, ...]:
    """Install what a staged skill declares, or the script of this command, unless that is done; gives warnings.

    Raises what keeps it from being installed: `CommandDenied` when somebody was asked and said no, `InvalidSkill` with
    the last lines of an installation that failed.
    """
    done = await bench.install(skill, script=find_script(_split_words(command)), network=hosts)
    return done.warnings


def _split_words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        # The shell will say what is wrong with it.
        return []


DEFAULT_OUTPUTS = 20
"""How many files of `out/` come back when nobody said which."""

_SKILL_SCHEME = "skill://"
_DEFAULT_SPEC = OutputSpec(("out/**",), max_files=DEFAULT_OUTPUTS)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A command that everything is ready for, and how its result is to look."""

    runner: CommandRunner
    request: RunRequest
    result_options: RunResultOptions
    stager: UploadStager
    uploads: UploadReport


async def prepare_run(context: ToolContext, arguments: RunArguments) -> RunPlan:
    """Let a command through the gate and put what it needs into the workspace.

    Raises `UnknownSkill`, `NotLoaded` and `InvalidArgument` before anything is touched, then whatever staging raises.
    """
    skill = require_loaded(context, arguments.skill)
    limits = _build_limits(context, arguments.timeout)
    outputs = build_output_spec(arguments, context.options)
    needed = {
        one.name: one for one in (skill, *(context.skills.get(name) for name in _find_input_skills(arguments.inputs)))
    }
    bench = await context.open_runner()
    for one in needed.values():
        await bench.stage(
            one.name, one.path, warm=read_warm_modules(one.manifest.metadata), as_of=_get_snapshot_key(context, one)
        )
    staging = UploadStager(context.uploads, bench.workspace, scope=context.scope, artifacts=context.artifacts)
    arrivals = await staging.stage()
    if context.options.install is not None:
        warnings = await install_requirements(bench, skill.name, arguments.command, context.options.install)
        arrivals = replace(arrivals, warnings=(*arrivals.warnings, *warnings))
    request = RunRequest(
        arguments.command,
        skill=skill.name,
        cwd=_to_workspace_path(bench.workspace.root, arguments.cwd),
        env={**context.options.environment, **arguments.env},
        secrets=_select_secrets(context.options, skill.name),
        stdin=_encode_stdin(arguments.stdin),
        editor_text=arguments.editor_text,
        inputs=arguments.inputs,
        outputs=outputs,
        limits=limits,
        network=context.options.network,
    )
    return RunPlan(bench, request, _build_result_options(context, arguments), staging, arrivals)


def build_output_spec(arguments: RunArguments, options: ToolOptions) -> OutputSpec:
    """Which files come back, and which of them are kept. Where nothing is asked for, it is what is new in `out/`."""
    if arguments.outputs is not None:
        spec = arguments.outputs
    elif arguments.output_files:
        spec = OutputSpec(arguments.output_files)
    else:
        spec = _DEFAULT_SPEC
    file_bytes, inline = spec.max_file_bytes, spec.inline
    if spec is _DEFAULT_SPEC or arguments.omit_inline_content:
        # Only a primary output is looked for in what is read, and nothing larger can be that.
        file_bytes = min(file_bytes, options.primary_bytes)
        inline = inline and file_bytes > 0
    # One byte more than there is room for, so that it can be told that something was cut.
    most = max(_get_content_limit(file_bytes, spec.max_total_bytes, options) + 1, options.primary_bytes)
    return replace(
        spec,
        inline=inline,
        save=spec.save or arguments.save_as_artifacts or options.force_save,
        name_template=spec.name_template or arguments.artifact_prefix,
        max_file_bytes=min(file_bytes, most),
        max_total_bytes=min(spec.max_total_bytes, max(most, _DEFAULT_SPEC.max_total_bytes)),
    )


def _get_snapshot_key(context: ToolContext, skill: Skill) -> Hashable:
    """What a model has loaded is what it runs: a loaded skill is taken as it was, until it is loaded again."""
    view = context.view()
    return (context.agent, skill.directory, view.entries[skill.name].loaded) if view.can_run(skill.name) else None


def _build_result_options(context: ToolContext, arguments: RunArguments) -> RunResultOptions:
    options, outputs = context.options, arguments.outputs
    limits = outputs or _DEFAULT_SPEC
    asked = outputs.globs if outputs else arguments.output_files
    wanted = outputs.inline if outputs else bool(asked)
    return RunResultOptions(
        stream_bytes=options.inline_bytes,
        primary_bytes=options.primary_bytes,
        content_bytes=_get_content_limit(limits.max_file_bytes, limits.max_total_bytes, options),
        inline=wanted and not arguments.omit_inline_content,
        primary_content=not arguments.omit_inline_content,
        patterns=asked,
        advice=_suggest_on_timeout(context),
    )


def _get_content_limit(file_bytes: int, total_bytes: int, options: ToolOptions) -> int:
    """How much content goes into a result: what the model asks for, or what is safe for one that says nothing."""
    says_nothing = (file_bytes, total_bytes) == (_DEFAULT_SPEC.max_file_bytes, _DEFAULT_SPEC.max_total_bytes)
    return min(options.max_inline_bytes, CONTENT_BYTES if says_nothing else total_bytes)


def _build_limits(context: ToolContext, timeout: float | None) -> Limits:
    limits, most = context.options.limits, context.options.max_timeout
    if timeout is None:
        return limits
    if timeout > most:
        raise InvalidArgument(
            "timeout", f"{timeout:g} seconds are too many; {most:g} is the most{_suggest_exec(context)}"
        )
    return replace(limits, timeout=timeout)


def _suggest_on_timeout(context: ToolContext) -> str:
    most = f"give it more time (timeout, at most {context.options.max_timeout:g} seconds)"
    return f"{most}, or do less in one call{_suggest_exec(context)}"


def _suggest_exec(context: ToolContext) -> str:
    return "; skill_exec is for what takes long" if "skill_exec" in context.tools else ""


def _find_input_skills(inputs: tuple[InputSpec, ...]) -> list[str]:
    """The skills that inputs come from."""
    sources = [one.source for one in inputs if one.source.lower().startswith(_SKILL_SCHEME)]
    return [source[len(_SKILL_SCHEME) :].lstrip("/").partition("/")[0] for source in sources]


def _to_workspace_path(root: str, cwd: str) -> str:
    """The same place; what a command has printed as its absolute path is below the workspace."""
    return f"/{cwd.removeprefix(root).lstrip('/')}" if f"{cwd}/".startswith(f"{root}/") else cwd


def _select_secrets(options: ToolOptions, skill: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*options.secrets.get("*", ()), *options.secrets.get(skill, ()))))


def _encode_stdin(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("stdin", "contains half a character (a lone surrogate)") from None


async def run(context: ToolContext, arguments: RunArguments) -> ToolResult:
    """Run a command and say how it went. Calls at the same time share the workspace, and what is new in it.

    A failed command is a result. Raises what keeps it from being run: `UnknownSkill`, `NotLoaded`, `InvalidArgument`,
    `ForbiddenPath`, `CommandDenied`, `LimitExceeded`, `ExecutorUnavailable`.
    """
    ready = await prepare_run(context, arguments)
    result = await ready.runner.run(ready.request)
    data = build_result_data(result, ready.result_options, ready.uploads.files.values(), ready.uploads.warnings)
    ready.stager.mark_reported(ready.uploads)
    return ToolResult(describe_result(data), data)


SKILL_RUN = Tool(
    "skill_run",
    "Run a command that a loaded skill's instructions call for; not for looking around. It starts in the skill's "
    "folder, which is read-only: write results to out/. The user's files are in work/inputs/. Returns exit_code, "
    "stdout and stderr (long ones cut) and the files that this run made or changed, with refs for other tools.",
    RunArguments,
    run,
)
