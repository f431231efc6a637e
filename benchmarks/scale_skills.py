"""What more and more skills cost: finding them, looking again, listing them, searching them, building a request."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import scale_corpus
from context_talk import SYSTEM
from running_part import Part, Surroundings
from sampling import Way
from scale_costs import Costs, Growing
from scale_curve import FLAT, LINEAR, timing
from scale_sizes import sizes_of

from openskills.catalog.catalog import Catalog
from openskills.catalog.search import SearchIndex
from openskills.prompt.overview import overview
from openskills.runtime.runtime import SkillRuntime
from openskills.settings import Settings

MAX_IN_ONE = 30_000
BUDGET = 8_000
QUERIES = ("merge the pdf and report", "route an invoice", "convret an imgae", "kain tast", "check-mail-000003")
REQUESTS = 20

_ABOUT = f"""
Synthetic skills with front matter and bodies as long as those of real ones, in folders of at most {MAX_IN_ONE:,},
because discovery searches at most 50,000 directories of a folder. "First discovery" starts without an index, "found
by the index" is a later process, "refresh" checks whether anything has changed, and "refresh, one changed" finds one
changed file. The list is limited to {BUDGET:,} tokens. "Search" answers {len(QUERIES)} queries, including one with
typing errors, one with rare words, and one that is a name; its index is built at the first search. The request is
`session.context` of a short conversation when nothing has changed. The largest sizes are measured less often.
"""


@dataclass(frozen=True)
class Library:
    """Some skills, and a catalog of them."""

    folders: Sequence[Path]
    catalog: Catalog
    index: SearchIndex
    home: Path

    def found(self, *, index: bool) -> Catalog:
        """The same skills, found anew."""
        return Catalog.from_paths(*self.folders, settings=_settings(self.home, index=index))


async def measure(at: Surroundings) -> Part:
    """Every cost, over all sizes."""
    libraries = _libraries(at, sizes_of(at.extent).skills)
    growing = Growing("Skills", _ABOUT, "Time by number of skills", "skills", _COSTS)
    return await growing.measured(libraries, at)


def _libraries(at: Surroundings, sizes: Sequence[int]) -> Mapping[int, Library]:
    """One for each size; a larger one has the skills of the smaller ones, too."""
    at.say(f"skills: writing {sizes[-1]:,} of them")
    folders: list[Path] = []
    found: dict[int, Library] = {}
    written = 0
    for size in sizes:
        while written < size:
            folders.append(at.scratch / f"skills-{len(folders)}")
            upto = min(size, written + MAX_IN_ONE)
            scale_corpus.build(folders[-1], range(written, upto))
            written = upto
        home = at.scratch / f"home-{size}"
        home.mkdir()
        catalog = Catalog.from_paths(*folders, settings=_settings(home, index=True))
        if len(catalog.skills) != size:
            raise RuntimeError(f"{len(catalog.skills)} of {size} skills were found: {catalog.problems[:3]}")
        found[size] = Library(tuple(folders), catalog, SearchIndex(catalog.skills), home)
    return found


def _settings(home: Path, *, index: bool) -> Settings:
    return Settings.from_env({"HOME": str(home), "PATH": os.defpath, "OPENSKILL_INDEX": str(int(index))})


async def _first(library: Library, _: AsyncExitStack) -> Way:
    return timing(lambda: library.found(index=False))


async def _by_index(library: Library, _: AsyncExitStack) -> Way:
    return timing(lambda: library.found(index=True))


async def _refresh(library: Library, _: AsyncExitStack) -> Way:
    return timing(library.catalog.refresh)


async def _refresh_changed(library: Library, _: AsyncExitStack) -> Way:
    file = min(library.folders[0].glob("*/SKILL.md"))
    refresh = timing(library.catalog.refresh)

    async def once() -> float:
        with file.open("a", encoding="utf-8") as open_file:
            open_file.write("\nOne line more.\n")
        return await refresh()

    return once


async def _list(library: Library, _: AsyncExitStack) -> Way:
    return timing(lambda: overview(library.catalog.skills, budget_tokens=BUDGET))


async def _index(library: Library, _: AsyncExitStack) -> Way:
    return timing(lambda: SearchIndex(library.catalog.skills))


async def _search(library: Library, _: AsyncExitStack) -> Way:
    return timing(lambda: [library.index.search(query) for query in QUERIES])


async def _request(library: Library, stack: AsyncExitStack) -> Way:
    settings = _settings(library.home, index=True)
    runtime = await stack.enter_async_context(SkillRuntime(library.catalog, settings=settings))
    session = await stack.enter_async_context(runtime.session("one"))
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Which skill merges reports?"}]
    return timing(lambda: session.context(messages), times=REQUESTS)


_COSTS: Costs[Library] = {
    "first discovery": (_first, LINEAR),
    "with the index": (_by_index, LINEAR),
    "refresh": (_refresh, LINEAR),
    "refresh, one changed": (_refresh_changed, LINEAR),
    "list": (_list, LINEAR),
    "index for search": (_index, LINEAR),
    "search": (_search, LINEAR),
    "request": (_request, FLAT),
}
