"""The input of a hosted skill, as far as a request in words says it. What it does not say is asked for. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from openskills.catalog.words import squeeze
from openskills.host.calling.route_numbers import compared, numbers_of, operations_in, without_percentiles

_QUOTED = re.compile("\"([^\"\n]+)\"|“([^”\n]+)”|「([^」\n]+)」|『([^』\n]+)』|`([^`\n]+)`|《([^》\n]+)》|'([^'\n]+)'")
_ECHO = re.compile(r"\A\s*echo\s*[:：]\s?", re.IGNORECASE)
_VERB = re.compile(
    r"(?<![a-z])(?:find|grep|search(?:es)?(?:\s+for)?|look\s+for)(?![a-z])|搜索|检索|查找", re.IGNORECASE
)
_FILLER = re.compile(
    r"\A(?:for|the|a|an|all|any|every|files?|lines?|text|words?|that|which|with|about|containing|contains?|mentions?|"
    r"mentioning|say(?:ing)?|一下|下|所有|全部|包含|含有|关于|有关|提到|文件|内容|中|里|的)(?![a-z])[\s:：，,]*",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"(?:相关)?的?(?:文件|文档|内容|资料)?[\s。！？!?.,，；;]*\Z|\s+(?:in|from|of)\s+(?:the\s+|my\s+|all\s+)?(?:files?|docs?|documents?|data)"
    r"[\s.!?]*\Z",
    re.IGNORECASE,
)
_GLOB = re.compile(r"(?:(?<!\S)(?:in|of|from|under)\s+)?(?<!\S)(?P<glob>[\w./-]*[*?][\w.*?/\[\]{},-]*)", re.ASCII)
_WITHIN = re.compile(
    r"(?:(?<![a-z])(?:in|under|below|within|inside)\s+|在\s*)(?P<path>(?:\./)?[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.-]+)*/?)"
    r"(?P<after>\s*(?:目录|文件夹)?(?:下|里|中|内)?面?)",
    re.IGNORECASE,
)
_PATH = re.compile(r"(?<![A-Za-z0-9_./-])(?:\.{0,2}/)?(?:[A-Za-z0-9_.-]+/)*[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_LOG_NAME = re.compile(r"/|\.(?:log|txt|out|err|jsonl|json|ndjson|csv|gz)(?:\.\d+)?\Z", re.IGNORECASE)
_LIMIT = re.compile(
    r"(?:(?<![a-z])(?:limit|top|first|at most)(?![a-z])|最多|前)\s*[:=]?\s*(\d{1,6})(?!\d)", re.IGNORECASE
)
_TO_FILE = re.compile(r"(?:in|to|as)(?:to)?\s+a\s+file|(?<![a-z])save(?![a-z])|写入|写到|保存|导出|存成", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a request says of an input; `missing` are fields with a sentence that asks for each."""

    input: Mapping[str, Any] = field(default_factory=dict[str, Any])
    missing: Mapping[str, str] = field(default_factory=dict[str, str])


def extracted(skill_id: str, text: str) -> Extracted | None:
    """The input for one of the skills of the mission; None for a skill of which nobody knows how to read a request."""
    reader = _READERS.get(squeeze(skill_id))
    return reader(text) if reader is not None else None


def _echo(text: str) -> Extracted:
    said = _ECHO.sub("", text)
    return (
        Extracted({"text": said}) if said.strip() else Extracted(missing={"text": "what to say, as in 'echo: hello'"})
    )


def _file_search(text: str) -> Extracted:
    found: dict[str, Any] = {}
    rest = _quoted(text)
    query = rest or ""
    if limit := _LIMIT.search(text):
        found["limit"] = int(limit[1])
    if glob := _GLOB.search(text):
        found["glob"] = glob["glob"].rstrip(",")
    within = _within(text)
    if within is not None:
        found["root_dir"] = within["path"]
    if not query:
        for match in (limit, glob, within):
            text = text.replace(match.group(), " ", 1) if match is not None else text
        query = _query(text)
    if not query:
        return Extracted(found, {"query": 'what to look for, as in: find "openSkill" in data/docs'})
    return Extracted({"query": query, **found})


def _within(text: str) -> re.Match[str] | None:
    # `in docs` may be a part of what is looked for; a path says so by its slash, or in Chinese by what follows it.
    return next((m for m in _WITHIN.finditer(text) if "/" in m["path"] or m["after"].strip()), None)


def _query(text: str) -> str:
    verb = _VERB.search(text)
    text = (text[verb.end() :] if verb else text).strip(" \t\n:：，,")
    while filler := _FILLER.match(text):
        text = text[filler.end() :]
    return " ".join(_TAIL.sub("", text).split())


def _calculator(text: str) -> Extracted:
    operations = operations_in(text)
    numbers, doubt = numbers_of(without_percentiles(text))
    missing: dict[str, str] = {}
    found: dict[str, Any] = {}
    if doubt or not numbers:
        missing["numbers"] = doubt or "which numbers, as in: mean of 10.5, 9.9, 11.2"
    else:
        found["numbers"] = numbers
    if compared(text) and not doubt:
        if len(numbers) == 2:
            found["compare"] = {"a": numbers[0], "b": numbers[1]}
            # The skill wants at least one, and these are what a comparison is about.
            operations = operations or ["min", "max"]
        elif not operations:
            missing["compare"] = "two numbers to be compared, as in: compare 10 and 12"
    if operations:
        found["ops"] = operations
    elif "compare" not in missing:
        missing["ops"] = "what to compute: mean, median, mode, min, max, sum, count, range, variance, stdev or p90"
    return Extracted(found, missing)


def _log_transform(text: str) -> Extracted:
    paths = [quoted] if (quoted := _quoted(text)) else [one for one in _PATH.findall(text) if _LOG_NAME.search(one)]
    if len(set(paths)) != 1:
        some = f"one file of {', '.join(sorted(set(paths)))[:200]}" if paths else "which file"
        return Extracted(missing={"input_path": f"{some}, as in: parse ./data/logs/app.log"})
    found: dict[str, Any] = {"input_path": paths[0]}
    if paths[0].lower().endswith((".jsonl", ".ndjson")):
        found["format"] = "jsonl"
    if _TO_FILE.search(text):
        found["output"] = "file"
    if limit := _LIMIT.search(text):
        found["limit"] = int(limit[1])
    return Extracted(found)


def _quoted(text: str) -> str:
    match = _QUOTED.search(text)
    return next(part for part in match.groups() if part is not None) if match is not None else ""


_READERS: Mapping[str, Callable[[str], Extracted]] = {
    squeeze("echo"): _echo,
    squeeze("file_search"): _file_search,
    squeeze("calculator"): _calculator,
    squeeze("log_transform"): _log_transform,
}
