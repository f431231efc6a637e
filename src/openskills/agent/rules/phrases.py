"""Answers of the rule model, in English and Chinese."""

from collections.abc import Iterator, Mapping
from typing import cast

from openskills.agent.rules.commands import CommandInstance, SlotKind
from openskills.agent.rules.routing import Route, RouteReason
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.prompt.blocks import to_one_line
from openskills.prompt.history import get_items, get_string, parse_json_object

PHRASES = {
    "ran": (
        "I ran this command of the skill {skill} ({where}): `{command}`",
        "我运行了技能 {skill} 的命令（{where}）：`{command}`",
    ),
    "refused": (
        "`{command}` of the skill {skill} was not run: {why}",
        "技能 {skill} 的命令 `{command}` 没有运行：{why}",
    ),
    "printed": ("It printed:", "它的输出："),
    "wrote": ("It wrote {name}:", "它写出了 {name}："),
    "more_lines": ("({count} more lines)", "（还有 {count} 行）"),
    "silent": ("It ended without an error and printed nothing.", "命令正常结束，没有输出。"),
    "files": ("Files: {refs}", "文件：{refs}"),
    "exit_code": ("It ended with exit code {code}, not 0.", "命令结束，退出码是 {code}，不是 0。"),
    "timed_out": ("It took too long and was stopped.", "命令超时，已被终止。"),
    "unused": ("Not used: {files}. Ask again for them.", "还没有处理：{files}。请再发一次请求。"),
    "not_loaded": ("The skill {skill} could not be loaded: {why}", "技能 {skill} 无法加载：{why}"),
    "not_run": (
        "The example `{command}` of the skill {skill} was not run: the request has no {what}.",
        "技能 {skill} 的示例 `{command}` 没有运行：请求里没有{what}。",
    ),
    "file": ("file", "文件"),
    "formula": ("calculation", "算式"),
    "numbers": ("numbers", "数字"),
    "text": ("text in quotes", "引号中的文字"),
    "value": ("value for `{what}`", "`{what}` 的值"),
    "no_command": (
        "The skill {skill} has no command that a rule could run.",
        "技能 {skill} 没有规则可以运行的命令。",
    ),
    "no_runner": ("Commands cannot be run here.", "这里不能运行命令。"),
    "text_of": ("The text of the skill {skill}:", "技能 {skill} 的说明："),
    "needs_model": (
        "This needs a language model: choose one with `--model NAME` or OPENSKILL_MODEL, such as openai/gpt-5.",
        "这需要语言模型：请用 `--model 名称` 或 OPENSKILL_MODEL 选择一个，例如 openai/gpt-5。",
    ),
    "says": ("The skill {skill} answered:", "技能 {skill} 的回答："),
    "no_load": ("The skill {skill} fits, but skills cannot be loaded here.", "技能 {skill} 合适，但这里不能加载技能。"),
    "interrupted": ("The last step has no result. Ask again to repeat it.", "上一步没有结果。请再发一次请求来重做。"),
    "nothing_fits": ("No skill here clearly fits this request.", "这里没有明显适合这个请求的技能。"),
    "unknown": ("Unknown skill {name}; nothing was done.", "没有名为 {name} 的技能，所以什么都没有做。"),
    "name_one": ("Start a request with `${name}` to choose a skill:", "在请求前写上 `${name}` 就可以自己指定技能："),
    "no_skills": ("No skills are installed, so nothing can be done.", "这里没有任何技能，无法完成请求。"),
    "no_request": ("The request is empty. Say what to do.", "没有请求。请说明要做什么。"),
    RouteReason.NAMED: ("the request names it", "请求里写了它的名字"),
    RouteReason.RULE: ("the request has a word for skills like it ({detail})", "请求里有代表这类技能的词（{detail}）"),
    RouteReason.SEARCH: ("it fits the words of the request best", "它与请求的用词最接近"),
    RouteReason.LOADED: ("it was loaded already", "它已经加载"),
    "signed": (
        "A rule chose {skill}, not a language model: {why}.{unread}",
        "{skill} 由规则选定，不是语言模型：{why}。{unread}",
    ),
    "unread": (" The result was not checked.", "结果没有人读过。"),
    "unsigned": ("This is an answer of rules, not of a language model.", "这是规则的回答，不是语言模型的回答。"),
}
"""Every sentence in English and Chinese, for `str.format`."""

_MAX_DESCRIPTION_CHARS = 100
_MAX_LISTED = 5
_MAX_LINES = 24
_MAX_CHARACTERS = 2_000
_MAX_SKILL_LINES = 200
_MAX_SKILL_CHARACTERS = 16_000
_READABLE = ("text/plain", "text/markdown", "text/csv", "application/json")


class Phrasebook:
    """Builds answers in one language."""

    def __init__(self, *, chinese: bool) -> None:
        self._language = int(chinese)

    def say(self, phrase: str, **values: object) -> str:
        """One sentence of `PHRASES`."""
        return PHRASES[phrase][self._language].format(**values)

    def add_signature(self, text: str, route: Route, *, ran: bool = False) -> str:
        """Add why the skill was chosen and, after a run, that its result was not checked."""
        if route.skill is None:
            return f"{text}\n\n{self.say('unsigned')}"
        why, unread = self.say(route.reason, detail=route.detail), self.say("unread") if ran else ""
        return f"{text}\n\n{self.say('signed', skill=route.skill, why=why, unread=unread)}"

    def describe_no_match(self, route: Route, skills: CatalogSnapshot) -> str:
        """Say that no skill was chosen, with the nearest or the first skills, and how to choose a language model."""
        if not skills.skills:
            return self.say("no_skills")
        names = route.near or tuple(skill.name for skill in skills.skills)[:_MAX_LISTED]
        lines = [f"- {name}: {_shorten(skills.get(name).description)}" for name in names]
        if route.reason is RouteReason.UNKNOWN:
            head = self.say("unknown", name=route.detail)
        else:
            head = f"{self.say('nothing_fits')} {self.say('needs_model')}"
        return "\n".join([head, "", self.say("name_one", name=names[0]), "", *lines])

    def describe_missing(self, ready: CommandInstance, skill: str) -> str:
        """Say what the request does not have for the example of a command. Nothing is said about what a skill needs."""
        kinds = {str(kind) for kind in SlotKind}
        missing = [self.say(what) if what in kinds else self.say("value", what=what) for what in ready.missing]
        joined = ("、" if self._language else ", no ").join(missing)
        return self.say("not_run", command=ready.example, skill=skill, what=joined)

    def quote_skill(self, reason: str, skill: str, body: str, *, needs_model: bool = True) -> str:
        """A reason why nothing was run, and the text of the skill."""
        head = f"{self.say('needs_model')} {reason}" if needs_model else reason
        text = self.quote_block(body, _MAX_SKILL_LINES, _MAX_SKILL_CHARACTERS)
        return f"{head}\n\n{self.say('text_of', skill=skill)}\n\n{text}"

    def describe_run(self, arguments: Mapping[str, object], result: str) -> str:
        """What was run, its output and files, or why it failed."""
        data = parse_json_object(result)
        command = " ".join(get_string(arguments, "command").split())
        about = {"skill": get_string(arguments, "skill"), "command": command}
        if "exit_code" not in data:
            return self.say("refused", **about, why=result.strip().removeprefix("error:").strip() or "?")
        where = f"{get_string(data, 'isolation')}, {data.get('duration_ms')} ms"
        well = data.get("exit_code") == 0 and data.get("timed_out") is not True
        parts = self._describe_success(data) if well else self._describe_failure(data)
        refs = _list_refs(data, "artifact_files") or _list_refs(data, "output_files")
        files = [self.say("files", refs=", ".join(refs))] if refs else []
        return "\n\n".join([self.say("ran", **about, where=where), *parts, *files])

    def quote_block(self, text: str, max_lines: int = _MAX_LINES, max_characters: int = _MAX_CHARACTERS) -> str:
        """The beginning of a text, indented, so that it is not taken for code to run."""
        lines = text[:max_characters].strip("\n").split("\n")
        shown = [f"    {line}".rstrip() for line in lines[:max_lines]]
        left = len(text.strip("\n").split("\n")) - len(shown)
        return "\n".join([*shown, *([f"    {self.say('more_lines', count=left)}"] if left > 0 else [])])

    def _describe_success(self, data: Mapping[str, object]) -> Iterator[str]:
        primary = parse_json_object(data.get("primary_output"))
        content, stdout = get_string(primary, "content"), get_string(data, "stdout").strip("\n")
        if content and (get_string(primary, "mime_type").split(";")[0] in _READABLE or not stdout):
            yield f"{self.say('wrote', name=get_string(primary, 'name'))}\n\n{self.quote_block(content)}"
        elif stdout:
            yield f"{self.say('printed')}\n\n{self.quote_block(stdout)}"
        elif not _list_refs(data, "output_files"):
            yield self.say("silent")

    def _describe_failure(self, data: Mapping[str, object]) -> Iterator[str]:
        timed_out = data.get("timed_out") is True
        yield self.say("timed_out") if timed_out else self.say("exit_code", code=data.get("exit_code"))
        told = get_string(data, "stderr").strip("\n") or get_string(data, "stdout").strip("\n")
        warnings = [text for text in get_items(data.get("warnings")) if isinstance(text, str)]
        if told or warnings:
            yield self.quote_block("\n".join([*([told] if told else []), *warnings]))


def _shorten(description: str) -> str:
    line = to_one_line(description)
    return line if len(line) <= _MAX_DESCRIPTION_CHARS else f"{line[:_MAX_DESCRIPTION_CHARS].rstrip()}…"


def _list_refs(data: Mapping[str, object], name: str) -> list[str]:
    return [ref for one in cast("list[object]", get_items(data.get(name))) if (ref := get_string(one, "ref"))]
