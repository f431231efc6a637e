"""Routing of a request to a skill: by name, by rules, or by the catalog's search."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from openskills.catalog.search import Hit, parse_query
from openskills.catalog.skill import Skill
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.catalog.vocabulary import default_glossary, fold, split_name, squeeze, stem
from openskills.errors import UnknownSkill

_MIN_FIT = 0.5
_MAX_HITS = 10
_MAX_NEAREST = 3
_MAX_CHARACTERS = 4_000
_ASKED = re.compile(r"(?<!\S)[$/](?P<name>[^\W_][\w-]*)(?![\w/.-])")
_NAME = r"(?<![a-z0-9_./-]){}(?![a-z0-9_/-]|\.\w)"
_TYPE_NAMES = {"md": "markdown", "txt": "text", "docx": "word", "xlsx": "excel", "yml": "yaml"}


@dataclass(frozen=True, slots=True)
class RoutingRule:
    """A pattern of requests; `skill_id` is the hosted skill that answers it, `kin` words in names of similar skills."""

    skill_id: str
    pattern: re.Pattern[str]
    kin: frozenset[str]


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

    A name decides, as `$name`, `/name` or in the text; then, for a request without files, the first rule with a
    matching skill; then search, if the result fits. Loaded skills are preferred to searched ones, and used if nothing
    else fits.
    """
    text = text[:_MAX_CHARACTERS]
    asked = _ASKED.match(text)
    if asked is not None and not skills.has(asked["name"]):
        return Route(None, RouteReason.UNKNOWN, asked["name"], _find_nearest(asked["name"], skills))
    named = _find_named_skill(text, skills)
    if named is not None:
        return Route(named, RouteReason.NAMED)
    if not files:
        for rule in RULES:
            found = _find_rule_skill(rule, text, skills) if rule.pattern.search(text) else None
            if found is not None:
                return Route(found, RouteReason.RULE, rule.skill_id)
    # The types of files say what a request is about, their names do not.
    endings = [name.rpartition(".")[2].lower() for name in files if "." in name]
    types = [_TYPE_NAMES.get(ending, ending) for ending in endings]
    query = " ".join((strip_file_names(text, files), *types))
    hits = skills.search(query, _MAX_HITS)
    fitting = [hit.skill.name for hit in hits if fits_request(hit, query)]
    kept = [name for name in loaded if skills.has(name) and (name in fitting or not fitting)]
    if kept:
        return Route(kept[-1], RouteReason.LOADED)
    words = extract_words(query)
    near = tuple(hit.skill.name for hit in hits if words & _extract_skill_words(hit.skill))[:_MAX_NEAREST]
    return Route(fitting[0], RouteReason.SEARCH, near=near) if fitting else Route(None, RouteReason.NOTHING, near=near)


def extract_words(text: str) -> set[str]:
    """The stems of a text's words, or the meanings of synonyms, without common words and numbers."""
    terms = parse_query(text, lambda _: False, default_glossary())
    return {one.meaning or stem("".join(one.words)) for one in terms if not (one.is_common or one.words[0].isdigit())}


def fits_request(hit: Hit, request: str) -> bool:
    """Whether a search result is good enough: by its `fit`, or by sharing half of the words with the request.

    Two shared words that are at least a tenth are also enough: in a small catalog every `fit` is low.
    """
    wanted = extract_words(request)
    common = len(wanted & _extract_skill_words(hit.skill))
    return hit.fit >= _MIN_FIT or 0 < len(wanted) <= 2 * common or (common >= 2 and common >= len(wanted) / 10)


def _extract_skill_words(skill: Skill) -> set[str]:
    manifest = skill.manifest
    about = " ".join((skill.name, skill.description, manifest.when_to_use or "", *manifest.keywords))
    return {word for start in range(0, len(about), 900) for word in extract_words(about[start : start + 1_000])}


def strip_skill_name(text: str, skill: str) -> str:
    """Remove `$name` or `/name` from a request."""
    return re.sub(rf"(?<!\S)[$/]{re.escape(skill)}(?![\w/.-])[ \t]*", "", text).strip()


def strip_file_names(text: str, files: Sequence[str]) -> str:
    """The request without the names of these files."""
    for name in files:
        text = re.sub(re.escape(name), " ", text, flags=re.IGNORECASE)
    return text


def _find_named_skill(text: str, skills: CatalogSnapshot) -> str | None:
    for asked in _ASKED.finditer(text):
        if skills.has(asked["name"]):
            return asked["name"]
    folded = fold(text)
    folds = ((skill.name, fold(skill.name)) for skill in skills.skills)
    found = [name for name, own in folds if own in folded and re.search(_NAME.format(re.escape(own)), folded)]
    # The longest, because `pdf-forms` also contains `pdf`.
    return max(found, key=len, default=None)


def _find_rule_skill(rule: RoutingRule, text: str, skills: CatalogSnapshot) -> str | None:
    """The skill with the rule's name, ignoring separators, or the best with a similar name."""
    same = squeeze(rule.skill_id)
    exact = next((skill.name for skill in skills.skills if squeeze(skill.name) == same), None)
    if exact is not None:
        return exact
    kin = [skill.name for skill in skills.skills if rule.kin & set(split_name(skill.name))]
    hits = [hit.skill.name for hit in skills.search(text) if hit.skill.name in kin] if kin else []
    return next(iter((*hits, *kin)), None)


def _find_nearest(name: str, skills: CatalogSnapshot) -> tuple[str, ...]:
    try:
        return (skills.get(name).name,)
    except UnknownSkill as error:
        return tuple(error.near)
