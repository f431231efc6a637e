"""From what a model wrote to a command that can be run: the gate, staging, limits, and what is to come back."""

from collections.abc import Hashable
from dataclasses import dataclass, replace

from openskills.catalog.skill import Skill
from openskills.errors import InvalidArgument
from openskills.executors.requests import RunRequest, wanted_warm
from openskills.executors.spec import Limits
from openskills.executors.staging.inputs import InputSpec
from openskills.executors.staging.outputs import OutputSpec
from openskills.executors.workbench import Workbench
from openskills.tools.gate import require_loaded
from openskills.tools.packages import install_declared
from openskills.tools.run_arguments import RunArguments
from openskills.tools.run_outcome import CONTENT_BYTES, Shape
from openskills.tools.tool import ToolContext, ToolOptions
from openskills.tools.upload_staging import Arrivals, UploadStaging

LISTED = 20
"""How many files of `out/` come back when nobody said which."""

_SKILL = "skill://"
_USUAL = OutputSpec(("out/**",), max_files=LISTED)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A command that everything is ready for, and how its result is to look."""

    bench: Workbench
    request: RunRequest
    shape: Shape
    staging: UploadStaging
    arrivals: Arrivals


async def prepared(context: ToolContext, arguments: RunArguments) -> Prepared:
    """Let a command through the gate and put what it needs into the workspace.

    Raises `UnknownSkill`, `NotLoaded` and `InvalidArgument` before anything is touched, then whatever staging raises.
    """
    skill = require_loaded(context, arguments.skill)
    limits = _limits(context, arguments.timeout)
    outputs = collected(arguments, context.options)
    needed = {one.name: one for one in (skill, *(context.skills.get(name) for name in _named(arguments.inputs)))}
    bench = await context.bench()
    for one in needed.values():
        await bench.stage(one.name, one.path, warm=wanted_warm(one.manifest.metadata), as_of=_as_of(context, one))
    staging = UploadStaging(context.uploads, bench.workspace, scope=context.scope, artifacts=context.artifacts)
    arrivals = await staging.arrive()
    if context.options.install is not None:
        warnings = await install_declared(bench, skill.name, arguments.command, context.options.install)
        arrivals = replace(arrivals, warnings=(*arrivals.warnings, *warnings))
    request = RunRequest(
        arguments.command,
        skill=skill.name,
        cwd=_below(bench.workspace.root, arguments.cwd),
        env={**context.options.environment, **arguments.env},
        secrets=_secrets(context.options, skill.name),
        stdin=_encoded(arguments.stdin),
        editor_text=arguments.editor_text,
        inputs=arguments.inputs,
        outputs=outputs,
        limits=limits,
        network=context.options.network,
    )
    return Prepared(bench, request, _shape(context, arguments), staging, arrivals)


def collected(arguments: RunArguments, options: ToolOptions) -> OutputSpec:
    """Which files come back, and which of them are kept. Where nothing is asked for, it is what is new in `out/`."""
    if arguments.outputs is not None:
        spec = arguments.outputs
    elif arguments.output_files:
        spec = OutputSpec(arguments.output_files)
    else:
        spec = _USUAL
    file_bytes, inline = spec.max_file_bytes, spec.inline
    if spec is _USUAL or arguments.omit_inline_content:
        # Only a primary output is looked for in what is read, and nothing larger can be that.
        file_bytes = min(file_bytes, options.primary_bytes)
        inline = inline and file_bytes > 0
    # One byte more than there is room for, so that it can be told that something was cut.
    most = max(_room(file_bytes, spec.max_total_bytes, options) + 1, options.primary_bytes)
    return replace(
        spec,
        inline=inline,
        save=spec.save or arguments.save_as_artifacts or options.force_save,
        name_template=spec.name_template or arguments.artifact_prefix,
        max_file_bytes=min(file_bytes, most),
        max_total_bytes=min(spec.max_total_bytes, max(most, _USUAL.max_total_bytes)),
    )


def _as_of(context: ToolContext, skill: Skill) -> Hashable:
    """What a model has loaded is what it runs: a loaded skill is taken as it was, until it is loaded again."""
    view = context.view()
    return (context.agent, skill.directory, view.entries[skill.name].loaded) if view.may_run(skill.name) else None


def _shape(context: ToolContext, arguments: RunArguments) -> Shape:
    options, outputs = context.options, arguments.outputs
    limits = outputs or _USUAL
    asked = outputs.globs if outputs else arguments.output_files
    wanted = outputs.inline if outputs else bool(asked)
    return Shape(
        stream_bytes=options.inline_bytes,
        primary_bytes=options.primary_bytes,
        content_bytes=_room(limits.max_file_bytes, limits.max_total_bytes, options),
        inline=wanted and not arguments.omit_inline_content,
        primary_content=not arguments.omit_inline_content,
        patterns=asked,
        advice=_advice(context),
    )


def _room(file_bytes: int, total_bytes: int, options: ToolOptions) -> int:
    """How much content goes into a result: what the model asks for, or what is safe for one that says nothing."""
    says_nothing = (file_bytes, total_bytes) == (_USUAL.max_file_bytes, _USUAL.max_total_bytes)
    return min(options.max_inline_bytes, CONTENT_BYTES if says_nothing else total_bytes)


def _limits(context: ToolContext, timeout: float | None) -> Limits:
    limits, most = context.options.limits, context.options.max_timeout
    if timeout is None:
        return limits
    if timeout > most:
        raise InvalidArgument("timeout", f"{timeout:g} seconds are too many; {most:g} is the most{_or_exec(context)}")
    return replace(limits, timeout=timeout)


def _advice(context: ToolContext) -> str:
    most = f"give it more time (timeout, at most {context.options.max_timeout:g} seconds)"
    return f"{most}, or do less in one call{_or_exec(context)}"


def _or_exec(context: ToolContext) -> str:
    return "; skill_exec is for what takes long" if "skill_exec" in context.tools else ""


def _named(inputs: tuple[InputSpec, ...]) -> list[str]:
    """The skills that inputs come from."""
    sources = [one.source for one in inputs if one.source.lower().startswith(_SKILL)]
    return [source[len(_SKILL) :].lstrip("/").partition("/")[0] for source in sources]


def _below(root: str, cwd: str) -> str:
    """The same place; what a command has printed as its absolute path is below the workspace."""
    return f"/{cwd.removeprefix(root).lstrip('/')}" if f"{cwd}/".startswith(f"{root}/") else cwd


def _secrets(options: ToolOptions, skill: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*options.secrets.get("*", ()), *options.secrets.get(skill, ()))))


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("stdin", "contains half a character (a lone surrogate)") from None
