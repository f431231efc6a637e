"""The rules of the demo strategy: words of a request, and the kind of skill that they ask for. Pure.

A Latin word counts only by itself (`log` is not in `catalog`), a Chinese one wherever it stands.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern of requests; `skill_id` is the skill that the mission names, `kin` words in names of such skills."""

    skill_id: str
    pattern: re.Pattern[str]
    kin: frozenset[str]

    def fits(self, text: str) -> bool:
        """Whether a request has one of the words."""
        return self.pattern.search(text) is not None


def _rule(skill_id: str, words: str, kin: str, more: str = "") -> Rule:
    latin = "|".join(word for word in words.split() if word.isascii())
    chinese = "|".join(word for word in words.split() if not word.isascii())
    pattern = re.compile(f"(?<![a-z])(?:{latin})s?(?![a-z])|{chinese}{more}", re.IGNORECASE)
    return Rule(skill_id, pattern, frozenset(kin.split()))


RULES = (
    Rule("echo", re.compile(r"\A\s*echo\s*[:：]", re.IGNORECASE), frozenset({"echo"})),
    _rule("file_search", "搜索 find grep 检索", "search grep find"),
    _rule(
        "calculator",
        # The last three are ours.
        "平均 均值 mean 中位数 median min max 比较 average minimum maximum",
        "calculator calc math maths mathematics statistics",
        # Nobody has to name what is written down: 17 * 23, sqrt(2).
        r"|\d\s*[*+×÷^]\s*\d|\d\s+[-/]\s+\d|(?<![a-z])(?:sqrt|sin|cos|tan|ln|exp)\(",
    ),
    _rule("log_transform", "日志 log 转换 parse jsonl", "log logs"),
)
"""In the order of the mission document; the first that fits counts. `echo:` has to begin the request."""
