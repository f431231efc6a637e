"""Lists of skills in checkpoints: small, and good for upstream's class too."""

from pathlib import Path
from typing import Any, cast

import deepagents
import pytest
from deepagents.middleware.skills import SkillsMiddleware as Upstream
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from openskills.adapters.langchain import SkillsMiddleware
from openskills.adapters.langchain.catalog_channel import KEPT_SKILLS, CatalogChannel, Remembered
from tests.adapters.langchain.agents import SOURCES, Talk, deep
from tests.adapters.langchain.scripted import Scripted, load, says
from tests.servers.postgres import PostgresServer
from tests.skill_writer import WriteSkill

CLASSES: list[Any] = [Upstream, SkillsMiddleware]


def talk_of(kind: Any, backend: Any, saver: Any, script: Any = ()) -> Talk:
    """The thread `one` of an agent with upstream's class or ours."""
    model = Scripted(script=list(script))
    make: Any = deepagents
    middleware = [kind(backend=backend, sources=SOURCES)]
    return Talk(make.create_deep_agent(model, backend=backend, middleware=middleware, checkpointer=saver), model)


def channel_with(value: Any) -> CatalogChannel:
    channel = CatalogChannel(list)
    channel.key = "skills_metadata"
    channel.update([value])
    return channel


def stored(saver: InMemorySaver, talk: Talk) -> int:
    """Bytes of what a checkpoint has of skills."""
    checkpoint = saver.get(talk.config)
    assert checkpoint is not None
    values = {key: value for key, value in checkpoint["channel_values"].items() if "skill" in key}
    return len(JsonPlusSerializer().dumps_typed(values)[1])


def test_a_short_list_is_in_the_checkpoint_in_upstreams_form(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    saver = InMemorySaver()
    deep(backend, [], saver=saver).say()
    checkpoint = saver.get({"configurable": {"thread_id": "one"}})
    assert checkpoint is not None
    kept: Any = checkpoint["channel_values"]["skills_metadata"]
    assert type(cast("object", kept)) is list
    assert [skill["name"] for skill in kept] == ["pdf"]


def test_the_state_of_1000_skills_is_a_tenth_of_upstreams_at_most(write_skill: WriteSkill, backend: Any) -> None:
    for number in range(1000):
        write_skill(f"skill-{number:04}")
    sizes: list[int] = []
    for kind in CLASSES:
        saver = InMemorySaver()
        talk = talk_of(kind, backend, saver, [says(load("skill-0007"))])
        talk.say()
        sizes.append(stored(saver, talk))
    assert sizes[1] * 10 < sizes[0]


def test_writes_of_a_long_list_are_not_stored_either(write_skill: WriteSkill, backend: Any, tmp_path: Path) -> None:
    for number in range(200):
        write_skill(f"skill-{number:04}")
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        deep(backend, [], saver=saver).say()
        written = saver.conn.execute("select count(*) from writes where channel = 'skills_metadata'").fetchone()
        assert written == (0,)


@pytest.mark.parametrize("many", [1, KEPT_SKILLS + 1])
def test_a_thread_in_postgresql_goes_on(
    write_skill: WriteSkill, backend: Any, postgres_server: PostgresServer, many: int
) -> None:
    for number in range(many):
        write_skill(f"skill-{number:02}")
    with PostgresSaver.from_conn_string(postgres_server.new_database()) as saver:
        saver.setup()
        deep(backend, [says(load("skill-00"))], saver=saver).say()
        talk = deep(backend, [], saver=saver)
        talk.say()
        assert talk.loaded == ["skill-00"]
        assert "- **skill-00** [Loaded]:" in talk.model.prompt()
        assert ("skills_metadata" in talk.state) is (many <= KEPT_SKILLS)


@pytest.mark.parametrize("many", [1, KEPT_SKILLS + 1])
@pytest.mark.parametrize(("first", "second"), [CLASSES, CLASSES[::-1]])
def test_a_thread_of_one_class_goes_on_under_the_other(
    write_skill: WriteSkill, backend: Any, first: Any, second: Any, many: int
) -> None:
    for number in range(many):
        write_skill(f"skill-{number:02}")
    saver = InMemorySaver()
    talk_of(first, backend, saver, [says(load("skill-00"))] if first is SkillsMiddleware else []).say()
    talk = talk_of(second, backend, saver)
    talk.say("more")
    assert f"**skill-{many - 1:02}**" in talk.model.prompt()
    third = talk_of(first, backend, saver, [])
    third.say("and more")
    assert "**skill-00**" in third.model.prompt()
    assert len(third.state["messages"]) >= 6


def test_a_run_with_a_long_list_goes_on_after_an_interrupt_in_another_process(
    write_skill: WriteSkill, backend: Any
) -> None:
    for number in range(KEPT_SKILLS + 1):
        write_skill(f"skill-{number:02}", body=f"Body {number}.")
    saver = InMemorySaver()
    agent = {"interrupt_on": {"load_skill": True}}
    talk = deep(backend, [says(load("skill-00"))], saver=saver, agent=agent)
    talk.say()
    later = deep(backend, ["after"], saver=saver, agent=agent)
    later.agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), later.config)
    assert "Body 0." in later.results()["load-skill-00"]
    assert "- **skill-00** [Loaded]:" in later.model.prompt()
    assert "- **skill-16**:" in later.model.prompt()


def test_a_list_from_a_checkpoint_is_known_as_one() -> None:
    channel = channel_with([1]).from_checkpoint([1, 2])
    assert isinstance(channel.get(), Remembered)
    assert channel.get() == [1, 2]
    assert type(channel.checkpoint()) is list


def test_of_several_writes_in_one_step_the_last_counts() -> None:
    channel = channel_with([1])
    channel.update([[1], [1, 2]])
    assert channel.get() == [1, 2]
    assert not channel.update([])


def test_a_request_to_look_again_is_kept() -> None:
    assert channel_with(None).checkpoint() is None
    assert channel_with([1]).from_checkpoint(None).get() is None


def test_a_request_to_look_again_can_be_written_between_runs(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("one")
    talk = deep(backend, [], rescan=False)
    talk.say()
    write_skill("two")
    talk.agent.update_state(talk.config, {"skills_metadata": None})
    talk.say()
    assert "**two**" in talk.model.prompt()


def test_a_list_that_is_passed_in_is_taken_as_it_is(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("one")
    talk = deep(backend, [])
    talk.agent.invoke({"messages": [HumanMessage("go")], "skills_metadata": []}, talk.config)
    assert "No skills available yet" in talk.model.prompt()
