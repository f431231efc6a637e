"""The ways of finding a skill that are compared: ours, shared words, and an embedding model."""

import json
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from peer_process import Installed, peer_process
from selection_data import LabelledSkill
from selection_figures import DEPTH, Answer, Answers

from openskills.catalog.catalog import Catalog
from openskills.catalog.search import SearchIndex
from openskills.catalog.skill import Skill
from openskills.catalog.vocabulary import Glossary
from openskills.skillmd.manifest import SkillManifest

OURS, BARE, KEYWORDS = "OpenSkill", "OpenSkill without its glossary", "shared words"
EMBEDDING, BOTH = "wordllama", "OpenSkill and wordllama"
EMBEDDING_SHARE = 0.5
"""How much the cosine counts beside our fit where both are used; chosen on the half for choosing."""

_WORD = re.compile("[a-z0-9]+|[\u4e00-\u9fff]")
_WORDLLAMA = Installed("wordllama", "selection", "wordllama")


@dataclass(frozen=True)
class Finder:
    """A way, ready to be asked; `find` answers texts and says how many seconds that took, `indexed` how long before."""

    find: Callable[[Sequence[str]], Awaitable[tuple[list[Answer], float]]]
    indexed: float

    async def answers(self, texts: Sequence[str]) -> Answers:
        """The answer to each text."""
        return dict(zip(texts, (await self.find(texts))[0], strict=True))


def ours(skills: Sequence[LabelledSkill], directory: Path) -> Finder:
    """`Catalog.search` over folders on disk; the score of a hit is its fit."""
    for skill in skills:
        (directory / skill.name).mkdir(parents=True)
        about = json.dumps(skill.description, ensure_ascii=False)
        text = f"---\nname: {skill.name}\ndescription: {about}\n---\n\nDo it.\n"
        (directory / skill.name / "SKILL.md").write_text(text, encoding="utf-8")
    catalog = Catalog.from_paths(str(directory))
    if len(catalog.skills) != len(skills):
        raise RuntimeError(f"{len(skills) - len(catalog.skills)} skills of the set were not found")
    begin = time.perf_counter()
    catalog.search("anything")
    indexed = time.perf_counter() - begin
    return Finder(_timed(lambda text: [(hit.skill.name, hit.fit) for hit in catalog.search(text, DEPTH)]), indexed)


def without_glossary(skills: Sequence[LabelledSkill]) -> Finder:
    """Our search with no words that mean the same."""
    known = [Skill(SkillManifest(skill.name, skill.description), directory="", source="set") for skill in skills]
    begin = time.perf_counter()
    index = SearchIndex(known, Glossary(()))
    indexed = time.perf_counter() - begin
    return Finder(_timed(lambda text: [(hit.skill.name, hit.fit) for hit in index.search(text, DEPTH)]), indexed)


def shared_words(skills: Sequence[LabelledSkill]) -> Finder:
    """How many different words a request has in common with name and description; Chinese characters are words."""
    begin = time.perf_counter()
    known = [(skill.name, _words(f"{skill.name} {skill.description}")) for skill in skills]
    indexed = time.perf_counter() - begin

    def rank(text: str) -> Answer:
        asked = _words(text)
        counted = sorted((-len(asked & words), name) for name, words in known if not asked.isdisjoint(words))
        return [(name, float(-count)) for count, name in counted[:DEPTH]]

    return Finder(_timed(rank), indexed)


@asynccontextmanager
async def embedding(skills: Sequence[LabelledSkill]) -> AsyncGenerator[Finder]:
    """wordllama with the model in its package: the cosine of a request and of name and description."""
    async with peer_process(_WORDLLAMA, "selection_embedding.py", variables={"HF_HUB_OFFLINE": "1"}) as peer:
        texts = [f"{skill.name.replace('-', ' ')}. {skill.description}" for skill in skills]
        indexed = (await peer.ask({"do": "index", "texts": texts}))["seconds"]

        async def find(queries: Sequence[str]) -> tuple[list[Answer], float]:
            told = await peer.ask({"do": "rank", "queries": list(queries), "limit": DEPTH})
            ranked: list[list[tuple[int, float]]] = told["answers"]
            return [[(skills[number].name, cosine) for number, cosine in one] for one in ranked], told["seconds"]

        yield Finder(find, indexed)


def together(one: Answers, other: Answers) -> Answers:
    """Our fit and a share of the cosine, for the first of both; who is not among the nearest is as near as the last."""
    return {text: _mixed(dict(answer), dict(other[text])) for text, answer in one.items()}


def _mixed(fits: dict[str, float], cosines: dict[str, float]) -> Answer:
    least = min(cosines.values(), default=0.0)
    names = sorted({*fits, *cosines})
    scores = [(name, fits.get(name, 0.0) + EMBEDDING_SHARE * cosines.get(name, least)) for name in names]
    return sorted(scores, key=lambda pair: (-pair[1], pair[0]))[:DEPTH]


def _timed(rank: Callable[[str], Answer]) -> Callable[[Sequence[str]], Awaitable[tuple[list[Answer], float]]]:
    async def find(texts: Sequence[str]) -> tuple[list[Answer], float]:
        begin = time.perf_counter()
        answers = [rank(text) for text in texts]
        return answers, time.perf_counter() - begin

    return find


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))
