"""Requests to a model, and what they change."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware, ModelFallbackMiddleware, ModelRequest, ModelRetryMiddleware
from langchain_core.messages import AIMessage

from tests.adapters.langchain.runtime_agents import load, runtime_of, talk_of
from tests.adapters.langchain.scripted import Scripted, says
from tests.skill_writer import WriteSkill


@pytest.fixture
def skills(tmp_path: Path, write_skill: WriteSkill) -> Path:
    """One skill."""
    write_skill("pdf", body="# How to work with pdf")
    return tmp_path / "skills"


def out_of_order(_: object) -> AIMessage:
    """A model that fails."""
    raise ConnectionError("try again")


def test_a_request_that_is_sent_again_is_the_same(skills: Path) -> None:
    script = [says(load("pdf")), out_of_order, "done"]
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0.0, jitter=False)
    talk = talk_of(runtime_of(skills, load_mode="once"), script, before=[retry])
    talk.say()
    assert talk.shown(1) == talk.shown(2)
    assert "# How to work with pdf" in talk.shown(2)


def test_another_model_is_shown_the_same(skills: Path) -> None:
    spare = Scripted(script=["done"])
    talk = talk_of(runtime_of(skills), [says(load("pdf")), out_of_order], before=[ModelFallbackMiddleware(spare)])
    talk.say()
    assert "# How to work with pdf" in "\n".join(message.text for message in spare.requests[0])
    assert spare.offered == [talk.model.offered[0]]


def test_a_turn_that_failed_changes_nothing(skills: Path) -> None:
    script = [says(load("pdf")), "one", out_of_order, "two"]
    talk = talk_of(runtime_of(skills, load_mode="turn"), script)
    talk.say()
    with pytest.raises(ConnectionError):
        talk.say("again")
    assert talk.loaded() == ("pdf",)
    talk.agent.invoke(None, talk.config)
    assert talk.loaded() == ()


def test_changes_of_other_middleware_are_kept(skills: Path) -> None:
    class Polite(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
            return handler(request.override(model_settings={"temperature": 0}, tool_choice="auto"))

    settings: list[Any] = []

    class Spy(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
            settings.append((request.model_settings, request.tool_choice))
            return handler(request)

    talk_of(runtime_of(skills), ["done"], before=[Polite()], after=[Spy()]).say()
    assert settings == [({"temperature": 0}, "auto")]
