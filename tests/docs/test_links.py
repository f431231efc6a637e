"""Links between pages lead somewhere."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.page import ROOT, links, pages

LINKING = [*pages(), ROOT / "AGENTS.md", ROOT / "CHANGELOG.md"]


def dead(page: Path, text: str) -> list[str]:
    """The relative links of a page that lead to nothing, out of the repository, or to an anchor."""
    faults: list[str] = []
    for line, destination in links(text):
        parts = urlsplit(destination)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve()
        place = target.relative_to(ROOT).as_posix() if target.is_relative_to(ROOT) else None
        if parts.fragment or place is None or not target.is_file():
            faults.append(f"{page.relative_to(ROOT)}:{line}: {destination}")
    return faults


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    faults = dead(page, page.read_text("utf-8"))
    assert not faults, "\n".join(faults)


def test_every_page_can_be_reached_from_the_index() -> None:
    waiting = [ROOT / "docs" / "README.md"]
    reached: set[Path] = set()
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = (page.parent.joinpath(to).resolve() for _, to in links(page.read_text("utf-8")) if "://" not in to)
        waiting += [target for target in targets if target.suffix == ".md" and target.is_file()]
    assert not {page for page in pages() if page.is_relative_to(ROOT / "docs")} - reached


def test_dead_links_are_found_and_code_is_no_link() -> None:
    page = ROOT / "docs" / "README.md"
    text = "[a](no.md) ![b](../README.md)\n`[c](no.md)`\n```\n[d](no.md)\n```\n[e](https://example.org/no.md) [f](#g)\n"
    assert dead(page, text) == ["docs/README.md:1: no.md", "docs/README.md:6: #g"]
    assert dead(page, "[out](../../etc)") == ["docs/README.md:1: ../../etc"]
