"""The pages on tools and on the runtime name what there is."""

import re
from dataclasses import fields

import pytest

from openskills.runtime.options import SessionOptions
from openskills.tools.registry import TOOLS
from openskills.tools.tool import build_parameters
from tests.docs.page import ROOT


def section(name: str) -> str:
    text = (ROOT / "docs/reference/tools.md").read_text("utf-8")
    return text.partition(f"\n## `{name}`\n")[2].partition("\n## ")[0]


def first_cells(text: str) -> set[str]:
    """What stands in backquotes in the first column of the tables."""
    return {name for row in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize("name", TOOLS)
def test_every_argument_of_a_tool_is_described_and_nothing_else(name: str) -> None:
    described = first_cells(section(name).partition("| `data` |")[0])
    wanted = set(build_parameters(TOOLS[name])["properties"])
    if name == "skill_exec":
        described |= first_cells(section("skill_run").partition("| `data` |")[0])
    assert described == wanted


def test_every_option_of_a_session_is_described() -> None:
    text = (ROOT / "docs/reference/runtime.md").read_text("utf-8")
    table = text.partition("\n## `SessionOptions`\n")[2].partition("\n```")[0]
    assert first_cells(table) == {field.name for field in fields(SessionOptions)}
