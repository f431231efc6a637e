"""Answers of the rule model, in English and Chinese."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from openskills.agent.rules.commands import CommandInstance, find_assumed_values
from openskills.agent.rules.routing import Route, RouteReason
from openskills.agent.rules.turn import TurnStep
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.prompt.blocks import to_one_line
from openskills.prompt.history import get_items, get_string, parse_json_object


@dataclass(frozen=True, slots=True)
class Phrases:
    """All sentences in one language, for `str.format`."""

    ran: str
    tried: str
    where: str
    not_isolated: str
    printed: str
    wrote: str
    more_lines: str
    nothing_printed: str
    kept: str
    files: str
    exit_code: str
    timed_out: str
    refused: str
    again: str
    undone: str
    not_loaded: str
    needs: Mapping[str, str]
    needs_other: str
    assumed: str
    ask_again: str
    no_runner: str
    no_command: str
    says: str
    no_load: str
    interrupted: str
    nothing_fits: str
    unknown: str
    nearest: str
    there_are: str
    others: str
    name_one: str
    no_skills: str
    no_request: str
    chosen: Mapping[RouteReason, str]
    signed: str
    unread: str
    unsigned: str


ENGLISH = Phrases(
    ran="I ran this command of the skill {skill}{where}: `{command}`",
    tried="I wanted to run this command of the skill {skill}: `{command}`",
    where=" ({isolation}, {milliseconds} ms)",
    not_isolated="not isolated",
    printed="It printed:",
    wrote="It wrote {name}:",
    more_lines="({count} more lines)",
    nothing_printed="It ended without an error and printed nothing.",
    kept="Kept: {refs}",
    files="Files: {refs}",
    exit_code="It ended with exit code {code}, not 0.",
    timed_out="It took too long and was stopped.",
    refused="It was not run: {why}",
    again="This is the skill's own output. If it reports an error, fix the file or the request and ask again.",
    undone="Not done yet, because a turn runs at most two commands: {files}. Ask again for them.",
    not_loaded="The skill {skill} could not be loaded: {why}",
    needs={
        "file": "The skill {skill} needs a file. Attach one and ask again.",
        "formula": "The skill {skill} needs something to compute, such as `2 * (3 + 4)`. Write it and ask again.",
        "numbers": "The skill {skill} needs numbers, and the request has none. Write them and ask again.",
    },
    needs_other="This needs a language model: `{command}` of the skill {skill} has no value for {what}.",
    assumed="Taken from the example in the skill's text, not from the request: {values}",
    ask_again="Run it yourself, or choose another model.",
    no_runner="Commands cannot be run here, so nothing was done. The skill {skill} begins:",
    no_command="This needs a language model: the skill {skill} has no command that a rule could run. It begins:",
    says="The skill {skill} answered:",
    no_load="The skill {skill} fits, but skills cannot be loaded here, so nothing was done.",
    interrupted="The last step has no result, so its outcome is unknown. Ask again to repeat it.",
    nothing_fits="No skill here clearly fits this request, so nothing was done.",
    unknown="Unknown skill {name}; nothing was done.",
    nearest="The nearest skills:",
    there_are="The skills here:",
    others="{count} more",
    name_one="Start a request with `${name}` to choose one.",
    no_skills="No skills are installed, so nothing can be done.",
    no_request="The request is empty. Say what to do.",
    chosen={
        RouteReason.NAMED: "the request names it",
        RouteReason.RULE: "the request has a word for skills like it ({detail})",
        RouteReason.SEARCH: "it shares the most words with the request",
        RouteReason.LOADED: "it was loaded already",
    },
    signed="A rule chose {skill}, not a language model: {why}.",
    unread=" The result was not checked.",
    unsigned="This is an answer of rules, not of a language model.",
)

CHINESE = Phrases(
    ran="我运行了技能 {skill} 的命令{where}：`{command}`",
    tried="我想运行技能 {skill} 的命令：`{command}`",
    where="（{isolation}，{milliseconds} 毫秒）",
    not_isolated="没有隔离",
    printed="它的输出：",
    wrote="它写出了 {name}：",
    more_lines="（还有 {count} 行）",
    nothing_printed="命令正常结束，没有输出。",
    kept="已保存：{refs}",
    files="文件：{refs}",
    exit_code="命令结束，退出码是 {code}，不是 0。",
    timed_out="命令超时，已被终止。",
    refused="命令没有运行：{why}",
    again="以上是技能脚本自己的话。如果指出了错误，请修正文件或请求后再试一次。",
    undone="每一轮最多运行两次，因此还没有处理：{files}。请再发一次请求。",
    not_loaded="技能 {skill} 无法加载：{why}",
    needs={
        "file": "技能 {skill} 需要一个文件，但这次没有。请附上文件后再试一次。",
        "formula": "技能 {skill} 需要一个算式，例如 `2 * (3 + 4)`。请写出来后再试一次。",
        "numbers": "技能 {skill} 需要数字，但请求里没有。请写出数字后再试一次。",
    },
    needs_other="规则不知道该在技能 {skill} 的 `{command}` 里为 {what} 填什么。",
    assumed="以下取自技能说明里的例子，而不是请求：{values}",
    ask_again="请自己运行它，或者使用语言模型。",
    no_runner="这里不能运行命令，所以什么都没有做。技能 {skill} 的说明开头是：",
    no_command="技能 {skill} 是写给语言模型的说明，没有规则可以运行的命令。它的开头是：",
    says="技能 {skill} 的回答：",
    no_load="技能 {skill} 合适，但这里不能加载技能，所以什么都没有做。",
    interrupted="上一步没有结果，因此不知道它做了什么。请再发一次请求来重做。",
    nothing_fits="这里没有明显适合这个请求的技能，所以什么都没有做。",
    unknown="没有名为 {name} 的技能，所以什么都没有做。",
    nearest="最接近的技能：",
    there_are="这里的技能：",
    others="另外 {count} 个",
    name_one="在请求前写上 `${name}` 就可以自己指定技能。",
    no_skills="这里没有任何技能，无法完成请求。",
    no_request="没有请求。请说明要做什么。",
    chosen={
        RouteReason.NAMED: "请求里写了它的名字",
        RouteReason.RULE: "请求里有代表这类技能的词（{detail}）",
        RouteReason.SEARCH: "在所有技能中，它与请求的用词最接近",
        RouteReason.LOADED: "它已经加载",
    },
    signed="{skill} 由规则选定，不是语言模型：{why}。",
    unread="结果没有人读过。",
    unsigned="这是规则的回答，不是语言模型的回答。",
)


_MAX_DESCRIPTION_CHARS = 100
_MAX_LISTED = 5


def add_signature(text: str, say: Phrases, route: Route, *, ran: bool = False) -> str:
    """Add why the skill was chosen and, after a run, that its result was not checked."""
    if route.skill is None:
        return f"{text}\n\n{say.unsigned}"
    why = say.chosen[route.reason].format(detail=route.detail)
    said = say.signed.format(skill=route.skill, why=why)
    return f"{text}\n\n{said}{say.unread if ran else ''}"


def describe_no_match(route: Route, skills: CatalogSnapshot, say: Phrases) -> str:
    """Say that no skill was chosen, with the nearest or the first skills."""
    if not skills.skills:
        return say.no_skills
    names = route.near or tuple(skill.name for skill in skills.skills)[:_MAX_LISTED]
    listed = [f"- {name}: {_shorten(skills.get(name).description)}" for name in names]
    others = len(skills.skills) - len(names)
    lines = "\n".join([*listed, *([f"- {say.others.format(count=others)}"] if others else [])])
    said = say.unknown.format(name=route.detail) if route.reason is RouteReason.UNKNOWN else say.nothing_fits
    head = say.nearest if route.near else say.there_are
    return f"{said}\n\n{head}\n\n{lines}\n\n{say.name_one.format(name=names[0])}"


def describe_missing(ready: CommandInstance, skill: str, say: Phrases) -> str:
    """Say what is missing to run a command."""
    known = [say.needs[what].format(skill=skill) for what in ready.missing if what in say.needs]
    other = [what for what in ready.missing if what not in say.needs]
    if other:
        unknown = say.needs_other.format(what=", ".join(other), command=ready.command, skill=skill)
        known.append(f"{unknown} {say.ask_again}")
    return "\n\n".join(known)


def _shorten(description: str) -> str:
    line = to_one_line(description)
    return line if len(line) <= _MAX_DESCRIPTION_CHARS else f"{line[:_MAX_DESCRIPTION_CHARS].rstrip()}…"


_MAX_LINES = 24
_MAX_CHARACTERS = 2_000
_READABLE = ("text/plain", "text/markdown", "text/csv", "application/json")


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The result of `skill_run`: its data, or why the command was not run."""

    data: Mapping[str, object]
    refused: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the command succeeded."""
        return not self.refused and self.data.get("exit_code") == 0 and self.data.get("timed_out") is not True


def parse_outcome(step: TurnStep) -> CommandOutcome:
    """Parse the result of a call."""
    text = (step.result or "").strip()
    data = parse_json_object(text)
    if "exit_code" in data:
        return CommandOutcome(data)
    return CommandOutcome({}, text.removeprefix("error:").strip() or "?")


def describe_run(step: TurnStep, say: Phrases, request: str = "") -> str:
    """What was run, its output and files, or why it failed; and which values come from the skill's example."""
    found = parse_outcome(step)
    command = " ".join(get_string(step.arguments, "command").split())
    about = {"skill": get_string(step.arguments, "skill"), "command": command}
    if found.refused:
        return f"{say.tried.format(**about)}\n\n{say.refused.format(why=found.refused)}"
    isolation, took = get_string(found.data, "isolation"), found.data.get("duration_ms")
    shown = say.not_isolated if isolation == "none" else isolation
    where = say.where.format(isolation=shown, milliseconds=took) if isolation else ""
    values = ", ".join(find_assumed_values(about["command"], request))
    parts = [say.ran.format(**about, where=where), say.assumed.format(values=values) if values else ""]
    parts += (_describe_success if found.is_success else _describe_failure)(found.data, say)
    return "\n\n".join(part for part in parts if part)


def quote_block(text: str, say: Phrases) -> str:
    """The beginning of a text, indented, so that it is not taken for code to run."""
    lines = text[:_MAX_CHARACTERS].strip("\n").split("\n")
    shown = [f"    {line}".rstrip() for line in lines[:_MAX_LINES]]
    left = len(text.strip("\n").split("\n")) - len(shown)
    return "\n".join([*shown, *([f"    {say.more_lines.format(count=left)}"] if left > 0 else [])])


def _describe_success(data: Mapping[str, object], say: Phrases) -> Iterator[str]:
    primary = parse_json_object(data.get("primary_output"))
    content, stdout = get_string(primary, "content"), get_string(data, "stdout").strip("\n")
    if content and (get_string(primary, "mime_type").split(";")[0] in _READABLE or not stdout):
        yield f"{say.wrote.format(name=get_string(primary, 'name'))}\n\n{quote_block(content, say)}"
    elif stdout:
        yield f"{say.printed}\n\n{quote_block(stdout, say)}"
    elif not _list_refs(data, "output_files"):
        yield say.nothing_printed
    yield from _describe_files(data, say)


def _describe_failure(data: Mapping[str, object], say: Phrases) -> Iterator[str]:
    yield say.timed_out if data.get("timed_out") is True else say.exit_code.format(code=data.get("exit_code"))
    told = get_string(data, "stderr").strip("\n") or get_string(data, "stdout").strip("\n")
    warnings = [text for text in get_items(data.get("warnings")) if isinstance(text, str)]
    if told or warnings:
        yield quote_block("\n".join([*([told] if told else []), *warnings]), say)
    yield from _describe_files(data, say)
    yield say.again


def _describe_files(data: Mapping[str, object], say: Phrases) -> Iterator[str]:
    kept, made = _list_refs(data, "artifact_files"), _list_refs(data, "output_files")
    if kept:
        yield say.kept.format(refs=", ".join(kept))
    elif made:
        yield say.files.format(refs=", ".join(made))


def _list_refs(data: Mapping[str, object], name: str) -> list[str]:
    return [ref for one in cast("list[object]", get_items(data.get(name))) if (ref := get_string(one, "ref"))]
