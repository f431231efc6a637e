"""Ranked search over many skills: names, keywords and descriptions, in English and Chinese, without a network."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from operator import itemgetter
from typing import TypeAlias

from openskills.catalog.skill import Skill
from openskills.catalog.words import STOP_WORDS, Vocabulary, fold, name_words, pairs, pieces, split_humps, squeeze, stem
from openskills.errors import InvalidArgument

_Postings: TypeAlias = list[tuple[int, float]]
"""In which skills a term stands, and how much it says there."""

# What is looked at of one text and of one query; more would cost time and hardly change the order.
_TEXT_CHARACTERS = 8_000
_QUERY_CHARACTERS = 1_000
_QUERY_TERMS = 32
_PREFIX_WORDS = 12

_NUMBER = itemgetter(0)

# BM25's usual constants; the boosts were chosen with the table of queries in the tests.
_SATURATION = 1.2
_LENGTH_SHARE = 0.6
_NAME_BOOST = 2.5
_KEYWORD_BOOST = 1.5
_PREFIX_FACTOR = 0.5
_TYPO_FACTOR = 0.7
_STEM_FACTOR = 0.5


@dataclass(frozen=True, slots=True)
class Hit:
    """A skill that matches a query; a higher score is a better match, and means nothing across queries."""

    skill: Skill
    score: float


class SearchIndex:
    """A snapshot of skills, ready to be searched from any number of threads.

    A term counts more the rarer it is, most in a name, then in keywords, then in description and `when_to_use`.
    English words match in their plural, -ing and -ed forms, name words also by their beginning and with a typo;
    Chinese matches by pairs of characters. Words such as "the", and words that most of many skills have, count only
    where nothing else of a query matches.
    """

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = sorted(skills, key=lambda skill: (skill.name, skill.directory))
        self._postings = defaultdict[str, _Postings](list)
        self._by_name_word = defaultdict[str, _Postings](list)
        self._by_squeezed = defaultdict[str, list[int]](list)
        self._index()
        self._name_words = Vocabulary(self._by_name_word)
        self._squeezed = Vocabulary(self._by_squeezed)
        self._pairs: dict[str, list[str]] = {}
        for term in self._postings:
            if not term.isascii():
                self._pairs.setdefault(term[0], []).append(term)

    def search(self, query: str, limit: int = 10) -> tuple[Hit, ...]:
        """The best matches, best first, equal scores by name; nothing for an empty query.

        A skill whose name is the query comes first, whatever else matches. Only the first 1,000 characters and 32
        different words of a query count. Raises `InvalidArgument` if `limit` is less than 1.
        """
        if limit < 1:
            raise InvalidArgument("limit", f"{limit} is too small; ask for at least 1 result")
        query = query[:_QUERY_CHARACTERS]
        scores = self._scores(query)
        self._put_same_name_first(query, scores)
        best = heapq.nsmallest(limit, [(-score, number) for number, score in scores.items()])
        return tuple(Hit(self._skills[number], -score) for score, number in best)

    def near(self, name: str, limit: int = 3) -> tuple[str, ...]:
        """The names somebody may have meant by `name`, best first: one that is nearly the same, then shared words."""
        name = name[:_QUERY_CHARACTERS]
        squeezed = squeeze(name)
        close = [squeezed] if squeezed in self._by_squeezed else [word for _, word in self._squeezed.nearest(squeezed)]
        numbers = [number for word in close for number in self._by_squeezed[word]]
        numbers += self._sharing_words(name_words(name)[:_QUERY_TERMS])
        return tuple(dict.fromkeys(self._skills[number].name for number in numbers))[: max(limit, 0)]

    # Building

    def _index(self) -> None:
        texts = [_terms(f"{skill.description} {skill.manifest.when_to_use or ''}") for skill in self._skills]
        average = sum(map(len, texts)) / len(texts) if texts else 0.0
        for number, (skill, terms) in enumerate(zip(self._skills, texts, strict=True)):
            flat = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * len(terms) / (average or 1.0))
            once = (number, (_SATURATION + 1) / (1 + flat))
            impacts = dict.fromkeys(terms, once[1])
            if len(impacts) < len(terms):
                repeated = ((term, count) for term, count in Counter(terms).items() if count > 1)
                impacts.update((term, count * (_SATURATION + 1) / (count + flat)) for term, count in repeated)
            for term in dict.fromkeys(_terms(" ".join(skill.manifest.keywords))):
                impacts[term] = impacts.get(term, 0.0) + _KEYWORD_BOOST
            self._index_name(number, skill.name, impacts)
            for term, impact in impacts.items():
                # Most terms stand once in a text: they share one entry, which saves half of the memory.
                self._postings[term].append(once if impact == once[1] else (number, impact))

    def _index_name(self, number: int, name: str, impacts: dict[str, float]) -> None:
        words = name_words(name[:_TEXT_CHARACTERS])
        # The share of a word in a long name is smaller.
        boost = _NAME_BOOST / sqrt(len(words) or 1)
        for word in words:
            self._by_name_word[word].append((number, boost))
        for term in dict.fromkeys(map(stem, words)):
            impacts[term] = impacts.get(term, 0.0) + boost
        self._by_squeezed[squeeze(name[:_TEXT_CHARACTERS])].append(number)

    # Searching

    def _scores(self, query: str) -> dict[int, float]:
        words, runs = pieces(fold(query))
        if len(parts := pieces(fold(split_humps(query)))[0]) > len(words):
            words = [part for word in words for part in ([word] if stem(word) in self._postings else parts)]
        terms = list(dict.fromkeys([*words, *(term for run in runs for term in _query_pairs(run))]))[:_QUERY_TERMS]
        telling = [term for term in terms if not self._says_little(term)]
        return self._sum(telling) or self._sum(terms)

    def _sum(self, words: Sequence[str]) -> dict[int, float]:
        scores: dict[int, float] = {}
        matched: Counter[int] = Counter()
        for word in words:
            for postings, factor in self._matches(word):
                weight = factor * self._rarity(postings)
                matched.update(map(_NUMBER, postings))
                for number, impact in postings:
                    scores[number] = scores.get(number, 0.0) + weight * impact
        # Half of a score depends on how many of the words are there, so that one strong word does not beat them all.
        counts = range(max(matched.values(), default=-1) + 1)
        shares = [min(1.0, 0.5 + 0.5 * count / len(words)) for count in counts]
        return {number: score * shares[matched[number]] for number, score in scores.items()}

    def _rarity(self, postings: _Postings) -> float:
        return log(1 + (len(self._skills) - len(postings) + 0.5) / (len(postings) + 0.5))

    def _says_little(self, term: str) -> bool:
        # A word of most skills of a large catalog hardly changes the order and costs the most time.
        return term in STOP_WORDS or len(self._postings.get(stem(term), ())) > max(200, len(self._skills) // 2)

    def _matches(self, word: str) -> list[tuple[_Postings, float]]:
        """What a word of a query stands for, each with a factor below 1 if it is only like the word."""
        term = stem(word)
        found = [(self._postings[term], 1.0)] if term in self._postings else []
        if len(word) == 1 and not word.isascii():
            return [(self._postings[pair], 1.0) for pair in self._pairs.get(word, ())]
        if len(word) > 2:
            found += [(self._by_name_word[other], _PREFIX_FACTOR) for other in self._beginning_with(word, term)]
        return found or self._misspelled(word) or self._longer_form(term)

    def _beginning_with(self, word: str, term: str) -> list[str]:
        found = self._name_words.starting(word, _PREFIX_WORDS)
        if term != word and len(term) > 3:
            found += self._name_words.starting(term, _PREFIX_WORDS)
        # No set: the order of a sum of floats must be the same in every process.
        return [other for other in dict.fromkeys(found) if stem(other) != term]

    def _misspelled(self, word: str) -> list[tuple[_Postings, float]]:
        return [(self._postings[stem(other)], _TYPO_FACTOR**cost) for cost, other in self._name_words.nearest(word)]

    def _longer_form(self, term: str) -> list[tuple[_Postings, float]]:
        """`converter` finds `convert`: the longest known term that is `term` without up to three last letters."""
        shorter = (term[:-cut] for cut in range(1, min(3, len(term) - 4) + 1))
        return [(self._postings[known], _STEM_FACTOR) for known in shorter if known in self._postings][:1]

    def _put_same_name_first(self, query: str, scores: dict[int, float]) -> None:
        best = max(scores.values(), default=0.0)
        for number in self._by_squeezed.get(squeeze(query) or " ", ()):
            rank = 2 if self._skills[number].name == query.strip() else 1
            scores[number] = (rank + 1) * best + rank

    def _sharing_words(self, words: Sequence[str]) -> list[int]:
        """Skills with at least half of these words in their name, with most of them first, then the shortest name."""
        shared: Counter[int] = Counter()
        letters: Counter[int] = Counter()
        for word in words:
            known = [word] if word in self._by_name_word else [other for _, other in self._name_words.nearest(word)]
            for number in {number for other in known for number, _ in self._by_name_word[other]}:
                shared[number] += 1
                letters[number] += len(word)
        enough = [number for number, count in shared.items() if 2 * count >= len(words)]
        return sorted(
            enough, key=lambda number: (-shared[number], -letters[number], len(self._skills[number].name), number)
        )


def _terms(text: str) -> list[str]:
    words, runs = pieces(fold(text[:_TEXT_CHARACTERS]))
    terms = [stem(word) for word in words]
    for run in runs:
        terms += pairs(run)
    return terms


def _query_pairs(run: str) -> list[str]:
    return pairs(run)[:-1] or [run]
