"""`skill_run`: run a command of a loaded skill and report the result.

A failed command is an ordinary result. Every result has `stdout`, `stderr`, `exit_code`, `timed_out`, `duration_ms`,
`isolation` and `output_files`; other fields are left out when they are empty.
"""

import asyncio
import hashlib
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from openskills.catalog.skill import Skill
from openskills.errors import InvalidArgument, NotLoaded
from openskills.executors.commands import CommandRunner
from openskills.executors.files.mime import SNIFF_BYTES, TEXT, detect_mime_type
from openskills.executors.requests import RunRequest, RunResult, read_warm_modules
from openskills.executors.spec import CapturedOutput, CommandResult, EndReason, Limits, SkillSnapshot
from openskills.executors.staging.inputs import InputSpec
from openskills.executors.staging.outputs import (
    PRIMARY_BYTES,
    OutputFile,
    OutputSpec,
    allot_bytes,
    describe_unmatched,
    select_primary,
)
from openskills.tools.run_arguments import RunArguments, encode_text
from openskills.tools.tool import Tool, ToolContext, ToolOptions, ToolResult, build_result_schema
from openskills.tools.uploads import UploadReport, UploadStager, WorkspaceUpload

STREAM_BYTES = 16 * 1024
CONTENT_BYTES = 128 * 1024
MAX_LISTED_FILES = 1_000
"""Files of a run that are listed by name; the others are counted."""
MAX_WARNINGS = 50


@dataclass(frozen=True, slots=True)
class RunResultOptions:
    """How much of a run goes into its result.

    `stream_bytes` of stdout and of stderr; a primary output of at most `primary_bytes`; `content_bytes` of all files
    together, unless `inline` or `primary_content` is off. `patterns` are the requested ones; `advice` is what to do
    about a timeout.
    """

    stream_bytes: int = STREAM_BYTES
    primary_bytes: int = PRIMARY_BYTES
    content_bytes: int = CONTENT_BYTES
    inline: bool = True
    primary_content: bool = True
    patterns: tuple[str, ...] = ()
    advice: str = "set a longer timeout, or do less per call"


def build_result_data(
    result: RunResult, shape: RunResultOptions, staged: Iterable[WorkspaceUpload] = (), warnings: Iterable[str] = ()
) -> dict[str, Any]:
    """The data of a result, as plain JSON values. `staged` and `warnings` come from before the run."""
    ended = result.ended
    whole = {"stdout": ended.stdout, "stderr": ended.stderr}
    streams = {name: clip_stream(one, shape.stream_bytes) for name, one in whole.items()}
    files, cut = _files_to_json(result.output_files[:MAX_LISTED_FILES], shape)
    kept = result.artifact_files[:MAX_LISTED_FILES]
    found = [*_describe_ending(ended, shape.advice), *warnings]
    for name, one in streams.items():
        if one is not whole[name]:
            shown = f"head and tail, {len(one.head) + len(one.tail):,} bytes, are shown"
            found.append(f"{name} has {whole[name].total:,} bytes; {shown}; write long output to out/")
    found += [*describe_unmatched(shape.patterns, result.output_files), *cut]
    if (more := len(result.output_files) - MAX_LISTED_FILES) > 0:
        found.append(f"{more:,} more files are not listed here; see list_files")
    # Cold starts concern the author of the skill, not the model.
    found += [warning for warning in result.warnings if not warning.startswith("started cold: ")]
    if (more := len(found) - MAX_WARNINGS) > 0:
        found[MAX_WARNINGS:] = [f"{more:,} more warnings"]
    optional = {
        "primary_output": _primary_to_json(result.output_files, shape),
        "artifact_files": [{"name": one.name, "version": one.version, "ref": one.ref} for one in kept],
        "staged_inputs": [
            {"name": one.path, "original_name": one.original_name, "mime_type": one.mime_type, "size_bytes": one.size}
            for one in staged
        ],
        "warnings": found,
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
    """The same for a model: compact JSON without repeated content."""
    found = data.get("primary_output")
    if found and any(one["name"] == found["name"] and "content" in one for one in data["output_files"]):
        data = {**data, "primary_output": {key: one for key, one in found.items() if key != "content"}}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def clip_stream(stream: CapturedOutput, limit: int) -> CapturedOutput:
    """The head and tail of a stream; the same object if it is short enough."""
    if len(stream.head) + len(stream.tail) <= limit:
        return stream
    head, tail = (stream.head, stream.tail) if stream.cut else (stream.head + stream.tail,) * 2
    first = min(limit - limit // 2, len(head))
    last = limit - first
    return CapturedOutput(head[:first], tail[-last:] if last else b"", stream.total - first - min(last, len(tail)))


def _describe_ending(ended: CommandResult, advice: str) -> Sequence[str]:
    """Why the command ended, if it did not exit by itself."""
    match ended.ending:
        case EndReason.EXITED:
            return (ended.detail,) if ended.detail else ()
        case EndReason.TIMED_OUT:
            return (f"the command was stopped: {ended.detail or 'it timed out'}; {advice}",)
        case EndReason.LIMIT:
            return (f"the command was stopped: {ended.detail or 'it exceeded a limit'}; make it use less",)
        case EndReason.KILLED:
            return (f"the command was killed{f': {ended.detail}' if ended.detail else ''}",)
        case EndReason.INTERRUPTED:
            return (f"the outcome of the command is unknown: {ended.detail}; check its files before you run it again",)


def _files_to_json(files: Sequence[OutputFile], shape: RunResultOptions) -> tuple[list[dict[str, Any]], Sequence[str]]:
    """The files with as much content as fits, and a warning if some was cut."""
    if not shape.inline:
        return [_file_to_json(replace(file, truncated=False)) for file in files], ()
    sizes = [len(file.data) if _is_text(file) else 0 for file in files]
    found: list[dict[str, Any]] = []
    cut = 0
    for file, size, share in zip(files, sizes, allot_bytes(sizes, shape.content_bytes), strict=True):
        shown = file if share == size else replace(file, data=file.data[:share], truncated=True)
        cut += shown is not file
        found.append(_file_to_json(shown, shown.text() if share or not file.size else None))
    if not cut:
        return found, ()
    files_cut = "1 file" if cut == 1 else f"{cut} files"
    total = f"{shape.content_bytes:,} bytes in total"
    return found, (f"the content of {files_cut} was cut to {total}; read on by ref, with read_file or a command",)


def _primary_to_json(files: Sequence[OutputFile], shape: RunResultOptions) -> dict[str, Any] | None:
    short = (file for file in files if len(file.data) <= shape.primary_bytes)
    found = select_primary(filter(_is_text, short), limit=shape.primary_bytes)
    return found and _file_to_json(found, found.text() if shape.primary_content else None)


def _file_to_json(file: OutputFile, content: str | None = None) -> dict[str, Any]:
    text = {} if content is None else {"content": content}
    info = {"mime_type": file.mime_type, "size_bytes": file.size, "truncated": file.truncated}
    return {"name": file.path, "ref": file.ref, **text, **info}


def _is_text(file: OutputFile) -> bool:
    """Whether it is text to show. An all-ASCII PDF is not."""
    text = file.text()
    return text is not None and detect_mime_type("x.txt", text[:SNIFF_BYTES].encode()[:SNIFF_BYTES]) == TEXT


def require_loaded(context: ToolContext, name: str) -> Skill:
    """Return a loaded skill. A load that was shown once (`LoadMode.ONCE`) still counts.

    Raises `UnknownSkill` with the nearest names or `NotLoaded` with what to do. With `ToolOptions.require_loaded` off,
    every visible skill passes.
    """
    skill, view = context.skills.get(name), context.view()
    if not context.options.require_loaded or view.can_run(skill.name):
        return skill
    call = f"call skill_load with {json.dumps({'skill': skill.name}, ensure_ascii=False)}"
    entry = view.entries.get(skill.name)
    if entry is None or not entry.loaded:
        hint = f"is not loaded; {call} first"
    elif view.turn > entry.unloaded:
        hint = f"was loaded before the user's last message and is not any more; {call} again first"
    else:
        hint = f"was unloaded, or evicted for skills that were used more recently; {call} again first"
    raise NotLoaded(f"{skill.name!r} {hint}", skill=skill.name)


DEFAULT_OUTPUTS = 20
"""How many files of `out/` are returned by default."""

_SKILL_SCHEME = "skill://"
_DEFAULT_SPEC = OutputSpec(("out/**",), max_files=DEFAULT_OUTPUTS)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A command that is ready to run, and the options of its result."""

    runner: CommandRunner
    request: RunRequest
    result_options: RunResultOptions
    stager: UploadStager
    uploads: UploadReport


async def prepare_run(context: ToolContext, arguments: RunArguments) -> RunPlan:
    """Check a call and stage what its command needs.

    Raises `UnknownSkill`, `NotLoaded` and `InvalidArgument` before anything changes, then whatever staging raises.
    """
    skill = require_loaded(context, arguments.skill)
    grants = context.options.grants_for(skill.name)
    limits = _build_limits(context, arguments.timeout, grants.timeout)
    outputs = build_output_spec(arguments, context.options)
    needed = {
        one.name: one for one in (skill, *(context.skills.get(name) for name in _find_input_skills(arguments.inputs)))
    }
    runner = await context.open_runner()
    staged: dict[str, SkillSnapshot] = {}
    for one in needed.values():
        staged[one.name] = await stage_skill(context, runner, one)
    asked = await context.request_secrets(skill, staged[skill.name].digest)
    if asked:
        runner = runner.with_secrets(asked)
    stager = UploadStager(context.uploads, runner.workspace, scope=context.scope, artifacts=context.artifacts)
    uploads = await stager.stage()
    provided = await runner.provide_packages(
        skill.name,
        arguments.command,
        context.options.packages_for(skill.name),
        progress=context.options.report_progress,
    )
    uploads = replace(uploads, warnings=(*uploads.warnings, *provided.warnings))
    request = RunRequest(
        arguments.command,
        skill=skill.name,
        cwd=_to_workspace_path(runner.workspace.root, arguments.cwd),
        env={**grants.environment, **arguments.env},
        secrets=(*grants.secrets, *asked),
        stdin=encode_text("stdin", arguments.stdin),
        editor_text=arguments.editor_text,
        inputs=arguments.inputs,
        outputs=outputs,
        limits=limits,
        network=grants.network,
        packages=provided.environment,
    )
    return RunPlan(runner, request, _build_result_options(context, arguments), stager, uploads)


async def stage_skill(context: ToolContext, runner: CommandRunner, skill: Skill) -> SkillSnapshot:
    """Put a skill into the workspace: the version that the model has loaded, or else the current one."""
    warm = read_warm_modules(skill.manifest.metadata)
    snapshot, key = _find_loaded_version(context, skill)
    if skill.remote is not None:
        await asyncio.to_thread(skill.download)
    check = skill.check_unchanged
    return await runner.stage(skill.name, skill.path, warm=warm, as_of=key, snapshot=snapshot, check=check)


def build_output_spec(arguments: RunArguments, options: ToolOptions) -> OutputSpec:
    """Which files are returned and saved; by default, new files in `out/`."""
    if arguments.outputs is not None:
        spec = arguments.outputs
    elif arguments.output_files:
        spec = OutputSpec(arguments.output_files)
    else:
        spec = _DEFAULT_SPEC
    return _limit_outputs(
        spec,
        save=spec.save or arguments.save_as_artifacts or options.force_save,
        prefix=spec.name_template or arguments.artifact_prefix,
        # Otherwise, content is only read to find a primary output.
        has_content=spec is not _DEFAULT_SPEC and not arguments.omit_inline_content,
        primary_bytes=options.primary_bytes,
        max_bytes=options.max_inline_bytes,
    )


# Most calls have the same options.
@lru_cache(64)
def _limit_outputs(
    spec: OutputSpec, *, save: bool, prefix: str, has_content: bool, primary_bytes: int, max_bytes: int
) -> OutputSpec:
    file_bytes, inline = spec.max_file_bytes, spec.inline
    if not has_content:
        # A primary output cannot be larger.
        file_bytes = min(file_bytes, primary_bytes)
        inline = inline and file_bytes > 0
    # One byte more than fits, to notice that something was cut.
    max_bytes = max(min(max_bytes, spec.max_total_bytes) + 1, primary_bytes)
    return replace(
        spec,
        inline=inline,
        save=save,
        name_template=prefix,
        max_file_bytes=min(file_bytes, max_bytes),
        max_total_bytes=min(spec.max_total_bytes, max(max_bytes, _DEFAULT_SPEC.max_total_bytes)),
    )


def _find_loaded_version(context: ToolContext, skill: Skill) -> tuple[SkillSnapshot | None, Hashable]:
    """The model runs what it has loaded: the snapshot of a loaded skill, and what changes when it is loaded again."""
    view = context.view()
    if not view.can_run(skill.name):
        return None, None
    snapshot = context.loaded_texts.get_snapshot(skill.name)
    return snapshot, snapshot.digest if snapshot else (context.agent, skill.directory, view.entries[skill.name].loaded)


def _build_result_options(context: ToolContext, arguments: RunArguments) -> RunResultOptions:
    options, outputs = context.options, arguments.outputs
    limits = outputs or _DEFAULT_SPEC
    asked = outputs.globs if outputs else arguments.output_files
    wanted = outputs.inline if outputs else bool(asked)
    return RunResultOptions(
        stream_bytes=options.inline_bytes,
        primary_bytes=options.primary_bytes,
        content_bytes=min(options.max_inline_bytes, limits.max_total_bytes),
        inline=wanted and not arguments.omit_inline_content,
        primary_content=not arguments.omit_inline_content,
        patterns=asked,
        advice=_advise_on_timeout(context, arguments.skill),
    )


def _advise_on_timeout(context: ToolContext, skill: str) -> str:
    options = context.options
    granted = options.grants_for(skill).timeout
    if granted is not None:
        return f"do less per call; the user granted at most {granted:g} s"
    return f"set a longer timeout (at most {options.max_timeout:g} s) or do less per call{_suggest_exec(context)}"


def _build_limits(context: ToolContext, timeout: float | None, granted: float | None) -> Limits:
    limits = context.options.limits
    max_timeout = context.options.max_timeout if granted is None else granted
    if timeout is None:
        return limits if granted is None else replace(limits, timeout=granted)
    if timeout > max_timeout:
        hint = _suggest_exec(context) if granted is None else ", which is what the user granted"
        raise InvalidArgument("timeout", f"{timeout:g} s is too long, at most {max_timeout:g} s{hint}")
    return replace(limits, timeout=timeout)


def _suggest_exec(context: ToolContext) -> str:
    return "; use skill_exec for long-running commands" if "skill_exec" in context.tools else ""


def _find_input_skills(inputs: tuple[InputSpec, ...]) -> list[str]:
    sources = [one.source for one in inputs if one.source.lower().startswith(_SKILL_SCHEME)]
    return [source[len(_SKILL_SCHEME) :].lstrip("/").partition("/")[0] for source in sources]


def _to_workspace_path(root: str, cwd: str) -> str:
    """Accept absolute paths below the workspace, as commands print them."""
    return f"/{cwd.removeprefix(root).lstrip('/')}" if f"{cwd}/".startswith(f"{root}/") else cwd


_REPLAYED = "this call was already made and was not run again; this is its recorded result"


def _build_request_id(context: ToolContext, arguments: RunArguments) -> str:
    """A request id that is unique in the journal, which all agents of the conversation share."""
    # Some servers use an id twice in a conversation: with other arguments, it is another call.
    key = repr((context.agent, context.call_id, arguments))
    return f"call-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


async def run(context: ToolContext, arguments: RunArguments) -> ToolResult:
    """Run a command and report the result. Concurrent calls share the workspace.

    A call with an id runs at most once: repeated with its id, it gets the recorded result. A failed command is a
    result. Raises if it cannot be run: `UnknownSkill`, `NotLoaded`, `InvalidArgument`, `ForbiddenPath`,
    `CommandDenied`, `LimitExceeded`, `ExecutorUnavailable`.
    """
    ready = await prepare_run(context, arguments)
    # Not durable: workspace files are not synced to disk either, and two syncs per call are slow.
    request = ready.request
    if context.call_id and ready.runner.has_journal:
        request = replace(request, request_id=_build_request_id(context, arguments), durable=False)
    result = await ready.runner.run(request)
    warnings = (*([_REPLAYED] if result.replayed else []), *ready.uploads.warnings)
    data = build_result_data(result, ready.result_options, ready.uploads.files.values(), warnings)
    ready.stager.mark_reported(ready.uploads)
    return ToolResult(describe_result(data), data)


RUN_RESULT_SCHEMA = build_result_schema(
    {
        "stdout": "string",
        "stderr": "string",
        "exit_code": "integer",
        "timed_out": "boolean",
        "duration_ms": "integer",
        "isolation": "string",
        "output_files": "object[]",
    },
    {
        "primary_output": "object",
        "artifact_files": "object[]",
        "staged_inputs": "object[]",
        "warnings": "string[]",
    },
)

SKILL_RUN = Tool(
    "skill_run",
    "Run a command that a loaded skill calls for, in the skill's folder. Write results to out/. "
    "The user's files are in work/inputs/. Returns exit_code, stdout, stderr and new files with refs for other tools.",
    RunArguments,
    run,
    RUN_RESULT_SCHEMA,
)
