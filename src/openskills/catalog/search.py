"""Ranked search over many skills: names, keywords and descriptions, in English and Chinese, without a network."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt
from operator import add
from typing import TypeAlias

from openskills.catalog.glossary import Glossary, everyday
from openskills.catalog.query import Ask, asks_of
from openskills.catalog.skill import Skill
from openskills.catalog.words import (
    Vocabulary,
    fold,
    name_words,
    pairs,
    pieces,
    squeeze,
    stem,
    tolerance,
    without_denials,
)
from openskills.errors import InvalidArgument

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
        self._glossary = everyday() if glossary is None else glossary
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

        A skill whose name is the query comes first, whatever else matches. Of a query only the first 1,000 characters
        count, and of these the first 48 different words that skills have. Raises `InvalidArgument` if `limit` is less
        than 1.
        """
        if limit < 1:
            raise InvalidArgument("limit", f"{limit} is too small; ask for at least 1 result")
        asks = asks_of(query, self._postings.__contains__, self._glossary)
        scores = self._sum([ask for ask in asks if not self._says_little(ask)]) or self._sum(asks, _LITTLE_FACTOR)
        same = self._put_same_name_first(query, scores)
        best = heapq.nsmallest(limit, [(-score, number) for number, score in scores.items()])
        # As much as one word can say is an even bet: above it, in the set of benchmarks/selection, most best hits are
        # right. It also makes catalogs of different sizes comparable.
        even = self._rarity([])
        return tuple(
            Hit(self._skills[number], -score, 1.0 if number in same else score / (score - even))
            for score, number in best
        )

    def near(self, name: str, limit: int = 3) -> tuple[str, ...]:
        """The names somebody may have meant by `name`, best first: one that is nearly the same, then shared words."""
        name = name[:_NAME_CHARACTERS]
        squeezed = squeeze(name)
        close = [squeezed] if squeezed in self._by_squeezed else [word for _, word in self._squeezed.nearest(squeezed)]
        numbers = [number for word in close for number in self._by_squeezed[word]]
        numbers += self._sharing_words(name_words(name)[:_NAME_WORDS])
        return tuple(dict.fromkeys(self._skills[number].name for number in numbers))[: max(limit, 0)]

    # Building

    def _index(self) -> None:
        texts = [self._terms(without_denials(_text_of(skill))) for skill in self._skills]
        average = sum(map(len, texts)) / len(texts) if texts else 0.0
        for number, (skill, terms) in enumerate(zip(self._skills, texts, strict=True)):
            flat = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * len(terms) / (average or 1.0))
            once = (number, (_SATURATION + 1) / (1 + flat))
            impacts = dict.fromkeys(terms, once[1])
            if len(impacts) < len(terms):
                repeated = ((term, count) for term, count in Counter(terms).items() if count > 1)
                impacts.update((term, count * (_SATURATION + 1) / (count + flat)) for term, count in repeated)
            for term in dict.fromkeys(self._terms(" ".join(skill.manifest.keywords))):
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
        stems = dict.fromkeys(map(stem, words))
        for term in (*stems, *_marked(map(self._glossary.meaning, stems))):
            impacts[term] = impacts.get(term, 0.0) + boost
        self._by_squeezed[squeeze(name[:_TEXT_CHARACTERS])].append(number)

    def _terms(self, text: str) -> list[str]:
        words, runs = pieces(fold(text[:_TEXT_CHARACTERS]))
        terms = [stem(word) for word in words]
        meanings = [self._glossary.meaning(term) for term in terms]
        for run in runs:
            terms += pairs(run)
            meanings += [meaning for _, _, meaning in self._glossary.meanings_in(run)]
        return terms + _marked(meanings)

    @cached_property
    def _text_words(self) -> Vocabulary:
        # Made when the first unknown word is asked for: many searches never need it.
        return Vocabulary((term for term in self._postings if len(term) > 3 and term.isascii()), most=1)

    # Searching

    def _sum(self, asks: Sequence[Ask], factor: float = 1.0) -> dict[int, float]:
        scores: dict[int, float] = {}
        matched: Counter[int] = Counter()
        left, corrections = _QUERY_WORDS, _QUERY_CORRECTIONS
        for ask in asks:
            found = self._exactly(ask)
            if not found and corrections and tolerance(ask.words[0]):
                corrections -= 1
                found = self._best([self._nearly(ask.words[0])])
            for number, score in found.items():
                scores[number] = scores.get(number, 0.0) + score
            for _ in ask.words if found else ():
                matched.update(found.keys())
            left -= bool(found)
            if not left:
                break
        return _with_share(scores, matched, sum(len(ask.words) for ask in asks), factor)

    def _exactly(self, ask: Ask) -> dict[int, float]:
        """What an ask adds to the score of each skill that has it, or something that means the same."""
        found = self._best([self._matches(word) for word in ask.words])
        postings = self._postings.get(_MEANS + ask.meaning, []) if ask.meaning else []
        if postings and len(postings) <= self._many(8):
            weight = len(ask.words) * _MEANING_FACTOR * self._rarity(postings)
            for number, impact in postings:
                if (score := weight * impact) > found.get(number, 0.0):
                    found[number] = score
        return found

    def _best(self, words: Iterable[_Matches]) -> dict[int, float]:
        """The sum over words of the best that each stands for."""
        found: dict[int, float] = {}
        for matches in words:
            best: dict[int, float] = {}
            for postings, factor in matches:
                weight = factor * self._rarity(postings)
                scores = {number: weight * impact for number, impact in postings}
                best = _joined(max, best, scores) if best else scores
            found = _joined(add, found, best) if found else best
        return found

    def _rarity(self, postings: _Postings) -> float:
        return log(1 + (len(self._skills) - len(postings) + 0.5) / (len(postings) + 0.5))

    def _many(self, share: int) -> int:
        # A word of most skills of a large catalog hardly changes the order and costs the most time.
        return max(200, len(self._skills) // share)

    def _says_little(self, ask: Ask) -> bool:
        most = self._many(2)
        return ask.says_little or all(len(self._postings.get(stem(word), ())) > most for word in ask.words)

    def _matches(self, word: str) -> _Matches:
        """What a word of a query stands for in names and texts."""
        if len(word) == 1 and not word.isascii():
            return [(self._postings[pair], 1.0) for pair in self._pairs.get(word, ())]
        term = stem(word)
        found = [(self._postings[term], 1.0)] if term in self._postings else []
        if len(word) > 2:
            found += [(self._by_name_word[other], _PREFIX_FACTOR) for other in self._beginning_with(word, term)]
        return found

    def _nearly(self, word: str) -> _Matches:
        """What a word that is unknown was probably meant to be."""
        return self._misspelled(word) or self._longer_form(stem(word)) or self._misspelled_text(word)

    def _beginning_with(self, word: str, term: str) -> list[str]:
        found = self._name_words.starting(word, _PREFIX_WORDS)
        if term != word and len(term) > 3:
            found += self._name_words.starting(term, _PREFIX_WORDS)
        # No set: the order of a sum of floats must be the same in every process.
        return [other for other in dict.fromkeys(found) if stem(other) != term]

    def _misspelled(self, word: str) -> _Matches:
        return [(self._postings[stem(other)], _TYPO_FACTOR**cost) for cost, other in self._name_words.nearest(word)]

    def _misspelled_text(self, word: str) -> _Matches:
        # Short words have neighbours that mean something else; those of names are few, those of texts are many.
        near = (self._text_words.nearest(stem(word)) or self._text_words.nearest(word)) if len(word) > 4 else []
        return [(self._postings[other], _TEXT_TYPO_FACTOR) for _, other in near]

    def _longer_form(self, term: str) -> _Matches:
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


def _text_of(skill: Skill) -> str:
    return f"{skill.description} {skill.manifest.when_to_use or ''}"[:_TEXT_CHARACTERS]


def _marked(meanings: Iterable[str | None]) -> list[str]:
    """Meanings as terms, each once: who says it in two words does not mean it twice."""
    return [_MEANS + meaning for meaning in dict.fromkeys(meanings) if meaning]


def _joined(join: Callable[[float, float], float], one: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    for number, score in other.items():
        one[number] = join(one[number], score) if number in one else score
    return one


def _with_share(scores: dict[int, float], matched: Counter[int], words: int, factor: float) -> dict[int, float]:
    # Half of a score depends on how many of the words are there, so that one strong word does not beat them all.
    counts = range(max(matched.values(), default=-1) + 1)
    shares = [factor * min(1.0, 0.5 + 0.5 * count / words) for count in counts]
    return {number: score * shares[matched[number]] for number, score in scores.items()}
