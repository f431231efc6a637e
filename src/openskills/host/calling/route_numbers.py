"""The numbers of a request, and what is to be computed of them, in English and Chinese. Pure.

A number that could be read in two ways is not read at all.
"""

import re

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


def operations_in(text: str) -> list[str]:
    """What the request wants computed, in the order of its words; each once."""
    found = [(match.start(), operation) for operation, pattern in _PATTERNS for match in pattern.finditer(text)]
    found += [(match.start(), f"p{_rank(match)}") for match in _PERCENTILE.finditer(text) if float(_rank(match)) <= 100]
    return list(dict.fromkeys(operation for _, operation in sorted(found)))


def without_percentiles(text: str) -> str:
    """The request without the numbers that only say which percentile."""
    return _PERCENTILE.sub(" ", text)


def compared(text: str) -> bool:
    """Whether the request asks for a comparison."""
    return _COMPARE.search(text) is not None


def numbers_of(text: str) -> tuple[list[int | float], str]:
    """The numbers of a request, or a sentence that asks for them in another form."""
    grouped = _GROUPED.search(text)
    if grouped is not None:
        again = grouped.group()
        return [], f"{again!r} is one number or several; write {again.replace(',', '')} or {again.replace(',', ', ')}"
    text = _LIST.sub(", ", text)
    rest = _NUMBER.sub(" ", text)
    strange = _JOINED.search(text) or re.search(r"\S*\d\S*", rest)
    if strange is not None:
        return [], f"{strange.group()[:40]!r} is no plain number; write numbers like 10.5, without units"
    return [_value(match) for match in _NUMBER.findall(text)], ""


def _value(text: str) -> int | float:
    text = text.replace("−", "-")
    return float(text) if "." in text else int(text)


def _rank(match: re.Match[str]) -> str:
    return next(part for part in match.groups() if part is not None)


def _pattern(english: str, chinese: str) -> re.Pattern[str]:
    words = "|".join(english.split(" "))
    parts = [rf"(?<![a-z])(?:{words})(?![a-z])", *chinese.split()]
    return re.compile("|".join(parts), re.IGNORECASE)


_PATTERNS = [(operation, _pattern(english, chinese)) for operation, english, chinese in _OPERATIONS]
