"""A query as the things that it asks for: words and Chinese pairs of characters, with what they mean. Pure."""

from collections.abc import Callable
from typing import NamedTuple

from openskills.catalog.glossary import Glossary
from openskills.catalog.words import STOP_WORDS, fold, pairs, pieces, split_humps, stem

_CHARACTERS = 1_000


class Ask(NamedTuple):
    """One word: itself, or the pairs of characters of a Chinese one. `meaning` is its group of the glossary, if any."""

    words: tuple[str, ...]
    meaning: str | None = None

    @property
    def says_little(self) -> bool:
        """Whether it is a word such as "the"."""
        return self.words[0] in STOP_WORDS and len(self.words) == 1


def asks_of(query: str, known: Callable[[str], bool], glossary: Glossary) -> list[Ask]:
    """What a query asks for, each once, in its order; of a query of more than 1,000 characters the beginning.

    `known` says whether a stem is one of the index: `openApi` is cut at its humps unless it is known as a whole.
    """
    query = query[:_CHARACTERS]
    words, runs = pieces(fold(query))
    if len(parts := pieces(fold(split_humps(query)))[0]) > len(words):
        words = [part for word in words for part in ([word] if known(stem(word)) else parts)]
    found = [Ask((word,), glossary.meaning(stem(word))) for word in words]
    for run in runs:
        found += _asks_of_run(run, glossary)
    return list(dict.fromkeys(found))


def _asks_of_run(run: str, glossary: Glossary) -> list[Ask]:
    every = pairs(run)[:-1] or [run]
    found: list[Ask] = []
    at = 0
    for start, end, meaning in glossary.meanings_in(run):
        found += [Ask((pair,)) for pair in every[at:start]]
        found.append(Ask(tuple(every[start : end - 1]), meaning))
        at = end - 1
    return [*found, *(Ask((pair,)) for pair in every[at:])]
