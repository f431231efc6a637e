"""Routes a request in natural language to a hosted skill, and extracts its input; English and Chinese.

A skill is chosen by fixed rules, by search, or is the default. Ambiguous numbers are not guessed, and missing input is
reported.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from openskills.agent.rules.routing import RULES, RoutingRule, fits_request
from openskills.arguments import check_arguments
from openskills.catalog.search import SearchIndex
from openskills.catalog.skill import Skill
from openskills.catalog.vocabulary import squeeze
from openskills.errors import InvalidArgument
from openskills.skillmd.manifest import SkillManifest
from openskills.telemetry.context import bind

DEFAULT_SKILL = "echo"
COMMANDS = (
    "echo: TEXT",
    "find TEXT / 搜索 TEXT",
    "mean, median, min, max of NUMBERS / 平均 NUMBERS",
    "parse PATH of a log / 转换日志 PATH",
)
"""Examples of requests that the rules understand."""
_LOG = logging.getLogger("openskills.host.client.router")
_MAX_CHARACTERS = 4_000
_MAX_HITS = 10
_MAX_SUGGESTIONS = 3


class RouteStage(StrEnum):
    """How a skill was chosen: by a rule, by search in the host or in SKILL.md folders (`CATALOG`), or by default."""

    RULE = "rule"
    SEARCH = "search"
    CATALOG = "catalog"
    DEFAULT = "default"


@check_arguments
@dataclass(frozen=True, slots=True)
class RoutableSkill:
    """A skill of the host for routing."""

    id: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class RouteDecision:
    """The skill for a request, and why. `detail` is the matched word of a rule.

    `hosted` says whether the host has the skill; None if it is unknown. `near` are other matching skills, `notes`
    further remarks.
    """

    selected_skill_id: str
    stage: RouteStage
    detail: str = ""
    hosted: bool | None = None
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_understood(self) -> bool:
        return self.stage is not RouteStage.DEFAULT

    @property
    def routing_reason(self) -> str:
        """The reason for logs: the matched word of a rule, or the stage; nothing else that the user wrote."""
        return f"rule:{self.detail}" if self.stage is RouteStage.RULE else str(self.stage)


@check_arguments
class Router:
    """Chooses skills. `hosted` are those of the host (None if unknown), `catalog` those of SKILL.md folders."""

    def __init__(self, hosted: Sequence[RoutableSkill] | None, catalog: Sequence[Skill] = ()) -> None:
        self._hosted = hosted
        self._ids = {squeeze(one.id): one.id for one in reversed(hosted or ())}
        described = [SkillManifest(one.id, one.description) for one in hosted or ()]
        self._search = SearchIndex([Skill(manifest, directory="", source="host") for manifest in described])
        self._catalog = SearchIndex([skill for skill in catalog if squeeze(skill.name) not in self._ids])

    def choose(self, text: str, *, trace_id: str | None = None) -> RouteDecision:
        """The skill for a request: the first matching rule, else search, else the default. Logs the decision.

        Raises `InvalidArgument` for an empty text.
        """
        if not text.strip():
            raise InvalidArgument("text", "is empty; write a request such as 'echo: hello'")
        text = text[:_MAX_CHARACTERS]
        with bind(trace_id):
            chosen = self._decide(text)
            fields = {"selected_skill_id": chosen.selected_skill_id, "routing_reason": chosen.routing_reason}
            _LOG.info("routed to %s by %s", chosen.selected_skill_id, chosen.stage, extra=fields)
        return chosen

    def _decide(self, text: str) -> RouteDecision:
        fitting = list(_match_rules(text))
        known = [(self._find_rule_skill(rule), word) for rule, word in fitting]
        found = [(skill_id, word) for skill_id, word in known if skill_id]
        notes = tuple(
            f"the rule for {rule.skill_id} matches {word!r}, but the host does not have this skill"
            for (rule, word), (skill_id, _) in zip(fitting, known, strict=True)
            if not skill_id
        )
        if found:
            near = tuple(skill_id for skill_id, _ in found[1:])
            asked = None if self._hosted is None else True
            return RouteDecision(found[0][0], RouteStage.RULE, found[0][1], asked, near, notes)
        return self._route_by_search(text, notes)

    def _find_rule_skill(self, rule: RoutingRule) -> str:
        return rule.skill_id if self._hosted is None else self._ids.get(squeeze(rule.skill_id), "")

    def _route_by_search(self, text: str, notes: tuple[str, ...]) -> RouteDecision:
        hosted, found = (_find_matches(index, text) for index in (self._search, self._catalog))
        if hosted:
            return RouteDecision(
                hosted[0], RouteStage.SEARCH, "", True, (*hosted[1:], *found)[:_MAX_SUGGESTIONS], notes
            )
        if found:
            return RouteDecision(found[0], RouteStage.CATALOG, "", False, tuple(found[1 : _MAX_SUGGESTIONS + 1]), notes)
        default = self._ids.get(DEFAULT_SKILL)
        asked = None if self._hosted is None else default is not None
        return RouteDecision(default or DEFAULT_SKILL, RouteStage.DEFAULT, "", asked, (), notes)


def _match_rules(text: str) -> Iterator[tuple[RoutingRule, str]]:
    for rule in RULES:
        words = (match.group() for match in rule.pattern.finditer(text))
        # The rules also match `17 * 23`, for agents; the hosted calculator only does statistics.
        word = next((word for word in words if not any(map(str.isdigit, word))), None)
        if word is not None:
            yield rule, word.strip().lower().replace("：", ":")


def _find_matches(index: SearchIndex, text: str) -> list[str]:
    """The skills that fit a request, best first."""
    return [hit.skill.name for hit in index.search(text, _MAX_HITS) if fits_request(hit, text)]


_OPERATIONS = (
    ("mean", "means? averages? avg", "平均 均值"),
    ("median", "medians?", "中位数 中值"),
    ("modes", "modes", ""),
    ("mode", "mode", "众数"),
    ("min", "min minimum smallest lowest least", "最小 最低"),
    ("max", "max maximum largest highest biggest", "最大 最高"),
    ("sum", "sum total", "总和 求和 合计 总计 之和"),
    ("count", "count", "个数 计数"),
    ("range", "range", "极差"),
    ("stdev", r"stdev stddev std standard\s+deviation", "标准差"),
    ("variance", "variance", "方差"),
)
_COMPARE = re.compile(r"(?<![a-z])compare(?![a-z])|比较|对比", re.IGNORECASE)
_RANK = r"\d{1,3}(?:\.\d{1,6})?"
_PERCENTILE = re.compile(
    rf"(?<![a-z0-9])p({_RANK})(?![\w.])|(?<![\d.])({_RANK})\s*(?:th|st|nd|rd)?\s*percentiles?|第?\s*(?<![\d.])({_RANK})\s*百?分位数?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.,])[-+−]?(?:\d+(?:\.\d+)?|\.\d+)(?![\w.]*\d|[A-Za-z_%‰])", re.ASCII)
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])", re.ASCII)
_JOINED = re.compile(r"\S*\d[-–—/:*×^+]\d\S*")
_LIST = re.compile(r"(?<=\d),(?=[-+−.]?\d)")


def find_operations(text: str) -> list[str]:
    found = [(match.start(), operation) for operation, pattern in _PATTERNS for match in pattern.finditer(text)]
    found += [
        (match.start(), f"p{_percentile_rank(match)}")
        for match in _PERCENTILE.finditer(text)
        if float(_percentile_rank(match)) <= 100
    ]
    return list(dict.fromkeys(operation for _, operation in sorted(found)))


def remove_percentiles(text: str) -> str:
    return _PERCENTILE.sub(" ", text)


def is_comparison(text: str) -> bool:
    return _COMPARE.search(text) is not None


def find_numbers(text: str) -> tuple[list[int | float], str]:
    """The numbers of a request, or a message that asks for another form."""
    grouped = _GROUPED.search(text)
    if grouped is not None:
        again = grouped.group()
        return [], f"{again!r} is ambiguous; write {again.replace(',', '')} or {again.replace(',', ', ')}"
    text = _LIST.sub(", ", text)
    rest = _NUMBER.sub(" ", text)
    strange = _JOINED.search(text) or re.search(r"\S*\d\S*", rest)
    if strange is not None:
        return [], f"{strange.group()[:40]!r} is not a plain number; write numbers like 10.5, without units"
    return [_parse_number(match) for match in _NUMBER.findall(text)], ""


def _parse_number(text: str) -> int | float:
    text = text.replace("−", "-")
    return float(text) if "." in text else int(text)


def _percentile_rank(match: re.Match[str]) -> str:
    return next(part for part in match.groups() if part is not None)


def _build_pattern(english: str, chinese: str) -> re.Pattern[str]:
    words = "|".join(english.split(" "))
    parts = [rf"(?<![a-z])(?:{words})(?![a-z])", *chinese.split()]
    return re.compile("|".join(parts), re.IGNORECASE)


_PATTERNS = [(operation, _build_pattern(english, chinese)) for operation, english, chinese in _OPERATIONS]


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
class PartialInput:
    """The input found in a request; `missing` maps missing fields to what to provide."""

    input: Mapping[str, Any] = field(default_factory=dict[str, Any])
    missing: Mapping[str, str] = field(default_factory=dict[str, str])


def extract_input(skill_id: str, text: str) -> PartialInput | None:
    """Extract the input for one of the four hosted example skills from a request; None for any other skill."""
    reader = _EXTRACTORS.get(squeeze(skill_id))
    return reader(text) if reader is not None else None


def _extract_echo(text: str) -> PartialInput:
    said = _ECHO.sub("", text)
    if said.strip():
        return PartialInput({"text": said})
    return PartialInput(missing={"text": "what to say, as in 'echo: hello'"})


def _extract_file_search(text: str) -> PartialInput:
    found: dict[str, Any] = {}
    rest = _find_quotation(text)
    query = rest or ""
    if limit := _LIMIT.search(text):
        found["limit"] = int(limit[1])
    if glob := _GLOB.search(text):
        found["glob"] = glob["glob"].rstrip(",")
    within = _find_directory(text)
    if within is not None:
        found["root_dir"] = within["path"]
    if not query:
        for match in (limit, glob, within):
            text = text.replace(match.group(), " ", 1) if match is not None else text
        query = _find_query(text)
    if not query:
        return PartialInput(found, {"query": 'what to look for, as in: find "openSkill" in data/docs'})
    return PartialInput({"query": query, **found})


def _find_directory(text: str) -> re.Match[str] | None:
    # `in docs` may be part of the query; a path has a slash, or in Chinese a suffix.
    return next((m for m in _WITHIN.finditer(text) if "/" in m["path"] or m["after"].strip()), None)


def _find_query(text: str) -> str:
    verb = _VERB.search(text)
    text = (text[verb.end() :] if verb else text).strip(" \t\n:：，,")
    while filler := _FILLER.match(text):
        text = text[filler.end() :]
    return " ".join(_TAIL.sub("", text).split())


def _extract_calculator(text: str) -> PartialInput:
    operations = find_operations(text)
    numbers, doubt = find_numbers(remove_percentiles(text))
    missing: dict[str, str] = {}
    found: dict[str, Any] = {}
    if doubt or not numbers:
        missing["numbers"] = doubt or "which numbers, as in: mean of 10.5, 9.9, 11.2"
    else:
        found["numbers"] = numbers
    if is_comparison(text) and not doubt:
        if len(numbers) == 2:
            found["compare"] = {"a": numbers[0], "b": numbers[1]}
            # The skill needs at least one operation.
            operations = operations or ["min", "max"]
        elif not operations:
            missing["compare"] = "two numbers to be compared, as in: compare 10 and 12"
    if operations:
        found["ops"] = operations
    elif "compare" not in missing:
        missing["ops"] = "what to compute: mean, median, mode, min, max, sum, count, range, variance, stdev or p90"
    return PartialInput(found, missing)


def _extract_log_transform(text: str) -> PartialInput:
    quoted = _find_quotation(text)
    paths = [quoted] if quoted else [one for one in _PATH.findall(text) if _LOG_NAME.search(one)]
    if len(set(paths)) != 1:
        some = f"one file of {', '.join(sorted(set(paths)))[:200]}" if paths else "which file"
        return PartialInput(missing={"input_path": f"{some}, as in: parse ./data/logs/app.log"})
    found: dict[str, Any] = {"input_path": paths[0]}
    if paths[0].lower().endswith((".jsonl", ".ndjson")):
        found["format"] = "jsonl"
    if _TO_FILE.search(text):
        found["output"] = "file"
    if limit := _LIMIT.search(text):
        found["limit"] = int(limit[1])
    return PartialInput(found)


def _find_quotation(text: str) -> str:
    match = _QUOTED.search(text)
    return next(part for part in match.groups() if part is not None) if match is not None else ""


_EXTRACTORS: Mapping[str, Callable[[str], PartialInput]] = {
    squeeze("echo"): _extract_echo,
    squeeze("file_search"): _extract_file_search,
    squeeze("calculator"): _extract_calculator,
    squeeze("log_transform"): _extract_log_transform,
}
