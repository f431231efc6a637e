"""Search terms: normalization, English stems, Chinese character pairs, typo-tolerant lookup, and a glossary.

The glossary has synonyms of everyday work in English and Chinese. It has only words with a single meaning in requests
to skills ("order" and "class" have too many), because a vague group turns a miss into a wrong hit.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import combinations, islice
from operator import add
from pathlib import Path
from unicodedata import normalize

_STOP_WORDS = """
a about after again all almost already also always am an and another any anybody anyone anything are around as at away
back be because been before being between both but by came can come comes could d did didn do does doesn don done down
during each either else enough even ever every everybody everyone everything few first for from gave get give given
gives go goes going gone good got great had has have he help her here hers him his how however i if in into is isn it
its just keep kept know last least less let lets like little ll look lot m made make makes making many may maybe me
might mine more most much must my myself need never new next no nobody not nothing now of off often ok okay old on one
ones only or other others our out over own per perhaps please put quite rather re really right s said same say says see
seem seems shall she should show since so some somebody someone something sometimes still such sure t take taken takes
taking tell than thank thanks that the their them then there these they thing things think this those though three
through to together told too took toward try trying two under until up upon us use used uses using ve very want wants
was way ways we well went were what whatever when where whether which while who whole whose why will with within
without won would yes yet you your
一下 一个 一些 一份 一张 一样 一段 一点 一篇 上面 下面 不了 不会 不是 不能 不要 东西 为什 么样 之前 之后 什么
他们 以前 以及 以后 但是 你们 使用 关于 出来 只是 可以 可能 各种 哪些 哪里 因为 多少 大家 如何 如果 对于 就是
已经 帮忙 帮我 应该 怎么 怎样 我们 我想 我要 或者 所以 时候 是不 是否 有没 有点 根据 没有 然后 现在 用于 的话
知道 给出 给我 自己 觉得 请问 起来 还是 还有 这个 这么 这些 这份 这台 这样 这段 这篇 进行 通过 那个 那么 那些
那样 里面 需要
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that say little about what is searched for."""

# Scripts written without spaces between words (and Korean, which glues particles to words): searched as pairs.
_DENSE = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0eff\u1000-\u1049\u1780-\u17d3\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(f"[{_DENSE}]+")
_ASCII_WORD = re.compile("[a-z0-9]+")
# Vowel signs of Indic and Semitic scripts belong to the word although `\w` does not match them.
_WORD = re.compile("(?:[^\\W_]|[\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff])+")
_ACCENT = re.compile("[\u0300-\u036f]+")
_HUMP = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_VOWEL = re.compile("[aeiouy]")
_SHORT_WITH_E = re.compile("[^aeiou][aeiouy][^aeiouwxy]")
_ENDINGS = ("ation", "ating", "ated", "ator", "ate", "ing", "ed")
_NO_PLURALS = frozenset({"news", "series", "species"})
# To the end of the clause: "Not for scanned pages; use pdf-ocr." must not be found by "scanned".
_DENIAL = re.compile(
    r"\b(?:not (?:(?:intended|meant|suitable) )?for|(?:do not|don't|never) use(?: (?:it|this))?)\b[^.;!?。；！？\n]*"
    r"|(?:不适用于|不适合|不要用于|不用于|不能用于|请勿用于|不提供|不支持|不负责)[^.;!?,。；！？，\n]*",
    re.IGNORECASE,
)


def fold(text: str) -> str:
    """Normalize text: no full-width forms, capitals or accents."""
    if text.isascii():
        return text.lower()
    return normalize("NFKC", _ACCENT.sub("", normalize("NFKD", text)).casefold())


def remove_denials(text: str) -> str:
    """A description without the clauses about what the skill is not for."""
    return _DENIAL.sub(" ", text)


def split_humps(text: str) -> str:
    """Split camel case: `pdfTools` becomes `pdf Tools`, `PDFTools` becomes `PDF Tools`."""
    return _HUMP.sub(" ", text if text.isascii() else normalize("NFKC", text))


def split_text(folded: str) -> tuple[list[str], list[str]]:
    """The words of a folded text, and its runs of characters of scripts without spaces between words."""
    if folded.isascii():
        return _ASCII_WORD.findall(folded), []
    return _WORD.findall(_RUN.sub(" ", folded)), _RUN.findall(folded)


def split_pairs(run: str) -> list[str]:
    """Every character of a run with the next one, and the last character alone.

    So each character starts exactly one pair, and a single character is found by the pairs that it starts.
    """
    return [*map(add, run, run[1:]), run[-1]]


def split_name(name: str) -> list[str]:
    """The distinct words of a name, split at `-`, `_`, spaces and camel case, and also without the last."""
    words, runs = split_text(fold(split_humps(name)))
    whole = split_text(fold(name))[0]
    return list(dict.fromkeys([*words, *whole, *(pair for run in runs for pair in split_pairs(run))]))


def squeeze(name: str) -> str:
    """A name without separators and capitals: `PDF tools`, `pdf_tools` and `pdfTools` become `pdftools`."""
    folded = fold(name)
    return "".join(
        _ASCII_WORD.findall(folded) if folded.isascii() else re.findall(f"{_WORD.pattern}|[{_DENSE}]+", folded)
    )


@lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """Stem an English word: no plural, -ing, -ed, -ate, -ation; `-ise` becomes `-ize`. Other words are unchanged."""
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    if word.endswith("ysis"):
        return word[:-4] + "yz"
    word = _strip_ending(_singularize(word))
    if len(word) > 4 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] + "z" if len(word) > 5 and word.endswith(("is", "ys")) else word


def _singularize(word: str) -> str:
    if word in _NO_PLURALS:
        return word
    if word.endswith(("ies", "ie")) and len(word) > 4:
        return word.removesuffix("s")[:-2] + "y"
    if word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "sis")) else word


def _strip_ending(word: str) -> str:
    if word.endswith(("ction", "ption", "ssion")):
        return word[:-3]
    ending = next((ending for ending in _ENDINGS if word.endswith(ending)), "")
    rest = word.removesuffix(ending)
    if not ending or len(rest) < 3 or word.endswith(("eed", "embed")) or not _VOWEL.search(rest):
        return word
    if ending not in ("ing", "ed"):
        return rest
    if rest[-1] == rest[-2] and rest[-1] not in "lsz":
        return rest[:-1]
    return rest + "e" if len(rest) == 3 and _SHORT_WITH_E.fullmatch(rest) else rest


class Vocabulary:
    """A fixed set of words with lookup by prefix, and by spelling with up to `max_edits` edits."""

    # The length of the prefix that selects candidates, and how many of them are compared at most.
    _STUB = 6
    _CANDIDATES = 128

    def __init__(self, words: Iterable[str], max_edits: int = 2) -> None:
        self._max_edits = max_edits
        self._sorted = sorted(set(words))
        # A single word is stored without a tuple, to save memory: nearly all stubs have only one.
        self._stubs: dict[str, str | tuple[str, ...]] = {}
        for word in self._sorted:
            for stub in _build_stubs(word[: self._STUB], self._edit_tolerance(word)):
                known = self._stubs.get(stub)
                if known is None:
                    self._stubs[stub] = word
                elif isinstance(known, str):
                    self._stubs[stub] = (known, word)
                elif len(known) < self._CANDIDATES:
                    self._stubs[stub] = (*known, word)

    def find_by_prefix(self, prefix: str, limit: int) -> list[str]:
        """Words that start with `prefix`, sorted, at most `limit`."""
        start = bisect_left(self._sorted, prefix)
        return [word for word in self._sorted[start : start + limit] if word.startswith(prefix)]

    def find_nearest(self, word: str) -> list[tuple[int, str]]:
        """The known words with the fewest edits to `word`, within the tolerance of each, with their costs."""
        if not edit_tolerance(word):
            return []
        found: list[tuple[int, str]] = []
        for other in self._find_candidates(word):
            tolerance = self._edit_tolerance(other)
            # With three letters nearly every word is one edit from another; only swapped letters are surely a typo.
            if len(other) > 3 or sorted(word) == sorted(other):
                cost = count_edits(word, other, tolerance)
                if cost <= tolerance:
                    found.append((cost, other))
        best = min(found, default=(0, ""))[0]
        return [(cost, other) for cost, other in found if cost == best]

    def _find_candidates(self, word: str) -> list[str]:
        found: dict[str, None] = {}
        for stub in sorted(_build_stubs(word[: self._STUB], self._max_edits)):
            known = self._stubs.get(stub, ())
            found.update(dict.fromkeys((known,) if isinstance(known, str) else known))
            if len(found) >= self._CANDIDATES:
                break
        return sorted(islice(found, self._CANDIDATES))

    def _edit_tolerance(self, word: str) -> int:
        return min(self._max_edits, edit_tolerance(word))


def edit_tolerance(word: str) -> int:
    """How many edits are tolerated: one, two from 8 letters on, none for numbers and character pairs."""
    if not 3 <= len(word) <= 64 or not word.isalpha() or _RUN.match(word):
        return 0
    return 2 if len(word) >= 8 else 1


def count_edits(one: str, other: str, limit: int) -> int:
    """Edit distance with swaps of neighbours (Damerau-Levenshtein); `limit + 1` if it is more than `limit`."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    one, other = one[start:], other[start:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one):
        older, before, row = before, row, [i + 1]
        for j, wanted in enumerate(other):
            cost = min(before[j] + (letter != wanted), before[j + 1] + 1, row[j] + 1)
            if i and j and letter == other[j - 1] and one[i - 1] == wanted:
                cost = min(cost, older[j - 1] + 1)
            row.append(cost)
        if min(row) > limit and min(before) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def _build_stubs(word: str, depth: int) -> set[str]:
    """The word without up to `depth` of its letters, in all ways; nothing if `depth` is 0."""
    found = {word} if depth else set[str]()
    for count in range(1, depth + 1):
        found.update("".join(left) for left in combinations(word, max(len(word) - count, 0)))
    return found


class Glossary:
    """Groups of synonyms; the first word of a group is its meaning."""

    def __init__(self, groups: Iterable[Sequence[str]]) -> None:
        self._by_word = {stem(word): words[0] for words in groups for word in words}
        self._longest = max((len(word) for word in self._by_word if not word.isascii()), default=0)

    def find_meaning(self, term: str) -> str | None:
        """The meaning of a stem or a Chinese word, or None."""
        return self._by_word.get(term)

    def find_meanings(self, run: str) -> Iterator[tuple[int, int, str]]:
        """The glossary words in a run of Chinese characters, as start, end and meaning.

        The longest word counts: `数据库` is a database, not data.
        """
        at = 0
        while at < len(run):
            longest = min(self._longest, len(run) - at)
            length = next((length for length in range(longest, 1, -1) if run[at : at + length] in self._by_word), 0)
            if length:
                yield at, at + length, self._by_word[run[at : at + length]]
            at += length or 1


def default_groups() -> list[list[str]]:
    text = Path(__file__).with_name("glossary.txt").read_text("utf-8")
    return [words.split() for words in text.splitlines()]


@cache
def default_glossary() -> Glossary:
    return Glossary(default_groups())
