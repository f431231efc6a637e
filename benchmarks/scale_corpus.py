"""Very many skills in little time: front matter shaped like that of real ones, bodies that many of them share."""

import math
import os
import random
from collections.abc import Sequence
from itertools import accumulate, product
from pathlib import Path

from openskills.catalog.catalog import Catalog
from openskills.settings import Settings

SEED = 20261115
_VERBS = ("merge", "split", "convert", "check", "index", "plot", "clean", "route", "extract", "label", "compare")
_NOUNS = ("pdf", "csv", "image", "log", "mail", "chart", "report", "invoice", "schema", "ticket", "audio", "map")
_ONSETS, _NUCLEI, _CODAS = (
    ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v"],
    ["a", "e", "i", "o", "u", "ai", "ou"],
    ["", "n", "r", "st"],
)
_BODIES = 50


def build(target: Path, numbers: range) -> None:
    """Write the skills of these numbers below `target`. The same numbers always give the same bytes."""
    target.mkdir(parents=True)
    dice = random.Random(SEED + numbers.start)
    words = vocabulary()
    weights = list(accumulate(1 / (rank + 3) for rank in range(len(words))))
    bodies = [_text(dice, words, weights, _size(dice, 1_600, 1.2, 20_000)) for _ in range(_BODIES)]
    for number in numbers:
        name = f"{dice.choice(_VERBS)}-{dice.choice(_NOUNS)}-{number:06d}"
        description = _text(dice, words, weights, _size(dice, 150, 0.8, 900))[:900].strip()
        folder = target / name
        folder.mkdir()
        front = f"name: {name}\ndescription: {description}. Use when the user mentions {dice.choice(_NOUNS)}.\n"
        (folder / "SKILL.md").write_text(f"---\n{front}---\n\n# {name}\n\n{dice.choice(bodies)}\n", encoding="utf-8")


def few(scratch: Path, count: int) -> tuple[Catalog, Settings]:
    """So many skills below a directory, for a user who has his home there."""
    build(scratch / "skills", range(count))
    settings = Settings.from_env({"HOME": str(scratch), "PATH": os.defpath})
    return Catalog.from_paths(scratch / "skills", settings=settings), settings


def vocabulary() -> list[str]:
    """Some thousand made-up words, the same ones every time, which are used as often as real ones: by Zipf's law."""
    syllables = ["".join(parts) for parts in product(_ONSETS, _NUCLEI, _CODAS)]
    dice = random.Random(SEED)
    return list(dict.fromkeys("".join(dice.choices(syllables, k=dice.randint(1, 3))) for _ in range(8_000)))


def _size(dice: random.Random, median: float, spread: float, max_size: int) -> int:
    return int(min(max_size, math.exp(dice.gauss(math.log(median), spread))))


def _text(dice: random.Random, words: Sequence[str], weights: Sequence[float], size: int) -> str:
    return " ".join(dice.choices(words, cum_weights=weights, k=max(size // 7, 2)))
