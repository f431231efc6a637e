"""The page about agents has every public member, every kind of event, and every name of a model."""

import inspect
import re
from dataclasses import fields

import pytest

from openskills.agent import log, model
from openskills.agent.agent import Agent, RunLimits
from openskills.agent.anthropic_model import AnthropicModel
from openskills.agent.attachments import Attachment
from openskills.agent.callbacks import Callbacks
from openskills.agent.declared import Load
from openskills.agent.extra_tool import ExtraTool
from openskills.agent.openai_model import OpenAIModel
from openskills.agent.retrying import Retries
from openskills.agent.runner import Reply, Runner
from openskills.agent.summary import Summary
from openskills.agent.wire.pacing import TimeLimits
from openskills.session import events
from tests.docs.page import ROOT
from tests.docs.test_python_page import members_of, words_of

PAGE = (ROOT / "docs" / "reference" / "agent.md").read_text("utf-8")
WORDS = words_of(PAGE)
VALUES = (Agent, RunLimits, Reply, Attachment, Load, Callbacks, Summary, ExtraTool, Retries, TimeLimits)
WIRE = (model.ModelRequest, model.Answer, model.ToolCall, model.Usage, model.TextDelta, events.Event)


@pytest.mark.parametrize("described", [*VALUES, *WIRE], ids=lambda described: described.__name__)
def test_every_field_and_method_of_a_value_is_on_the_page(described: type) -> None:
    assert {field.name for field in fields(described)} | members_of(described) <= WORDS | {"before_next", "for_client"}


@pytest.mark.parametrize("called", [Runner.run, Runner.__init__, OpenAIModel.__init__, AnthropicModel.__init__])
def test_every_argument_is_on_the_page(called: object) -> None:
    assert callable(called)
    assert set(inspect.signature(called).parameters) - {"self"} <= WORDS


@pytest.mark.parametrize("field", fields(Agent), ids=lambda field: field.name)
def test_every_field_of_an_agent_has_a_row_with_its_default(field: object) -> None:
    name = getattr(field, "name", "")
    assert re.search(rf"^\| `{name}` \| .* \| .+ \|$", PAGE, re.MULTILINE)


def test_every_kind_of_event_has_a_row() -> None:
    own = {log.DELTA, log.TOOL_CALL, log.ARTIFACT, log.SUMMARY, log.ERROR, log.END}
    kinds = own | {events.MESSAGE, events.TOOL_RESPONSE, events.STATE_UPDATE}
    assert kinds == set(re.findall(r"^\| `([a-z.]+)` \| `\w+`", PAGE, re.MULTILINE)) & (kinds | {"unknown"})
    rows = set(re.findall(r"^\| `([a-z.]+)` \| `", PAGE, re.MULTILINE))
    assert kinds <= rows
