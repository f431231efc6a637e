"""The words of a request and of a skill, in one form each, so that they can be compared. Pure."""

from openskills.catalog.words import STOP_WORDS, fold, pairs, pieces, split_humps, stem

_MOST_CHARACTERS = 8_000
_MOST_WORDS = 64
_SHARE = 0.5
_ENOUGH = 2
_SMALL_SHARE = 0.1

_SAME = (
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
"""Words for the same work, so that a request finds a command that says it otherwise, or in the other language."""

_GROUPS = [(group.split()[0], group.split()) for group in _SAME]
_LATIN = {stem(word): head for head, words in _GROUPS for word in words if word.isascii()}
_CHINESE = [(word, head) for head, words in _GROUPS for word in words if not word.isascii()]


def all_words(text: str) -> list[str]:
    """Every word once, without numbers, Chinese as pairs of characters, in the order of the text."""
    words, runs = pieces(fold(split_humps(text[:_MOST_CHARACTERS])))
    terms = [stem(word) for word in words if word not in STOP_WORDS and not word.isdigit()]
    terms += [pair for run in runs for pair in pairs(run)[:-1] if pair not in STOP_WORDS]
    return list(dict.fromkeys(terms))


def telling_words(text: str) -> list[str]:
    """The words that say what a request is about; of a very long one the first."""
    return all_words(text)[:_MOST_WORDS]


def work_words(text: str) -> set[str]:
    """The words of a text, one for all that mean the same work."""
    found = {_LATIN.get(word, word) for word in telling_words(text)}
    return found | {head for word, head in _CHINESE if word in text}


def same_work(word: str) -> str:
    """The one word for all that mean the same work; of any other word itself."""
    return _LATIN.get(word, word)


def is_enough(common: int, wanted: int) -> bool:
    """Whether so many of the telling words of a request are a match: half of them, or two that are not lost in many."""
    share = common / wanted if wanted else 0.0
    return share >= _SHARE or (common >= _ENOUGH and share >= _SMALL_SHARE)
