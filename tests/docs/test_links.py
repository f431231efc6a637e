"""Links between pages lead somewhere."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.page import ROOT, links, pages

LINKING = [*pages(), ROOT / "AGENTS.md", ROOT / "CHANGELOG.md"]


def anchors(text: str) -> set[str]:
    """The anchors that GitHub makes from the headings of a page."""
    found: set[str] = set()
    for line in re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).splitlines():
        if heading := re.fullmatch(r"#{1,6} (.+)", line):
            slug = re.sub(r"[^\w\- ]", "", heading[1].strip().lower()).replace(" ", "-")
            number = next((n for n in range(1, 100) if f"{slug}-{n}" not in found), 0)
            found.add(f"{slug}-{number}" if slug in found else slug)
    return found


def dead(page: Path, text: str) -> list[str]:
    """The relative links of a page that lead to no file, out of the repository, or to a heading that is not there."""
    faults: list[str] = []
    for line, destination in links(text):
        parts = urlsplit(destination)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if not target.is_relative_to(ROOT) or not target.is_file():
            faults.append(f"{page.relative_to(ROOT)}:{line}: {destination}")
        elif parts.fragment:
            there = text if target == page else target.read_text("utf-8")
            if unquote(parts.fragment) not in anchors(there):
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


def test_dead_links_are_found_and_code_is_not_a_link() -> None:
    page = ROOT / "docs" / "README.md"
    assert not dead(page, "# A `b` c\n[x](#a-b-c) [y](benchmarks.md#finding-skills-1)\n")
    text = "[a](no.md) ![b](../README.md)\n`[c](no.md)`\n```\n[d](no.md)\n```\n[e](https://example.org/no.md) [f](#g)\n"
    assert dead(page, text) == ["docs/README.md:1: no.md", "docs/README.md:6: #g"]
    assert dead(page, "[out](../../etc)") == ["docs/README.md:1: ../../etc"]
