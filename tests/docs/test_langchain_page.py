"""The numbers of the guide to LangChain are about those that the benchmark measures."""

import re

import pytest

from tests.benchmarks.programs import ROOT, measured

ROWS = {
    'listing="marked"': "OpenSkill, marked list",
    'listing="stable"': "OpenSkill, stable list",
    "SkillRuntimeMiddleware": "OpenSkill, SkillRuntimeMiddleware",
}


@pytest.mark.slow
def test_the_table_of_listings_is_about_what_is_measured() -> None:
    page = (ROOT / "docs/guides/langchain.md").read_text("utf-8")
    found = measured("langchain", "--only", "prefix")["prefix"]["numbers"]
    for label, way in ROWS.items():
        row = re.search(rf"^\| `{re.escape(label)}`[^|]* \| ([\d,]+) \| (\d+) % \| ([\d,]+) \|$", page, re.MULTILINE)
        assert row, f"the guide has no row for {label}"
        sent, cached = found[way]["sent"], found[way]["cached"]
        # A change of some words in a prompt is not a reason to write the page again.
        assert _number(row[1]) == pytest.approx(sent, rel=0.03)
        assert int(row[2]) == pytest.approx(cached * 100, abs=2)
        assert _number(row[3]) == pytest.approx(sent * (1 - cached), rel=0.1)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
