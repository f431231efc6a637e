"""Ranked search (BM25) over names, keywords and descriptions of skills, in English and Chinese, offline."""

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
    """One word, or the character pairs of a Chinese word. `meaning` is its glossary group, if any."""

    words: tuple[str, ...]
    meaning: str | None = None

    @property
    def is_common(self) -> bool:
        """Whether it is a word such as "the"."""
        return self.words[0] in STOP_WORDS and len(self.words) == 1


def parse_query(query: str, known: Callable[[str], bool], glossary: Glossary) -> list[QueryTerm]:
    """The distinct terms of the first 1,000 characters of a query, in order.

    `known` says whether a stem is in the index: `openApi` is split at its capitals unless it is known as a whole.
    """
    query = query[:_MAX_QUERY_CHARACTERS]
    words, runs = split_text(fold(query))
    if len(parts := split_text(fold(split_humps(query)))[0]) > len(words):
        words = [part for word in words for part in ([word] if known(stem(word)) else parts)]
    found = [QueryTerm((word,), glossary.find_meaning(stem(word))) for word in words]
    for run in runs:
        pairs = split_pairs(run)[:-1] or [run]
        at = 0
        for start, end, meaning in glossary.find_meanings(run):
            found += [QueryTerm((pair,)) for pair in pairs[at:start]]
            found.append(QueryTerm(tuple(pairs[start : end - 1]), meaning))
            at = end - 1
        found += [QueryTerm((pair,)) for pair in pairs[at:]]
    return list(dict.fromkeys(found))


_Postings: TypeAlias = list[tuple[int, float]]
"""The skills that contain a term, each with its weight."""

_Matches: TypeAlias = list[tuple[_Postings, float]]
"""The postings that a word matches, each with a factor below 1 for a similar word."""

# How much of a text and of a query is used; more would cost time and hardly change the ranking.
_TEXT_CHARACTERS = 8_000
_NAME_CHARACTERS = 1_000
_NAME_WORDS = 32
_QUERY_WORDS = 48
_QUERY_CORRECTIONS = 16
_PREFIX_WORDS = 12

# BM25's usual constants; the others were tuned on one half of the set in benchmarks/selection, within the queries of
# the tests: whole sentences need less weight on names, single words more.
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

# No word starts with it, so that meanings can be terms beside words.
_MEANS = "≈"


@dataclass(frozen=True, slots=True)
class Hit:
    """A skill that matches a query. Scores are comparable within one query only.

    `fit`, from 0 to 1, is comparable across queries; below 0.5 the skill is probably not what was asked for.
    """

    skill: Skill
    score: float
    fit: float


class SearchIndex:
    """A search index over skills, safe to use from many threads.

    Rare terms count more; names count most, then keywords, then description and `when_to_use`. Text that says what a
    skill is not for does not count. English words match in their plural, -ing and -ed forms and with a typo, name words
    also by prefix; Chinese matches by character pairs. Words of one glossary group match each other with less weight.
    Stop words, and words that most of many skills have, count only if nothing else of the query matches.
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

        A skill whose name is the query comes first. Only the first 1,000 characters and 48 matching words of the query
        count. Raises `InvalidArgument` if `limit` is less than 1.
        """
        if limit < 1:
            raise InvalidArgument("limit", f"{limit} is too small; use at least 1")
        terms = parse_query(query, self._postings.__contains__, self._glossary)
        scores = self._score_terms([term for term in terms if not self._is_common(term)])
        scores = scores or self._score_terms(terms, _LITTLE_FACTOR)
        same = self._put_same_name_first(query, scores)
        best = heapq.nsmallest(limit, [(-score, number) for number, score in scores.items()])
        # The score of one very rare word is a fit of 0.5: above it, most best hits in benchmarks/selection are right.
        # It also makes catalogs of different sizes comparable.
        even = self._rarity([])
        return tuple(
            Hit(self._skills[number], -score, 1.0 if number in same else score / (score - even))
            for score, number in best
        )

    def find_similar_names(self, name: str, limit: int = 3) -> tuple[str, ...]:
        """Suggestions for an unknown name, best first: nearly the same spelling, then shared words."""
        name = name[:_NAME_CHARACTERS]
        close = [squeeze(name)]
        if close[0] not in self._by_squeezed:
            close = [word for _, word in self._squeezed.find_nearest(close[0])]
        numbers = [number for word in close for number in self._by_squeezed[word]]
        numbers += self._rank_by_shared_words(split_name(name)[:_NAME_WORDS])
        return tuple(dict.fromkeys(self._skills[number].name for number in numbers))[: max(limit, 0)]

    def _build_index(self) -> None:
        described = (f"{skill.description} {skill.manifest.when_to_use or ''}" for skill in self._skills)
        texts = [self._extract_terms(remove_denials(text[:_TEXT_CHARACTERS])) for text in described]
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
                # Most terms occur once in a text: they share one entry, which saves half of the memory.
                self._postings[term].append(once if impact == once[1] else (number, impact))

    def _index_name(self, number: int, name: str, impacts: dict[str, float]) -> None:
        words = split_name(name[:_TEXT_CHARACTERS])
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
        # Created for the first unknown word: many searches never need it.
        return Vocabulary((term for term in self._postings if len(term) > 3 and term.isascii()), max_edits=1)

    def _score_terms(self, terms: Sequence[QueryTerm], factor: float = 1.0) -> dict[int, float]:
        scores: dict[int, float] = {}
        matched: Counter[int] = Counter()
        left, corrections = _QUERY_WORDS, _QUERY_CORRECTIONS
        for term in terms:
            found = self._score_term(term)
            if not found and corrections and edit_tolerance(term.words[0]):
                corrections -= 1
                found = self._sum_best([self._match_similar(term.words[0])])
            for number, score in found.items():
                scores[number] = scores.get(number, 0.0) + score
            for _ in term.words if found else ():
                matched.update(found.keys())
            left -= bool(found)
            if not left:
                break
        # Half of a score depends on how many of the words match, so that one strong word does not beat them all.
        words = sum(len(term.words) for term in terms)
        counts = range(max(matched.values(), default=-1) + 1)
        shares = [factor * min(1.0, 0.5 + 0.5 * count / words) for count in counts]
        return {number: score * shares[matched[number]] for number, score in scores.items()}

    def _score_term(self, term: QueryTerm) -> dict[int, float]:
        """The score of a term for each skill that has it or a word of the same meaning."""
        found = self._sum_best([self._match_word(word) for word in term.words])
        postings = self._postings.get(_MEANS + term.meaning, []) if term.meaning else []
        if postings and len(postings) <= self._min_common_count(8):
            weight = len(term.words) * _MEANING_FACTOR * self._rarity(postings)
            for number, impact in postings:
                if (score := weight * impact) > found.get(number, 0.0):
                    found[number] = score
        return found

    def _sum_best(self, words: Iterable[_Matches]) -> dict[int, float]:
        """The sum over words of the best match of each."""
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
        # A word of most skills of a large catalog hardly changes the ranking and costs the most time.
        return max(200, len(self._skills) // share)

    def _is_common(self, term: QueryTerm) -> bool:
        limit = self._min_common_count(2)
        return term.is_common or all(len(self._postings.get(stem(word), ())) > limit for word in term.words)

    def _match_word(self, word: str) -> _Matches:
        if len(word) == 1 and not word.isascii():
            return [(self._postings[pair], 1.0) for pair in self._pairs.get(word, ())]
        term = stem(word)
        found = [(self._postings[term], 1.0)] if term in self._postings else []
        if len(word) > 2:
            found += [(self._by_name_word[other], _PREFIX_FACTOR) for other in self._find_by_prefix(word, term)]
        return found

    def _match_similar(self, word: str) -> _Matches:
        """Matches for an unknown word: a typo in a name, a longer form (`converter`, `convert`), a typo in a text."""
        in_names = self._name_words.find_nearest(word)
        if in_names:
            return [(self._postings[stem(other)], _TYPO_FACTOR**cost) for cost, other in in_names]
        term = stem(word)
        for cut in range(1, min(3, len(term) - 4) + 1):
            if (shorter := term[:-cut]) in self._postings:
                return [(self._postings[shorter], _STEM_FACTOR)]
        # Short words have many neighbours of another meaning in texts.
        if len(word) <= 4:
            return []
        in_texts = self._text_words.find_nearest(term) or self._text_words.find_nearest(word)
        return [(self._postings[other], _TEXT_TYPO_FACTOR) for _, other in in_texts]

    def _find_by_prefix(self, word: str, term: str) -> list[str]:
        found = self._name_words.find_by_prefix(word, _PREFIX_WORDS)
        if term != word and len(term) > 3:
            found += self._name_words.find_by_prefix(term, _PREFIX_WORDS)
        # Not a set: the order of a sum of floats must be the same in every process.
        return [other for other in dict.fromkeys(found) if stem(other) != term]

    def _put_same_name_first(self, query: str, scores: dict[int, float]) -> Sequence[int]:
        best = max(scores.values(), default=0.0)
        same = self._by_squeezed.get(squeeze(query[:_NAME_CHARACTERS]) or " ", ())
        for number in same:
            rank = 2 if self._skills[number].name == query.strip() else 1
            scores[number] = (rank + 1) * best + rank
        return same

    def _rank_by_shared_words(self, words: Sequence[str]) -> list[int]:
        """Skills with at least half of these words in their name, most words first, then the shortest name."""
        shared: Counter[int] = Counter()
        letters: Counter[int] = Counter()
        for word in words:
            known = [word]
            if word not in self._by_name_word:
                known = [other for _, other in self._name_words.find_nearest(word)]
            for number in {number for other in known for number, _ in self._by_name_word[other]}:
                shared[number] += 1
                letters[number] += len(word)
        enough = [number for number, count in shared.items() if 2 * count >= len(words)]
        return sorted(
            enough, key=lambda number: (-shared[number], -letters[number], len(self._skills[number].name), number)
        )


def _mark_meanings(meanings: Iterable[str | None]) -> list[str]:
    """Meanings as terms, each once."""
    return [_MEANS + meaning for meaning in dict.fromkeys(meanings) if meaning]


def _merge_scores(
    join: Callable[[float, float], float], one: dict[int, float], other: dict[int, float]
) -> dict[int, float]:
    for number, score in other.items():
        one[number] = join(one[number], score) if number in one else score
    return one
