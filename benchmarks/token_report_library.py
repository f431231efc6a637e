"""A library whose documents, too, are shaped like those of the 134 real skills that were measured."""

import math
import random
from pathlib import Path

import corpus

_MORE = 0.05
"""The corpus gives documents to fewer skills than 19 of 134; so many more get some."""

_DOCUMENTS = 7
"""How many a skill has that has any, on average: 133 in 19 of 134 skills."""


def build(target: Path, count: int) -> None:
    """The skills of the corpus with other documents: 4.4 KB in the median, 16.7 KB at the ninth decile, 144 KB at most.

    The same arguments always give the same bytes.
    """
    corpus.build(target, count)
    for number, folder in enumerate(sorted(target.iterdir())):
        dice = random.Random(5 * corpus.SEED + number)
        if (folder / "references").is_dir() or dice.random() < _MORE:
            _write(folder / "references", dice)


def _write(folder: Path, dice: random.Random) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(dice.randint(1, 2 * _DOCUMENTS - 1)):
        length = int(min(144_000, math.exp(dice.gauss(math.log(4400), 1.04))))
        (folder / f"part{number}.md").write_text(f"# Part {number}\n\n{corpus.prose(dice, length)}\n", encoding="utf-8")
