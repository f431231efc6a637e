"""Whatever a model, a person and a summary do: within the limit, nothing loaded is invisible, nothing raises."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from deepagents.backends import FilesystemBackend
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest, ToolCallRequest
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.types import Command, interrupt

from tests.adapters.langchain.agents import Talk, plain
from tests.adapters.langchain.scripted import load, says, unload
from tests.long_form import examples
from tests.skill_writer import skill_writer

NAMES = [f"skill-{letter}" for letter in "abcd"]
Fate = Literal["runs", "refused", "allowed", "rejected"]


@dataclass(frozen=True)
class Do:
    """One call: what it asks for, and what becomes of it. `allowed` and `rejected` are after an interrupt."""

    tool: Literal["load", "unload"]
    skill: str
    fate: Fate


@dataclass(frozen=True)
class Turn:
    """Calls of one message; before it, history may be cut from the requests, or edited in files."""

    calls: tuple[Do, ...]
    summarised: bool
    edited: str | None


DO = st.builds(
    Do,
    st.sampled_from(["load", "load", "unload"]),
    st.sampled_from([*NAMES, "skill-x"]),
    st.sampled_from(["runs", "runs", "runs", "refused", "allowed", "rejected"]),
)
TURN = st.builds(
    Turn, st.lists(DO, min_size=1, max_size=4).map(tuple), st.booleans(), st.none() | st.sampled_from(NAMES)
)


class World(AgentMiddleware[Any, Any]):
    """Everything that other middleware does: refusals, interrupts, and summaries that cut the request."""

    def __init__(self) -> None:
        self.fates: dict[str, Fate] = {}
        self.cut = 0

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        call_id = str(request.tool_call["id"])
        fate = self.fates[call_id]
        if fate == "refused" or (fate in {"allowed", "rejected"} and not interrupt(call_id)):
            return ToolMessage("no", tool_call_id=call_id, status="error")
        return handler(request)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        summary: list[AnyMessage] = [HumanMessage("A summary.")]
        kept = request.messages[self.cut :]
        return handler(request.override(messages=[*summary, *kept]) if self.cut else request)


class Removing(AgentMiddleware[Any, Any]):
    """A summary that takes messages out of the thread itself."""

    def __init__(self) -> None:
        self.due = False

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        if not self.due or not isinstance(state["messages"][-1], HumanMessage):
            return None
        self.due = False
        return {"messages": [RemoveMessage(id=message.id) for message in state["messages"][:-1]]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write = skill_writer(tmp_path, "skills")
    for name in NAMES:
        write(name, body=f"Body of {name}, version 0.")
    return tmp_path


def marked(prompt: str) -> list[str]:
    return re.findall(r"- \*\*(\S+)\*\* \[Loaded\]", prompt)


def check(messages: Sequence[BaseMessage], limit: int) -> None:
    """Nothing that the prompt shows as loaded is invisible, and it is not too much."""
    loaded = marked(messages[0].text)
    assert len(loaded) <= limit
    shown = [message.text for message in messages[1:]]
    for name in loaded:
        assert any(f"Body of {name}, version" in text for text in shown), (name, shown)


def expected(before: list[str], calls: Sequence[Do], limit: int) -> tuple[list[str], list[str]]:
    """What is loaded after these calls, one after the other, and how the result of each begins."""
    loaded, answers = list(before), list[str]()
    for do in calls:
        there = do.skill in loaded
        if do.fate in {"refused", "rejected"}:
            answers.append("no")
        elif do.tool == "unload":
            loaded = [name for name in loaded if name != do.skill]
            gone = f"Skill '{do.skill}' has been unloaded. Currently loaded: {len(loaded)}/"
            answers.append(gone if there else "Error")
        elif do.skill in NAMES and not there and len(loaded) < limit:
            loaded.append(do.skill)
            answers.append(f"---\nname: {do.skill}\n")
        else:
            answers.append(f"Skill '{do.skill}' is already loaded." if there else "Error")
    return loaded, answers


def play(talk: Talk, world: World, turn: Turn, number: int, limit: int) -> None:
    """One turn of the user, with every interrupt answered."""
    ids = [f"{number}-{place}" for place in range(len(turn.calls))]
    world.fates = {one: do.fate for one, do in zip(ids, turn.calls, strict=True)}
    made = [(load if do.tool == "load" else unload)(do.skill, one) for one, do in zip(ids, turn.calls, strict=True)]

    def calls(messages: Sequence[BaseMessage]) -> Any:
        check(messages, limit)
        return says(*made)

    def answer(messages: Sequence[BaseMessage]) -> str:
        check(messages, limit)
        return "done"

    talk.model.script += [calls, answer]
    talk.say(f"turn {number}")
    while waiting := talk.agent.get_state(talk.config).interrupts:
        answers = {one.id: world.fates[one.value] == "allowed" for one in waiting}
        talk.agent.invoke(Command(resume=answers), talk.config)


def edit(root: Path, name: str | None, version: int) -> None:
    if name is not None:
        skill_writer(root, "skills")(name, body=f"Body of {name}, version {version}.")


@pytest.mark.slow
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(turns=st.lists(TURN, min_size=1, max_size=5), limit=st.integers(1, 3), stable=st.booleans())
def test_what_is_loaded_is_what_the_calls_ask_for_one_after_the_other(
    root: Path, turns: list[Turn], limit: int, stable: bool
) -> None:
    world = World()
    backend = FilesystemBackend(root_dir=root, virtual_mode=True)
    listing = "stable" if stable else "marked"
    talk = plain(backend, [], more=[world], max_loaded_skills=limit, listing=listing)
    loaded: list[str] = []
    for number, turn in enumerate(turns, 1):
        if turn.summarised and number > 1:
            world.cut = len(talk.state["messages"])
        edit(root, turn.edited, number)
        play(talk, world, turn, number, limit)
        loaded, answers = expected(loaded, turn.calls, limit)
        assert talk.loaded == loaded
        assert set(talk.state["skill_resources"]) <= set(loaded)
        results = talk.results()
        for place, answer in enumerate(answers):
            assert results[f"{number}-{place}"].startswith(answer)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(turns=st.lists(TURN, min_size=2, max_size=4), limit=st.integers(1, 3))
def test_what_was_removed_from_the_thread_no_longer_counts(root: Path, turns: list[Turn], limit: int) -> None:
    world, removing = World(), Removing()
    backend = FilesystemBackend(root_dir=root, virtual_mode=True)
    talk = plain(backend, [], more=[world, removing], max_loaded_skills=limit)
    loaded: list[str] = []
    for number, turn in enumerate(turns, 1):
        removing.due = turn.summarised
        play(talk, world, turn, number, limit)
        loaded, _ = expected([] if turn.summarised else loaded, turn.calls, limit)
        assert talk.loaded == loaded
