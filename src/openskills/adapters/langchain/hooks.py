"""Hooks in the front matter of skills: parse them, and run them around tool calls and at the start of a thread."""

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, Protocol, cast, get_args

from openskills.adapters.langchain.backend_io import BackendFailure, Steps, await_result, download_files
from openskills.adapters.langchain.messages import list_tool_names
from openskills.adapters.langchain.state import ResourceMetadata, SkillMetadata, discover_resources, get_extension
from openskills.arguments import check_arguments
from openskills.errors import SkillError
from openskills.executors.protocol import Executor
from openskills.executors.spec import Command, Limits
from openskills.tools.approvals import matches_pattern

logger = logging.getLogger(__name__)

HookEvent = Literal["PreToolUse", "PostToolUse", "SessionStart"]
EVENTS: Mapping[str, HookEvent] = {event: event for event in get_args(HookEvent)}
SESSION_SOURCE = "startup"
"""What matchers of `SessionStart` are compared with."""

_MAX_MATCHER_CHARS = 500
# Skills are untrusted: a matcher is never run as a regular expression, which could take forever.
_SPECIAL = re.compile(r"[()\[\]{}+?^$\\]|\.(?!\*)")
_MATCHER_WRAPPER = re.compile(r"\^?(?:\(([^()]*)\)|([^()]*?))\$?")


@dataclass(frozen=True, slots=True)
class Hook:
    """A command to run, or a prompt for the model, before or after calls of tools that `matcher` matches."""

    id: str
    skill: str
    event: HookEvent
    matcher: str
    kind: Literal["command", "prompt"]
    text: str
    once: bool = False

    def matches_tool(self, tool: str) -> bool:
        """Whether the matcher matches this tool under any of its names, in upper or lower case.

        A matcher consists of names separated by `|`, with `*` or `.*` as wildcards; any other matches every tool.
        """
        if self.matcher in {"", "*"}:
            return True
        if len(self.matcher) > _MAX_MATCHER_CHARS:
            return self._reject_matcher("too long")
        inner = _MATCHER_WRAPPER.fullmatch(self.matcher)
        text = (inner[1] or inner[2] or "") if inner else self.matcher
        if inner is None or _SPECIAL.search(text):
            return self._reject_matcher("not supported; use names, `|` and `.*`")
        patterns = [one.strip().casefold().replace(".*", "*") for one in text.split("|")]
        return any(matches_pattern(one, name) for one in patterns for name in list_tool_names(tool))

    def _reject_matcher(self, why: str) -> bool:
        # A hook may be a guard, so it must not be skipped.
        logger.warning(
            "The hook of skill '%s' runs for all tools: its matcher %.200r is %s", self.skill, self.matcher, why
        )
        return True


def parse_hooks(skill: SkillMetadata) -> list[Hook]:
    """The hooks that a skill declares; unsupported ones are ignored with a warning."""
    declared = get_extension(skill, "hooks")
    if not isinstance(declared, Mapping):
        return []
    found: list[Hook] = []
    for event, groups in cast("Mapping[str, object]", declared).items():
        if event not in EVENTS:
            logger.warning("Skill '%s' has hooks for %s, which is not supported", skill["name"], event)
            continue
        for group in _list_mappings(groups):
            matcher = str(group.get("matcher") or "")
            # Handlers are in a list, or a single one is in the group itself.
            handlers = _list_mappings(group["hooks"]) if "hooks" in group else [group]
            for handler in handlers:
                hook = _build_hook(skill["name"], EVENTS[event], matcher, handler, len(found))
                found += [hook] if hook else []
    return found


def select_hooks(skills: Iterable[SkillMetadata], event: HookEvent, tool: str) -> list[Hook]:
    """The hooks of these skills that are for this event and tool, in order."""
    return [hook for skill in skills for hook in parse_hooks(skill) if hook.event == event and hook.matches_tool(tool)]


def _build_hook(skill: str, event: HookEvent, matcher: str, handler: Mapping[str, Any], number: int) -> Hook | None:
    kind = handler.get("type", "command")
    text = handler.get("command") if kind == "command" else handler.get("prompt")
    if kind not in {"command", "prompt"} or not isinstance(text, str) or not text.strip():
        logger.warning("Skill '%s' has a hook of type %r that is not supported or empty", skill, kind)
        return None
    once = str(handler.get("once", "")).lower() in {"true", "yes", "on", "1"}
    # The text is part of the id: a changed hook is a new one.
    name = f"{skill}:{event}:{number}:{text}"
    return Hook(name, skill, event, matcher, "command" if kind == "command" else "prompt", text.strip(), once)


def _list_mappings(value: object) -> list[Mapping[str, Any]]:
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
    return [cast("Mapping[str, Any]", item) for item in items if isinstance(item, Mapping)]


BLOCK_EXIT_CODE = 2
"""The exit code with which a command blocks a call, or comments on its result."""


@dataclass(frozen=True, slots=True)
class HookRun:
    """A command of a hook. `payload` is its stdin, `files` are the files of its skill by relative path."""

    command: str
    skill: str
    payload: str
    thread: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


@dataclass(frozen=True, slots=True)
class HookResult:
    """The result of a hook command."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""


class HookRunner(Protocol):
    """Runs commands of hooks, which are untrusted, in isolation; `ExecutorHooks` is an implementation."""

    async def run(self, run: HookRun) -> HookResult:
        """Run a command to completion. Raises when it cannot be run, preferably a `SkillError`."""
        ...


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """The outcome of hooks: why the call is `blocked`, `notes` for the model, and ids of `done` one-time hooks."""

    blocked: str | None = None
    notes: tuple[str, ...] = ()
    done: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HookCall:
    """The tool call that hooks run for; `tool` is the source of a `SessionStart`."""

    event: HookEvent
    tool: str
    arguments: Mapping[str, Any]
    skills: Mapping[str, SkillMetadata]
    resources: Mapping[str, Sequence[ResourceMetadata]]
    thread: str = ""
    result: str | None = None

    def build_payload(self) -> str:
        """The JSON that a command reads from stdin: the event, the tool, its input and, afterwards, its result."""
        fields: dict[str, Any] = {"hook_event_name": self.event, "session_id": self.thread}
        if self.event == "SessionStart":
            fields["source"] = self.tool
        else:
            fields |= {"tool_name": self.tool, "tool_input": dict(self.arguments)}
        if self.result is not None:
            fields["tool_response"] = self.result
        return json.dumps(fields, ensure_ascii=False, default=str)


def run_hooks(hooks: Sequence[Hook], call: HookCall, runner: HookRunner) -> Steps[HookOutcome]:
    """Run hooks in order, up to the first that blocks."""
    notes: list[str] = []
    done: list[str] = []
    for hook in hooks:
        done += [hook.id] if hook.once else []
        if hook.kind == "prompt":
            notes.append(f"[{hook.skill}] {hook.text}")
            continue
        objection = yield from _run_command(hook, call, runner)
        if objection and call.event == "PreToolUse":
            blocked = f"Error: The skill '{hook.skill}' does not allow this call: {objection}"
            return HookOutcome(blocked, done=tuple(done))
        notes += [f"[{hook.skill}] {objection}"] if objection else []
    return HookOutcome(None, tuple(notes), tuple(done))


def run_session_hooks(skills: Iterable[SkillMetadata], runner: HookRunner, thread: str) -> Steps[tuple[str, ...]]:
    """Run the `SessionStart` hooks of skills; returns what they say to the model."""
    notes: list[str] = []
    for skill in skills:
        hooks = select_hooks([skill], "SessionStart", SESSION_SOURCE)
        if hooks:
            name = skill["name"]
            files = yield from discover_resources(str(PurePosixPath(skill["path"]).parent), name)
            call = HookCall("SessionStart", SESSION_SOURCE, {}, {name: skill}, {name: files}, thread)
            notes += (yield from run_hooks(hooks, call, runner)).notes
    return tuple(notes)


def _run_command(hook: Hook, call: HookCall, runner: HookRunner) -> Steps[str | None]:
    """What a command says to the model: its objection to a call, or its output at the start of a thread.

    A command that could not be run blocks the call.
    """
    files = yield from _download_resources(call.skills[hook.skill], call.resources.get(hook.skill, ()))
    run = HookRun(hook.text, hook.skill, call.build_payload(), call.thread, files)
    end = yield from await_result(lambda: runner.run(run))
    if isinstance(end, BackendFailure):
        why = end.error.message if isinstance(end.error, SkillError) else str(end)
        return f"its hook could not be run ({why})"
    if end.exit_code == BLOCK_EXIT_CODE:
        return end.stderr.strip() or "no reason was given"
    if end.exit_code != 0:
        logger.warning(
            "A hook of skill '%s' exited with code %d: %s", hook.skill, end.exit_code, end.stderr.strip()[:1000]
        )
    return end.stdout.strip() or None if call.event == "SessionStart" else None


def _download_resources(skill: SkillMetadata, resources: Sequence[ResourceMetadata]) -> Steps[dict[str, bytes]]:
    folder = PurePosixPath(skill["path"]).parent
    paths = [resource["path"] for resource in resources]
    answers = yield from download_files(paths, tolerant=True)
    found: dict[str, bytes] = {}
    for path, answer in zip(paths, answers, strict=True):
        if answer.content is not None and PurePosixPath(path).is_relative_to(folder):
            found[str(PurePosixPath(path).relative_to(folder))] = answer.content
    return found


_LIMITS = Limits(timeout=60.0, output_bytes=64 * 1024)


@check_arguments
@dataclass(frozen=True, slots=True)
class ExecutorHooks:
    """A `HookRunner` that runs each command with `bash`, in a folder with the files of its skill.

    Each thread has its own workspace. Close the executor when you are done with the agent.
    """

    executor: Executor
    limits: Limits = _LIMITS

    async def run(self, run: HookRun) -> HookResult:
        key = hashlib.blake2b(run.thread.encode(), digest_size=12).hexdigest()
        workspace = await self.executor.open(f"hooks-{key}")
        folder = f"work/{run.skill}"
        await workspace.make_directory(folder)
        for path, data in run.files.items():
            await workspace.write(f"{folder}/{path}", data, executable=path.startswith("scripts/"))
        argv = ("bash", "-c", run.command)
        process = await workspace.start(
            Command(argv, cwd=folder, stdin=run.payload.encode(), limits=self.limits, run_dir="runs/hooks")
        )
        ended = await process.wait()
        return HookResult(ended.exit_code, ended.stdout.text(), ended.stderr.text())
