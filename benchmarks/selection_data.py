"""The labelled set of `benchmarks/selection/`: skills in families, requests for them, and requests for none.

`skills.jsonl` and `written.jsonl` were written by hand; `varied.jsonl` comes from `selection_variations.py`.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent / "selection"
VERSION = 1
SEED = 20261116

HALVES = ("dev", "test")
WRITTEN_KINDS = ("direct", "paraphrase", "near")
VARIED_KINDS = ("typo", "noise")
NEEDLESS_KINDS = ("chat", "knowledge", "lookalike")
"""Requests that need no skill: talk, what anybody knows, and what only shares words with a skill."""

_HAN = re.compile("[\u4e00-\u9fff]")


@dataclass(frozen=True)
class LabelledSkill:
    """A skill of the set. Members of a family are near neighbours of each other."""

    name: str
    family: str
    description: str

    @property
    def language(self) -> str:
        """The language of the description."""
        return language_of(self.description)


@dataclass(frozen=True)
class Request:
    """What somebody asks for, and the skill that is right; None when no skill is.

    `beside` is the skill that it is easily taken for. Requests of the half `dev` are for choosing, of `test` for
    reporting.
    """

    kind: str
    skill: str | None
    text: str
    half: str
    beside: str | None = None

    @property
    def language(self) -> str:
        """The language that it is written in."""
        return language_of(self.text)


@dataclass(frozen=True)
class LabelledSet:
    """All of it."""

    skills: Sequence[LabelledSkill]
    requests: Sequence[Request]

    def of(self, half: str) -> list[Request]:
        """The requests of one half."""
        return [request for request in self.requests if request.half == half]


def load(directory: Path = HERE) -> LabelledSet:
    """The set as it is stored."""
    skills = read_skills(directory)
    rows = [*read_rows(directory / "written.jsonl"), *read_rows(directory / "varied.jsonl")]
    return LabelledSet(skills, with_halves(rows, {skill.name: skill.family for skill in skills}))


def with_halves(rows: Sequence[Mapping[str, Any]], families: Mapping[str, str]) -> list[Request]:
    """Requests in their halves: all of one family in the same, so that nothing learnt from one helps the other."""
    half_of = _alternately(set(families.values()))
    for kind in NEEDLESS_KINDS:
        for language in ("en", "zh"):
            texts = [row["text"] for row in rows if row["kind"] == kind and language_of(row["text"]) == language]
            half_of |= _alternately(texts)
    return [
        Request(
            row["kind"], row["skill"], row["text"], half_of[families.get(row["skill"], row["text"])], row.get("beside")
        )
        for row in rows
    ]


def language_of(text: str) -> str:
    """`zh` for a text with Chinese characters, `en` for any other."""
    return "zh" if _HAN.search(text) else "en"


def read_skills(directory: Path = HERE) -> list[LabelledSkill]:
    """The skills of the set."""
    return [LabelledSkill(**row) for row in read_rows(directory / "skills.jsonl")]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of JSON Lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def by_family(skills: Iterable[LabelledSkill]) -> dict[str, list[str]]:
    """The names of each family."""
    found = defaultdict[str, list[str]](list)
    for skill in skills:
        found[skill.family].append(skill.name)
    return dict(found)


def _alternately(words: Iterable[str]) -> dict[str, str]:
    """Every other one for `dev`, in an order that means nothing and is always the same."""
    shuffled = sorted(words, key=lambda word: hashlib.sha256(f"{SEED}:{word}".encode()).hexdigest())
    return {word: HALVES[number % 2] for number, word in enumerate(shuffled)}
