"""Ranked search.

A query as the things that it asks for: words and Chinese pairs of characters, with what they mean. Pure.

Ranked search over many skills: names, keywords and descriptions, in English and Chinese, without a network.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt
from operator import add
from typing import NamedTuple, TypeAlias

from openskills.catalog.skill import Skill
from openskills.catalog.vocabulary import (
    STOP_WORDS,
    Glossary,
    Vocabulary,
    default_glossary,
    edit_tolerance,
    fold,
    remove_denials,
    split_humps,
    split_name,
    split_pairs,
    split_text,
    squeeze,
    stem,
)
from openskills.errors import InvalidArgument

_MAX_QUERY_CHARACTERS = 1_000


class QueryTerm(NamedTuple):
    """One word: itself, or the pairs of characters of a Chinese one. `meaning` is its group of the glossary, if any."""

    words: tuple[str, ...]
    meaning: str | None = None

    @property
    def is_common(self) -> bool:
        """Whether it is a word such as "the"."""
        return self.words[0] in STOP_WORDS and len(self.words) == 1


def parse_query(query: str, known: Callable[[str], bool], glossary: Glossary) -> list[QueryTerm]:
    """What a query asks for, each once, in its order; of a query of more than 1,000 characters the beginning.

    `known` says whether a stem is one of the index: `openApi` is cut at its humps unless it is known as a whole.
    """
    query = query[:_MAX_QUERY_CHARACTERS]
    words, runs = split_text(fold(query))
    if len(parts := split_text(fold(split_humps(query)))[0]) > len(words):
        words = [part for word in words for part in ([word] if known(stem(word)) else parts)]
    found = [QueryTerm((word,), glossary.find_meaning(stem(word))) for word in words]
    for run in runs:
        found += _parse_run(run, glossary)
    return list(dict.fromkeys(found))


def _parse_run(run: str, glossary: Glossary) -> list[QueryTerm]:
    every = split_pairs(run)[:-1] or [run]
    found: list[QueryTerm] = []
    at = 0
    for start, end, meaning in glossary.find_meanings(run):
        found += [QueryTerm((pair,)) for pair in every[at:start]]
        found.append(QueryTerm(tuple(every[start : end - 1]), meaning))
        at = end - 1
    return [*found, *(QueryTerm((pair,)) for pair in every[at:])]


_Postings: TypeAlias = list[tuple[int, float]]
"""In which skills a term stands, and how much it says there."""

_Matches: TypeAlias = list[tuple[_Postings, float]]
"""What a word stands for, each with a factor below 1 if it is only like the word."""

# What is looked at of one text and of one query; more would cost time and hardly change the order.
_TEXT_CHARACTERS = 8_000
_NAME_CHARACTERS = 1_000
_NAME_WORDS = 32
_QUERY_WORDS = 48
_QUERY_CORRECTIONS = 16
_PREFIX_WORDS = 12

# BM25's usual constants; the others were chosen on one half of the set in benchmarks/selection, as far as the table of
# queries in the tests allows: whole sentences want less weight on names, single words more.
_SATURATION = 1.2
_LENGTH_SHARE = 0.6
_NAME_BOOST = 2.2
_KEYWORD_BOOST = 1.4
_PREFIX_FACTOR = 0.5
_TYPO_FACTOR = 0.7
_TEXT_TYPO_FACTOR = 0.5
_STEM_FACTOR = 0.5
_MEANING_FACTOR = 0.6
_LITTLE_FACTOR = 0.2

# Begins no word, so that meanings can be terms beside words.
_MEANS = "≈"


@dataclass(frozen=True, slots=True)
class Hit:
    """A skill that matches a query; a higher score is a better match, and means nothing across queries.

    `fit`, from 0 to 1, does: how much speaks for this skill. Below 0.5 it is probably not what was asked for, and a
    request for which no skill has more is probably done without one.
    """

    skill: Skill
    score: float
    fit: float


class SearchIndex:
    """A snapshot of skills, ready to be searched from any number of threads.

    A term counts more the rarer it is, most in a name, then in keywords, then in description and `when_to_use`; what
    a description says that its skill is not for does not count. English words match in their plural, -ing and -ed
    forms and with a typo, name words also by their beginning; Chinese matches by pairs of characters. Words of one
    group of the glossary match each other, for less; the usual glossary is about everyday work. Words such as "the",
    and words that most of many skills have, count only where nothing else of a query matches.
    """

    def __init__(self, skills: Sequence[Skill], glossary: Glossary | None = None) -> None:
        self._glossary = default_glossary() if glossary is None else glossary
        self._skills = sorted(skills, key=lambda skill: (skill.name, skill.directory))
        self._postings = defaultdict[str, _Postings](list)
        self._by_name_word = defaultdict[str, _Postings](list)
        self._by_squeezed = defaultdict[str, list[int]](list)
        self._build_index()
        self._name_words = Vocabulary(self._by_name_word)
        self._squeezed = Vocabulary(self._by_squeezed)
        self._pairs: dict[str, list[str]] = {}
        for term in self._postings:
            if not term.isascii():
                self._pairs.setdefault(term[0], []).append(term)

    def search(self, query: str, limit: int = 10) -> tuple[Hit, ...]:
        """The best matches, best first, equal scores by name; nothing for an empty query.

        A skill whose name is the query comes first, whatever else matches. Of a query only the first 1,000 characters
        count, and of these the first 48 different words that skills have. Raises `InvalidArgument` if `limit` is less
        than 1.
        """
        if limit < 1:
            raise InvalidArgument("limit", f"{limit} is too small; ask for at least 1 result")
        asks = parse_query(query, self._postings.__contains__, self._glossary)
        scores = self._score_terms([ask for ask in asks if not self._is_common(ask)]) or self._score_terms(
            asks, _LITTLE_FACTOR
        )
        same = self._put_same_name_first(query, scores)
        best = heapq.nsmallest(limit, [(-score, number) for number, score in scores.items()])
        # As much as one word can say is an even bet: above it, in the set of benchmarks/selection, most best hits are
        # right. It also makes catalogs of different sizes comparable.
        even = self._rarity([])
        return tuple(
            Hit(self._skills[number], -score, 1.0 if number in same else score / (score - even))
            for score, number in best
        )

    def find_similar_names(self, name: str, limit: int = 3) -> tuple[str, ...]:
        """The names somebody may have meant by `name`, best first: one that is nearly the same, then shared words."""
        name = name[:_NAME_CHARACTERS]
        squeezed = squeeze(name)
        close = (
            [squeezed] if squeezed in self._by_squeezed else [word for _, word in self._squeezed.find_nearest(squeezed)]
        )
        numbers = [number for word in close for number in self._by_squeezed[word]]
        numbers += self._rank_by_shared_words(split_name(name)[:_NAME_WORDS])
        return tuple(dict.fromkeys(self._skills[number].name for number in numbers))[: max(limit, 0)]

    # Building

    def _build_index(self) -> None:
        texts = [self._extract_terms(remove_denials(_skill_text(skill))) for skill in self._skills]
        average = sum(map(len, texts)) / len(texts) if texts else 0.0
        for number, (skill, terms) in enumerate(zip(self._skills, texts, strict=True)):
            flat = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * len(terms) / (average or 1.0))
            once = (number, (_SATURATION + 1) / (1 + flat))
            impacts = dict.fromkeys(terms, once[1])
            if len(impacts) < len(terms):
                repeated = ((term, count) for term, count in Counter(terms).items() if count > 1)
                impacts.update((term, count * (_SATURATION + 1) / (count + flat)) for term, count in repeated)
            for term in dict.fromkeys(self._extract_terms(" ".join(skill.manifest.keywords))):
                impacts[term] = impacts.get(term, 0.0) + _KEYWORD_BOOST
            self._index_name(number, skill.name, impacts)
            for term, impact in impacts.items():
                # Most terms stand once in a text: they share one entry, which saves half of the memory.
                self._postings[term].append(once if impact == once[1] else (number, impact))

    def _index_name(self, number: int, name: str, impacts: dict[str, float]) -> None:
        words = split_name(name[:_TEXT_CHARACTERS])
        # The share of a word in a long name is smaller.
        boost = _NAME_BOOST / sqrt(len(words) or 1)
        for word in words:
            self._by_name_word[word].append((number, boost))
        stems = dict.fromkeys(map(stem, words))
        for term in (*stems, *_mark_meanings(map(self._glossary.find_meaning, stems))):
            impacts[term] = impacts.get(term, 0.0) + boost
        self._by_squeezed[squeeze(name[:_TEXT_CHARACTERS])].append(number)

    def _extract_terms(self, text: str) -> list[str]:
        words, runs = split_text(fold(text[:_TEXT_CHARACTERS]))
        terms = [stem(word) for word in words]
        meanings = [self._glossary.find_meaning(term) for term in terms]
        for run in runs:
            terms += split_pairs(run)
            meanings += [meaning for _, _, meaning in self._glossary.find_meanings(run)]
        return terms + _mark_meanings(meanings)

    @cached_property
    def _text_words(self) -> Vocabulary:
        # Made when the first unknown word is asked for: many searches never need it.
        return Vocabulary((term for term in self._postings if len(term) > 3 and term.isascii()), most=1)

    # Searching

    def _score_terms(self, asks: Sequence[QueryTerm], factor: float = 1.0) -> dict[int, float]:
        scores: dict[int, float] = {}
        matched: Counter[int] = Counter()
        left, corrections = _QUERY_WORDS, _QUERY_CORRECTIONS
        for ask in asks:
            found = self._score_term(ask)
            if not found and corrections and edit_tolerance(ask.words[0]):
                corrections -= 1
                found = self._sum_best([self._match_similar(ask.words[0])])
            for number, score in found.items():
                scores[number] = scores.get(number, 0.0) + score
            for _ in ask.words if found else ():
                matched.update(found.keys())
            left -= bool(found)
            if not left:
                break
        return _scale_by_share(scores, matched, sum(len(ask.words) for ask in asks), factor)

    def _score_term(self, ask: QueryTerm) -> dict[int, float]:
        """What an ask adds to the score of each skill that has it, or something that means the same."""
        found = self._sum_best([self._match_word(word) for word in ask.words])
        postings = self._postings.get(_MEANS + ask.meaning, []) if ask.meaning else []
        if postings and len(postings) <= self._min_common_count(8):
            weight = len(ask.words) * _MEANING_FACTOR * self._rarity(postings)
            for number, impact in postings:
                if (score := weight * impact) > found.get(number, 0.0):
                    found[number] = score
        return found

    def _sum_best(self, words: Iterable[_Matches]) -> dict[int, float]:
        """The sum over words of the best that each stands for."""
        found: dict[int, float] = {}
        for matches in words:
            best: dict[int, float] = {}
            for postings, factor in matches:
                weight = factor * self._rarity(postings)
                scores = {number: weight * impact for number, impact in postings}
                best = _merge_scores(max, best, scores) if best else scores
            found = _merge_scores(add, found, best) if found else best
        return found

    def _rarity(self, postings: _Postings) -> float:
        return log(1 + (len(self._skills) - len(postings) + 0.5) / (len(postings) + 0.5))

    def _min_common_count(self, share: int) -> int:
        # A word of most skills of a large catalog hardly changes the order and costs the most time.
        return max(200, len(self._skills) // share)

    def _is_common(self, ask: QueryTerm) -> bool:
        most = self._min_common_count(2)
        return ask.is_common or all(len(self._postings.get(stem(word), ())) > most for word in ask.words)

    def _match_word(self, word: str) -> _Matches:
        """What a word of a query stands for in names and texts."""
        if len(word) == 1 and not word.isascii():
            return [(self._postings[pair], 1.0) for pair in self._pairs.get(word, ())]
        term = stem(word)
        found = [(self._postings[term], 1.0)] if term in self._postings else []
        if len(word) > 2:
            found += [(self._by_name_word[other], _PREFIX_FACTOR) for other in self._find_by_prefix(word, term)]
        return found

    def _match_similar(self, word: str) -> _Matches:
        """What a word that is unknown was probably meant to be."""
        return self._match_name_typo(word) or self._match_longer_form(stem(word)) or self._match_text_typo(word)

    def _find_by_prefix(self, word: str, term: str) -> list[str]:
        found = self._name_words.find_by_prefix(word, _PREFIX_WORDS)
        if term != word and len(term) > 3:
            found += self._name_words.find_by_prefix(term, _PREFIX_WORDS)
        # No set: the order of a sum of floats must be the same in every process.
        return [other for other in dict.fromkeys(found) if stem(other) != term]

    def _match_name_typo(self, word: str) -> _Matches:
        return [
            (self._postings[stem(other)], _TYPO_FACTOR**cost) for cost, other in self._name_words.find_nearest(word)
        ]

    def _match_text_typo(self, word: str) -> _Matches:
        # Short words have neighbours that mean something else; those of names are few, those of texts are many.
        near = (
            (self._text_words.find_nearest(stem(word)) or self._text_words.find_nearest(word)) if len(word) > 4 else []
        )
        return [(self._postings[other], _TEXT_TYPO_FACTOR) for _, other in near]

    def _match_longer_form(self, term: str) -> _Matches:
        """`converter` finds `convert`: the longest known term that is `term` without up to three last letters."""
        shorter = (term[:-cut] for cut in range(1, min(3, len(term) - 4) + 1))
        return [(self._postings[known], _STEM_FACTOR) for known in shorter if known in self._postings][:1]

    def _put_same_name_first(self, query: str, scores: dict[int, float]) -> Sequence[int]:
        best = max(scores.values(), default=0.0)
        same = self._by_squeezed.get(squeeze(query[:_NAME_CHARACTERS]) or " ", ())
        for number in same:
            rank = 2 if self._skills[number].name == query.strip() else 1
            scores[number] = (rank + 1) * best + rank
        return same

    def _rank_by_shared_words(self, words: Sequence[str]) -> list[int]:
        """Skills with at least half of these words in their name, with most of them first, then the shortest name."""
        shared: Counter[int] = Counter()
        letters: Counter[int] = Counter()
        for word in words:
            known = (
                [word] if word in self._by_name_word else [other for _, other in self._name_words.find_nearest(word)]
            )
            for number in {number for other in known for number, _ in self._by_name_word[other]}:
                shared[number] += 1
                letters[number] += len(word)
        enough = [number for number, count in shared.items() if 2 * count >= len(words)]
        return sorted(
            enough, key=lambda number: (-shared[number], -letters[number], len(self._skills[number].name), number)
        )


def _skill_text(skill: Skill) -> str:
    return f"{skill.description} {skill.manifest.when_to_use or ''}"[:_TEXT_CHARACTERS]


def _mark_meanings(meanings: Iterable[str | None]) -> list[str]:
    """Meanings as terms, each once: who says it in two words does not mean it twice."""
    return [_MEANS + meaning for meaning in dict.fromkeys(meanings) if meaning]


def _merge_scores(
    join: Callable[[float, float], float], one: dict[int, float], other: dict[int, float]
) -> dict[int, float]:
    for number, score in other.items():
        one[number] = join(one[number], score) if number in one else score
    return one


def _scale_by_share(scores: dict[int, float], matched: Counter[int], words: int, factor: float) -> dict[int, float]:
    # Half of a score depends on how many of the words are there, so that one strong word does not beat them all.
    counts = range(max(matched.values(), default=-1) + 1)
    shares = [factor * min(1.0, 0.5 + 0.5 * count / words) for count in counts]
    return {number: score * shares[matched[number]] for number, score in scores.items()}
