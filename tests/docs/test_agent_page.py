"""The page about agents has every public member, every kind of event, and the defaults that there are."""

import re
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from inspect import signature
from typing import Any

import pytest

from openskills.agent import agent
from openskills.agent.agent import Agent, AgentLimits, Callbacks, ExtraTool, Summary
from openskills.agent.runner import AgentReply, Attachment, Runner
from openskills.agent.subagent import Load
from openskills.session import events
from tests.docs.page import ROOT
from tests.docs.test_python_page import members_of, words_of

PAGE = (ROOT / "docs" / "reference" / "agent.md").read_text("utf-8")
VALUES = (Agent, AgentLimits, AgentReply, Attachment, Load, Callbacks, Summary, ExtraTool, events.Event)


def rows(title: str) -> list[list[str]]:
    """The cells of the first table below a heading, without the marks of code."""
    below = PAGE.partition(f"\n{title}")[2]
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
    assert not names - words_of(PAGE)


@pytest.mark.parametrize("called", [Runner.__init__, Runner.run, Summary.compact])
def test_every_argument_is_on_the_page(called: Callable[..., object]) -> None:
    assert not set(signature(called).parameters) - {"self"} - words_of(PAGE)


@pytest.mark.parametrize(("title", "described"), [("## `Agent(", Agent), ("### `AgentLimits`", AgentLimits)])
def test_a_table_has_every_field_in_order_with_its_default(title: str, described: type) -> None:
    assert [row[:2] for row in rows(title)] == [
        [field.name, default_of(field)] for field in fields(described) if field.init
    ]


def test_the_table_of_events_has_every_kind_and_no_other() -> None:
    own = {agent.DELTA, agent.TOOL_CALL, agent.ARTIFACT, agent.SUMMARY, agent.ERROR, agent.END}
    assert {row[0] for row in rows("## Events")} == own | {events.MESSAGE, events.TOOL_RESPONSE, events.STATE_UPDATE}
