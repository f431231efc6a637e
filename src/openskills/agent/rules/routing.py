"""Routing of a request to a skill: by name, by rules, or by the catalog's search."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from openskills.agent.rules.turn import strip_file_names
from openskills.catalog.skill import Skill
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.catalog.vocabulary import (
    STOP_WORDS,
    fold,
    split_humps,
    split_name,
    split_pairs,
    split_text,
    squeeze,
    stem,
)
from openskills.errors import UnknownSkill


@dataclass(frozen=True, slots=True)
class RoutingRule:
    """A pattern of requests; `skill_id` is the hosted skill that answers it, `kin` words in names of similar skills."""

    skill_id: str
    pattern: re.Pattern[str]
    kin: frozenset[str]

    def matches(self, text: str) -> bool:
        """Whether a request matches."""
        return self.pattern.search(text) is not None


def _build_rule(skill_id: str, words: str, kin: str, more: str = "") -> RoutingRule:
    latin = "|".join(word for word in words.split() if word.isascii())
    chinese = "|".join(word for word in words.split() if not word.isascii())
    pattern = re.compile(f"(?<![a-z])(?:{latin})s?(?![a-z])|{chinese}{more}", re.IGNORECASE)
    return RoutingRule(skill_id, pattern, frozenset(kin.split()))


RULES = (
    RoutingRule("echo", re.compile(r"\A\s*echo\s*[:：]", re.IGNORECASE), frozenset({"echo"})),
    _build_rule("file_search", "搜索 find grep 检索", "search grep find"),
    _build_rule(
        "calculator",
        "平均 均值 mean 中位数 median min max 比较 average minimum maximum",
        "calculator calc math maths mathematics statistics",
        # Formulas such as 17 * 23 or sqrt(2) need no keyword.
        r"|\d\s*[*+×÷^]\s*\d|\d\s+[-/]\s+\d|(?<![a-z])(?:sqrt|sin|cos|tan|ln|exp)\(",
    ),
    _build_rule("log_transform", "日志 log 转换 parse jsonl", "log logs"),
)
"""In order of priority: the first match counts. `echo:` has to begin the request."""


_MAX_CHARACTERS = 8_000
_MAX_WORDS = 64
_SHARE = 0.5
_ENOUGH = 2
_SMALL_SHARE = 0.1

_SYNONYMS = (
    "chart plot graph draw diagram 图表 画图 绘图 绘制 画出 画一 曲线 柱状图 折线图",
    "equation solve 方程",
    "find search grep 搜索 检索 查找",
    "count 统计 计数 字数 多少",
    "sort 排序",
    "unique deduplicate dedupe duplicate once 去重 重复",
    "replace substitute 替换",
    "convert transform 转换 转成 换算",
    "split cut 拆分 切分",
    "join merge 合并 拼接",
    "statistics mean average median deviation max min maximum minimum 统计 平均 均值 中位数 方差 最大 最小",
    "compare 比较 对比",
    "error failure 错误 报错",
    "report summary summarise summarize describe 报告 汇总 概括 总结 概述",
    "line 折线",
)
"""Synonyms, so that a request finds a command in other words or in the other language."""

_GROUPS = [(group.split()[0], group.split()) for group in _SYNONYMS]
_LATIN = {stem(word): head for head, words in _GROUPS for word in words if word.isascii()}
_CHINESE = [(word, head) for head, words in _GROUPS for word in words if not word.isascii()]


def extract_words(text: str) -> list[str]:
    """The words of a text without numbers and duplicates; Chinese as pairs of characters."""
    words, runs = split_text(fold(split_humps(text[:_MAX_CHARACTERS])))
    terms = [stem(word) for word in words if word not in STOP_WORDS and not word.isdigit()]
    terms += [pair for run in runs for pair in split_pairs(run)[:-1] if pair not in STOP_WORDS]
    return list(dict.fromkeys(terms))


def extract_keywords(text: str) -> list[str]:
    """The first words of a request."""
    return extract_words(text)[:_MAX_WORDS]


def extract_task_words(text: str) -> set[str]:
    """The words of a text, with synonyms normalized."""
    found = {_LATIN.get(word, word) for word in extract_keywords(text)}
    return found | {head for word, head in _CHINESE if word in text}


def normalise_word(word: str) -> str:
    """The representative of a word's synonyms, or the word itself."""
    return _LATIN.get(word, word)


def is_enough(common: int, wanted: int) -> bool:
    """Whether enough words match: half of them, or two that are at least a tenth."""
    share = common / wanted if wanted else 0.0
    return share >= _SHARE or (common >= _ENOUGH and share >= _SMALL_SHARE)


_ASKED = re.compile(r"(?<!\S)[$/](?P<name>[^\W_][\w-]*)(?![\w/.-])")
_MAX_REQUEST_CHARACTERS = 4_000
_MAX_NEAREST = 3
_MAX_HITS = 10
_TYPE_NAMES = {
    "md": "markdown",
    "txt": "text",
    "docx": "word",
    "xlsx": "excel",
    "yml": "yaml",
    "jpg": "image",
    "png": "image",
}


_TEXT = stem("text")


class RouteReason(StrEnum):
    """Why a skill was chosen, or none."""

    NAMED = "named"
    RULE = "rule"
    SEARCH = "search"
    LOADED = "loaded"
    UNKNOWN = "unknown"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Route:
    """The chosen skill. `detail` is the rule that decided, or the unknown name; `near` are other skills."""

    skill: str | None
    reason: RouteReason
    detail: str = ""
    near: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """The reason for logs, without anything that the user wrote."""
        return f"{self.reason}:{self.detail}" if self.reason is RouteReason.RULE else str(self.reason)


def route(text: str, files: Sequence[str], skills: CatalogSnapshot, loaded: Sequence[str] = ()) -> Route:
    """Choose a skill for a request with these files; `loaded` are the loaded skills, newest last.

    A name decides, as `$name`, `/name` or in the text; then the first rule with a matching skill; then search, if
    enough words match. Loaded skills are preferred to searched ones, and used if nothing else fits.
    """
    text = text[:_MAX_REQUEST_CHARACTERS]
    asked = _ASKED.match(text)
    if asked is not None and not skills.has(asked["name"]):
        return Route(None, RouteReason.UNKNOWN, asked["name"], _find_nearest(asked["name"], skills))
    named = _find_named_skill(text, skills)
    if named is not None:
        return Route(named, RouteReason.NAMED)
    found = _match_rule(text, files, skills)
    if found is not None:
        return Route(found[0], RouteReason.RULE, found[1].skill_id)
    text = strip_file_names(text, files)
    hits = [hit.skill for hit in skills.search(" ".join((text, *_extract_file_types(files))), _MAX_HITS)]
    fitting = [
        skill.name
        for skill in hits
        if _has_enough_overlap(text, files, skill) and _can_take_files(skill.name, files, skills)
    ]
    visible = [name for name in loaded if skills.has(name)]
    kept = [name for name in visible if name in fitting or not fitting]
    if kept:
        return Route(kept[-1], RouteReason.LOADED)
    near = tuple(skill.name for skill in hits if _find_common_words(text, files, skill))[:_MAX_NEAREST]
    return Route(fitting[0], RouteReason.SEARCH, near=near) if fitting else Route(None, RouteReason.NOTHING, near=near)


def strip_skill_name(text: str, skill: str) -> str:
    """Remove `$name` or `/name` from a request."""
    return re.sub(rf"(?<!\S)[$/]{re.escape(skill)}(?![\w/.-])[ \t]*", "", text).strip()


def _find_named_skill(text: str, skills: CatalogSnapshot) -> str | None:
    for asked in _ASKED.finditer(text):
        if skills.has(asked["name"]):
            return asked["name"]
    folded = fold(text)
    found = [skill.name for skill in skills.skills if _has_name(skill.name, folded)]
    # The longest, because `pdf-forms` also contains `pdf`.
    return max(found, key=len, default=None)


def _has_name(name: str, folded: str) -> bool:
    name = fold(name)
    if name not in folded:
        return False
    return re.search(rf"(?<![a-z0-9_./-]){re.escape(name)}(?![a-z0-9_/-]|\.\w)", folded) is not None


def _match_rule(text: str, files: Sequence[str], skills: CatalogSnapshot) -> tuple[str, RoutingRule] | None:
    for rule in RULES:
        if rule.matches(text):
            name = _find_rule_skill(rule, text, skills)
            if name is not None and _can_take_files(name, files, skills):
                return name, rule
    return None


def _find_rule_skill(rule: RoutingRule, text: str, skills: CatalogSnapshot) -> str | None:
    """The skill with the rule's name, ignoring separators, or the best with a similar name."""
    same = squeeze(rule.skill_id)
    exact = next((skill.name for skill in skills.skills if squeeze(skill.name) == same), None)
    if exact is not None:
        return exact
    kin = [skill.name for skill in skills.skills if rule.kin & set(split_name(skill.name))]
    hits = [hit.skill.name for hit in skills.search(text, _MAX_HITS) if hit.skill.name in kin] if kin else []
    return next(iter((*hits, *kin)), None)


def _can_take_files(name: str, files: Sequence[str], skills: CatalogSnapshot) -> bool:
    """Whether a skill mentions the types of these files, or no skill does; text files suit every skill."""
    own = _extract_skill_words(skills.get(name))
    return all(
        ending in own or not any(ending in _extract_skill_words(hit.skill) for hit in skills.search(ending, _MAX_HITS))
        for ending in _extract_file_types(files)
        if ending != _TEXT
    )


def _extract_skill_words(skill: Skill) -> set[str]:
    manifest = skill.manifest
    about = (skill.name, skill.description, manifest.when_to_use or "", *manifest.keywords)
    return set(extract_words(" ".join(about)))


def _extract_file_types(files: Sequence[str]) -> list[str]:
    """The types of files, as skills call them."""
    endings = [name.rpartition(".")[2].lower() for name in files if "." in name]
    return [stem(_TYPE_NAMES.get(ending, ending)) for ending in endings]


def _has_enough_overlap(text: str, files: Sequence[str], skill: Skill) -> bool:
    common = _find_common_words(text, files, skill)
    return is_enough(len(common), len(common | set(extract_keywords(text))))


def _find_common_words(text: str, files: Sequence[str], skill: Skill) -> set[str]:
    """The words of a request, or of its files, that a skill has, or has a synonym for."""
    own = _extract_skill_words(skill)
    known = own | {normalise_word(word) for word in own}
    return {
        word
        for word in (*extract_keywords(text), *_extract_file_types(files))
        if word in own or normalise_word(word) in known
    }


def _find_nearest(name: str, skills: CatalogSnapshot) -> tuple[str, ...]:
    try:
        return (skills.get(name).name,)
    except UnknownSkill as error:
        return tuple(error.near)
