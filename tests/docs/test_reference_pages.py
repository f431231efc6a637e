"""The pages about Python, agents, tools, the runtime and settings have every public name and setting."""

import ast
import re
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from inspect import getmembers_static, signature
from typing import Any

import pytest

import openskills
from openskills.agent import agent
from openskills.agent.agent import Agent, AgentLimits, Callbacks, ExtraTool, Summary
from openskills.agent.runner import AgentReply, Attachment, Runner
from openskills.agent.subagent import Load
from openskills.catalog.snapshot import CatalogChanges, CatalogSnapshot
from openskills.catalog.validate import ValidationResult
from openskills.errors import SkillError
from openskills.runtime.options import SessionOptions
from openskills.session import events
from openskills.settings import VARIABLES
from openskills.tools.registry import TOOLS
from openskills.tools.tool import build_parameters
from tests.architecture.project import PACKAGE
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")
DESCRIBED = (
    openskills.Catalog,
    openskills.Overview,
    openskills.Problem,
    openskills.Resource,
    openskills.Settings,
    openskills.Severity,
    openskills.Skill,
    openskills.SkillManifest,
    CatalogChanges,
    CatalogSnapshot,
    ValidationResult,
)
NOT_FOR_USERS = {"as_warning", "with_path"}
"""How problems are made."""


def words_of(page: str) -> set[str]:
    """What stands in code spans and headings."""
    spans = re.findall(r"`([^`\n]+)`", page) + re.findall(r"^#.*$", page, re.MULTILINE)
    return {word for span in spans for word in re.findall(r"\w+", span)}


def members_of(described: type) -> set[str]:
    """The public names that a class adds to what it is made from."""
    inherited = {name for base in described.__mro__[1:] for name in vars(base)}
    names = {name for name, _ in getmembers_static(described)} | set(getattr(described, "__annotations__", {}))
    return {name for name in names - inherited if not name.startswith("_")} - NOT_FOR_USERS


@pytest.mark.parametrize("described", DESCRIBED, ids=lambda described: described.__name__)
def test_every_public_member_is_on_the_page(described: type) -> None:
    assert members_of(described)
    assert not members_of(described) - words_of(PAGE)


def test_every_error_on_the_page_has_its_code_and_reason() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+ \| `\w+`) \|", PAGE, re.MULTILINE))
    errors = [getattr(openskills, name) for name in openskills.__all__]
    kinds = [kind for kind in errors if isinstance(kind, type) and issubclass(kind, SkillError)]
    assert rows == {kind.__name__: f"{kind.code} | `{kind.reason}`" for kind in kinds}


AGENT_PAGE = (ROOT / "docs" / "reference" / "agent.md").read_text("utf-8")
VALUES = (Agent, AgentLimits, AgentReply, Attachment, Load, Callbacks, Summary, ExtraTool, events.Event)


def rows(title: str) -> list[list[str]]:
    """The cells of the first table below a heading, without the marks of code."""
    below = AGENT_PAGE.partition(f"\n{title}")[2]
    assert below, f"there is no heading {title}"
    lines = re.findall(r"^\|.*\|$", below.partition("\n#")[0], re.MULTILINE)[2:]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]


def default_of(field: "Field[Any]") -> str:
    """A default as the page writes it."""
    if field.default_factory is not MISSING:
        return f"{getattr(field.default_factory, '__name__', '')}()"
    if field.default is MISSING:
        return ""
    return str(field.default) or '""'


@pytest.mark.parametrize("described", VALUES, ids=lambda described: described.__name__)
def test_every_field_and_method_of_a_value_is_on_the_page(described: type) -> None:
    names = {field.name for field in fields(described) if field.init} | members_of(described)
    assert not names - words_of(AGENT_PAGE)


@pytest.mark.parametrize("called", [Runner.__init__, Runner.run, Summary.compact])
def test_every_argument_is_on_the_page(called: Callable[..., object]) -> None:
    assert not set(signature(called).parameters) - {"self"} - words_of(AGENT_PAGE)


@pytest.mark.parametrize(("title", "described"), [("## `Agent(", Agent), ("### `AgentLimits`", AgentLimits)])
def test_a_table_has_every_field_in_order_with_its_default(title: str, described: type) -> None:
    assert [row[:2] for row in rows(title)] == [
        [field.name, default_of(field)] for field in fields(described) if field.init
    ]


def test_the_table_of_events_has_every_kind_and_no_other() -> None:
    own = {agent.DELTA, agent.TOOL_CALL, agent.ARTIFACT, agent.SUMMARY, agent.ERROR, agent.END}
    assert {row[0] for row in rows("## Events")} == own | {events.MESSAGE, events.TOOL_RESPONSE, events.STATE_UPDATE}


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


SETTINGS_PAGE = ROOT / "docs" / "reference" / "settings.md"


def variables_read() -> set[str]:
    """The variables of the fields, and every other text in settings.py that looks like the name of one."""
    tree = ast.parse((PACKAGE / "settings.py").read_text("utf-8"))
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    found = {text for text in texts if re.fullmatch(r"[A-Z][A-Z0-9_]+[A-Z0-9]", text)}
    return found.union(*VARIABLES.values())


def variables_listed() -> set[str]:
    """The first cells of the first table."""
    table = SETTINGS_PAGE.read_text("utf-8").partition("| variable |")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `([A-Z0-9_]+)`", table, re.MULTILINE))


def test_every_variable_that_is_read_is_on_the_page_and_no_other() -> None:
    assert variables_listed() == variables_read()


def test_the_variables_are_found_in_the_source() -> None:
    assert {"SKILLS_ROOT", "OPENSKILL_DEBUG", "HOME"} <= variables_read()
