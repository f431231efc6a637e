"""Threads of `SkillRuntimeMiddleware` in every checkpointer: kept, rewound, branched, streamed, interrupted."""

import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, SummarizationMiddleware
from langchain_core.messages import AIMessageChunk, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from openskills.adapters.langchain.runtime_state import changes_to_channel, fold
from openskills.session.state import Loaded, RecordedChange
from tests.adapters.langchain.runtime_agents import SkillTalk, hello, load, runtime_of, talk_of, unload
from tests.adapters.langchain.scripted import says
from tests.skill_writer import WriteSkill

SAVERS = ("memory", "sqlite", "postgres")


@pytest.fixture
def skills(tmp_path: Path, write_skill: WriteSkill) -> Path:
    """Two skills."""
    for name in ("pdf", "docx"):
        write_skill(name, body=f"# How to work with {name}")
    return tmp_path / "skills"


@pytest.fixture(params=SAVERS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A kind of checkpointer, and where it keeps things."""
    kind = str(request.param)
    if kind == "postgres":
        return kind, request.getfixturevalue("postgres_server").new_database()
    return kind, str(tmp_path / "threads.db")


@contextmanager
def blocking(kind: str, place: str) -> Generator[Any]:
    """A checkpointer for `invoke`."""
    if kind == "memory":
        yield InMemorySaver()
    elif kind == "sqlite":
        with SqliteSaver.from_conn_string(place) as sqlite:
            yield sqlite
    else:
        with PostgresSaver.from_conn_string(place) as postgres:
            postgres.setup()
            yield postgres


@asynccontextmanager
async def awaited(kind: str, place: str) -> AsyncGenerator[Any]:
    """A checkpointer for `ainvoke`."""
    if kind == "memory":
        yield InMemorySaver()
    elif kind == "sqlite":
        async with AsyncSqliteSaver.from_conn_string(place) as sqlite:
            yield sqlite
    else:
        async with AsyncPostgresSaver.from_conn_string(place) as postgres:
            await postgres.setup()
            yield postgres


SCRIPT = [says(load("pdf"), load("docx")), "one", says(unload("pdf"), hello("docx")), "two"]


def test_a_thread_goes_on_in_every_checkpointer(skills: Path, address: tuple[str, str]) -> None:
    runtime = runtime_of(skills, load_mode="session")
    with blocking(*address) as saver:
        talk = talk_of(runtime, SCRIPT, saver=saver)
        talk.say()
        assert talk.loaded() == ("pdf", "docx")
        talk.say()
        assert talk.loaded() == ("docx",)
        assert talk.results()["run"].status == "success"


async def test_an_awaited_thread_goes_on_in_every_checkpointer(skills: Path, address: tuple[str, str]) -> None:
    async with awaited(*address) as saver:
        talk = talk_of(runtime_of(skills, load_mode="session"), SCRIPT, saver=saver)
        await talk.hear()
        await talk.hear()
        shown = talk.shown()

    assert "# How to work with docx" in shown
    assert "# How to work with pdf" not in shown


def test_another_process_goes_on_with_what_was_loaded(skills: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "threads.db")
    with blocking("sqlite", place) as saver:
        talk_of(runtime_of(skills, load_mode="session"), [says(load("pdf")), "one"], saver=saver).say()
    with blocking("sqlite", place) as saver:
        later = talk_of(runtime_of(skills, load_mode="session"), [says(hello("pdf")), "two"], saver=saver)
        later.say()
        assert later.results()["run"].status == "success"
        assert "# How to work with pdf" in later.shown(0)


def test_going_back_to_a_checkpoint_goes_back_to_what_was_loaded_there(skills: Path) -> None:
    talk = talk_of(
        runtime_of(skills, load_mode="session"), [says(load("pdf")), "one", says(unload("pdf"), load("docx")), "two"]
    )
    talk.say()
    after_one = talk.agent.get_state(talk.config).config
    talk.say()
    assert talk.loaded() == ("docx",)
    assert talk.loaded(after_one) == ("pdf",)
    talk.model.script.append("another two")
    answer = talk.agent.invoke({"messages": [HumanMessage("otherwise")]}, after_one)
    assert answer["messages"][-1].text == "another two"
    assert "# How to work with pdf" in talk.shown()
    assert "# How to work with docx" not in talk.shown()
    assert talk.loaded() == ("pdf",)


def test_branches_of_a_thread_load_different_skills(skills: Path) -> None:
    talk = talk_of(runtime_of(skills, load_mode="session"), ["begun"])
    talk.say()
    fork = talk.agent.get_state(talk.config).config
    for skill in ("pdf", "docx", "pdf"):
        talk.model.script += [says(load(skill)), "done"]
        talk.agent.invoke({"messages": [HumanMessage(f"with {skill}")]}, fork)
        assert talk.loaded() == (skill,)


def test_the_state_of_a_thread_is_plain_json(skills: Path) -> None:
    talk = talk_of(runtime_of(skills), SCRIPT)
    talk.say()
    state = talk.agent.get_state(talk.config).values["openskills_state"]
    assert json.loads(json.dumps(state)) == state


def test_private_state_is_neither_taken_nor_given(skills: Path) -> None:
    talk = talk_of(runtime_of(skills), ["done"])
    forged = fold(None, changes_to_channel([RecordedChange(9, "assistant", Loaded("pdf"))]))
    answer = talk.agent.invoke({"messages": [HumanMessage("hi")], "openskills_state": forged}, talk.config)
    assert talk.loaded() == ()
    assert "openskills_state" not in answer


@pytest.mark.parametrize("mode", ["values", "updates"])
def test_streams_of_steps_show_calls_and_results(skills: Path, mode: str) -> None:
    talk = talk_of(runtime_of(skills), [says(load("pdf")), "done"])
    steps = list(talk.agent.stream({"messages": [HumanMessage("hi")]}, talk.config, stream_mode=mode))
    assert "loaded: pdf" in str(steps)
    assert talk.loaded() == ("pdf",)


async def test_streams_of_messages_show_results_and_the_answer(skills: Path) -> None:
    talk = talk_of(runtime_of(skills), [says(load("pdf")), "done"])

    given = {"messages": [HumanMessage("hi")]}

    chunks = [chunk async for chunk, _ in talk.agent.astream(given, talk.config, stream_mode="messages")]
    assert "loaded: pdf" in [chunk.text for chunk in chunks if isinstance(chunk, ToolMessage)]
    assert any(chunk.text == "done" for chunk in chunks if not isinstance(chunk, ToolMessage | AIMessageChunk))


def test_whoever_stops_reading_a_stream_finds_the_thread_as_it_was(skills: Path) -> None:
    talk = talk_of(runtime_of(skills), [says(load("pdf")), says(hello("pdf")), "done"])
    stream = talk.agent.stream({"messages": [HumanMessage("hi")]}, talk.config, stream_mode="updates")
    next(stream)
    stream.close()
    talk.agent.invoke(None, talk.config)
    assert talk.loaded() == ("pdf",)
    assert talk.results()["run"].status == "success"


def approving(*tools: str) -> Any:
    """Middleware that asks a person before these tools are called."""
    return HumanInTheLoopMiddleware(interrupt_on=dict.fromkeys(tools, True))  # pyright: ignore[reportArgumentType]


def decide(talk: SkillTalk, *decisions: dict[str, Any]) -> None:
    """Answer what the graph waits for."""
    talk.agent.invoke(Command(resume={"decisions": list(decisions)}), talk.config)


def test_a_rejected_load_loads_nothing_and_an_approved_one_beside_it_does(
    skills: Path, address: tuple[str, str]
) -> None:
    with blocking(*address) as saver:
        script = [says(load("pdf"), load("docx")), "done"]
        talk = talk_of(runtime_of(skills), script, saver=saver, after=[approving("skill_load")])
        talk.say()
        assert talk.loaded() == ()
        decide(talk, {"type": "reject", "message": "loaded: pdf"}, {"type": "approve"})
        assert talk.loaded() == ("docx",)
        assert "# How to work with docx" in talk.shown()
        assert "# How to work with pdf" not in talk.shown()


def test_a_load_that_a_person_changed_loads_what_he_wrote(skills: Path) -> None:
    talk = talk_of(runtime_of(skills), [says(load("pdf")), "done"], after=[approving("skill_load")])
    talk.say()
    edited = {"name": "skill_load", "args": {"skill": "docx"}}
    decide(talk, {"type": "edit", "edited_action": edited})
    assert talk.loaded() == ("docx",)
    assert "# How to work with docx" in talk.shown()


def test_a_turn_that_was_interrupted_still_has_what_it_loaded_when_it_goes_on(skills: Path) -> None:
    script = [says(load("pdf")), says(hello("pdf")), "done"]
    talk = talk_of(runtime_of(skills), script, after=[approving("skill_run")])
    talk.say()
    assert talk.loaded() == ("pdf",)
    decide(talk, {"type": "approve"})
    assert talk.results()["run"].status == "success"
    assert "# How to work with pdf" in talk.shown()


def test_after_a_summary_what_is_loaded_is_shown_again(skills: Path) -> None:
    talk = summarised(skills, when_lost="restore")
    assert talk.loaded() == ("pdf",)
    assert "# How to work with pdf" in talk.model.prompt()


def test_after_a_summary_what_is_lost_counts_as_unloaded_if_that_was_chosen(skills: Path) -> None:
    talk = summarised(skills, when_lost="unload")
    assert talk.loaded() == ()
    assert "# How to work with pdf" not in talk.shown()


def test_a_summary_in_the_middle_of_a_turn_does_not_end_it(skills: Path) -> None:
    class InShort(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> Any:
            del runtime
            if not isinstance(state["messages"][-1], ToolMessage):
                return None
            summary = HumanMessage("In short.", additional_kwargs={"lc_source": "summarization"})
            return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), summary]}

    talk = talk_of(runtime_of(skills, load_mode="turn"), [says(load("pdf")), "done"], before=[InShort()])
    talk.say()
    assert [message.type for message in talk.model.requests[-1]] == ["system", "human"]
    assert "# How to work with pdf" in talk.shown()
    assert talk.loaded() == ("pdf",)


def summarised(skills: Path, **options: Any) -> SkillTalk:
    """A thread whose first load has left the history; the summary is the model's own."""

    def summary(model: Any) -> list[Any]:
        return [SummarizationMiddleware(model, trigger=("messages", 6), keep=("messages", 1))]

    runtime = runtime_of(skills, load_mode="session", **options)
    script = [says(load("pdf")), "one", "two", "a summary", "three", "four"]
    talk = talk_of(runtime, script, before=summary)
    for turn in range(3):
        talk.say(f"turn {turn}")
    kept = cast("list[Any]", talk.agent.get_state(talk.config).values["messages"])
    assert not any(isinstance(message, ToolMessage) for message in kept)
    return talk
