"""Runs, and the log they leave."""

import asyncio
from pathlib import Path

import pytest

from openskills.agent.agent import Agent
from openskills.agent.attachments import Attachment
from openskills.agent.declared import Load
from openskills.agent.log import INTERRUPTED, transcript, unanswered
from openskills.agent.model import Answer
from openskills.agent.runner import Runner
from openskills.errors import InvalidArgument, ModelUnavailable, UnknownSkill
from openskills.runtime.options import SessionOptions
from openskills.session.choose import session_store
from openskills.session.events import new_event
from openskills.session.memory import MemorySessionStore
from openskills.session.store import SessionKey
from openskills.sync import run
from openskills.testing import ScriptedModel
from tests.agent.agents import agent_in, calling, heard, kinds, skills_for_agents
from tests.runtime.talking import runtime_in
from tests.tools.contexts import settings_in, write_skill

KEY = SessionKey("app", "u", "s")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return skills_for_agents(tmp_path)


def test_a_conversation_goes_on_where_it_was(place: Path) -> None:
    store = MemorySessionStore()
    agent, model = agent_in(place, [Answer("first"), Answer("second")], store=store)

    async def go() -> None:
        await heard(agent, "one")
        await heard(agent, "two")

    run(go())
    said = [message["content"] for message in model.requests[-1].messages if message["role"] != "system"]
    assert said == ["one", "first", "two"]


def test_what_a_caller_sees_is_what_the_log_has(place: Path) -> None:
    store = MemorySessionStore()
    agent, _ = agent_in(place, [calling(("skill_load", {"skill": "alpha"})), Answer("ok")], store=store)

    async def go() -> None:
        events = await heard(agent)
        found = await store.get(KEY)
        assert found is not None
        assert [event.id for event in events if event.seq] == [event.id for event in found.events]
        assert kinds(found.events) == ["message", "message", "tool.call", "tool.response", "message", "end"]

    run(go())


def test_a_model_that_cannot_be_reached_ends_the_run_and_not_the_session(place: Path) -> None:
    agent, _ = agent_in(place, [ModelUnavailable("overloaded"), Answer("back")])

    async def go() -> None:
        first = await heard(agent)
        assert first[-1].kind == "error"
        assert first[-1].payload["reason"] == "MODEL_UNAVAILABLE"
        second = await heard(agent, "again")
        assert second[-1].payload["text"] == "back"

    run(go())


def test_a_call_that_a_crash_left_open_is_closed_with_a_result_that_says_so(place: Path) -> None:
    store = MemorySessionStore()
    agent, model = agent_in(place, [Answer("ok")], store=store)

    async def go() -> None:
        said = {"to": "assistant", "message": {"role": "user", "content": "x"}}
        await store.append(KEY, new_event("user", "message", said))
        open_call = calling(("skill_load", {"skill": "alpha"})).message()
        await store.append(KEY, new_event("assistant", "message", {"message": open_call}))
        await heard(agent, "and now?")

    run(go())
    assert [m["content"] for m in model.requests[0].messages if m["role"] == "tool"] == [INTERRUPTED]


def test_declared_loads_are_in_sight_of_the_first_request(place: Path) -> None:
    agent, model = agent_in(place, [Answer("ok"), Answer("ok")])

    async def go() -> None:
        await heard(agent, loads=[Load("alpha", ("guide.md",))])
        await heard(agent, "two")

    run(go())
    first, second = (str(request.messages) for request in model.requests)
    assert "BODY OF alpha" in first
    assert "GUIDE OF alpha" in first
    assert "BODY OF alpha" not in second


def test_declared_loads_that_cannot_be_stop_the_run_before_it_begins(place: Path) -> None:
    agent, model = agent_in(place, [])

    async def go() -> None:
        with pytest.raises(UnknownSkill):
            await heard(agent, loads=[Load("alpha"), Load("gamma")])
        with pytest.raises(InvalidArgument, match="twice"):
            await heard(agent, loads=[Load("alpha"), Load("alpha", ("guide.md",))])

    run(go())
    assert model.requests == []


def test_files_of_the_user_are_artifacts_and_inputs_of_commands_in_later_turns_too(place: Path) -> None:
    cat = {"skill": "alpha", "command": "cat inputs/data.csv"}
    agent, model = agent_in(
        place,
        [Answer("seen"), calling(("skill_load", {"skill": "alpha"})), calling(("skill_run", cat)), Answer("ok")],
        executor="local",
    )

    async def go() -> None:
        async with agent.runtime:
            await heard(agent, "keep this", files=[Attachment("data.csv", b"1,2\n")])
            await heard(agent, "print it")

    run(go())
    assert "attached: data.csv" in str(model.requests[0].messages[-1]["content"])
    assert '"stdout":"1,2\\n"' in str(model.requests[-1].messages[-1]["content"])


def test_history_can_be_left_out(place: Path) -> None:
    agent, model = agent_in(place, [Answer("1"), Answer("2"), Answer("3")], history_turns=2)

    async def go() -> None:
        for text in ("one", "two", "three"):
            await heard(agent, text)

    run(go())
    said = [message["content"] for message in model.requests[-1].messages if message["role"] != "system"]
    assert said == ["two", "2", "three"]


def test_who_stops_listening_stops_the_run(place: Path) -> None:
    began = asyncio.Event()

    async def slow(_: object) -> Answer:
        began.set()
        await asyncio.sleep(600)
        raise AssertionError

    agent, _ = agent_in(place, [slow])

    async def go() -> None:
        stream = Runner("app", agent).run(user="u", session="s", message="x")
        first = await anext(stream)
        assert first.kind == "message"
        await stream.aclose()

    run(go())


def test_fifty_sessions_at_once_do_not_wait_for_each_other(place: Path) -> None:
    answers = [calling(("skill_load", {"skill": "alpha"})), Answer("ok")]

    async def one(number: int) -> str:
        agent, _ = agent_in(place, list(answers))
        return (await heard(agent, session=f"s{number}"))[-1].payload["text"]

    async def go() -> list[str]:
        return await asyncio.gather(*(one(number) for number in range(50)))

    assert run(go()) == ["ok"] * 50


def test_a_reply_is_the_run_as_one_value(place: Path) -> None:
    agent, _ = agent_in(place, [Answer("hello back"), ModelUnavailable("gone")])
    good = run(Runner("app", agent).reply(user="u", session="s", message="hello"))
    assert (good.text, good.error) == ("hello back", None)
    bad = run(Runner("app", agent).reply(user="u", session="s", message="hello"))
    assert bad.error is not None
    assert bad.error["message"] == "gone"


def test_options_of_one_run_are_for_that_run(place: Path) -> None:
    agent, model = agent_in(place, [Answer("ok"), Answer("ok")])
    hidden = SessionOptions(visible=lambda skill: skill.name == "beta")

    async def go() -> None:
        await heard(agent, options=hidden, instructions="Only today.")
        await heard(agent, "two")

    run(go())
    first, second = (str(request.messages[0]["content"]) for request in model.requests)
    assert "alpha" not in first
    assert first.startswith("Only today.")
    assert "alpha" in second


def test_two_runners_on_one_session_do_not_talk_across_each_other(place: Path) -> None:
    async def go() -> list[str]:
        store = session_store(f"sqlite:///{place}/x.db", settings_in(place))
        runtime = runtime_in(place, store=store)
        agents = [Agent("assistant", ScriptedModel([Answer(f"answer {n}")]), runtime) for n in range(6)]
        calls = [Runner("app", agent).reply(user="u", session="s", message="x") for agent in agents]
        return [reply.text for reply in await asyncio.gather(*calls)]

    assert run(go()) == [f"answer {number}" for number in range(6)]


def test_a_fork_has_the_options_of_its_run(place: Path) -> None:
    folder = write_skill(place, "forky")
    (folder / "SKILL.md").write_text("---\nname: forky\ndescription: F.\ncontext: fork\n---\nBODY OF forky\n")
    echo = calling(("skill_run", {"skill": "forky", "command": "echo no"}))
    agent, model = agent_in(
        place, [calling(("skill_load", {"skill": "forky"})), echo, Answer("tried"), Answer("done")], executor="local"
    )

    async def go() -> None:
        async with agent.runtime:
            await heard(agent, options=SessionOptions(denied_commands=["echo"]))

    run(go())
    assert "error: " in str(model.requests[2].messages[-1]["content"])


def test_a_hidden_skill_is_not_forked(place: Path) -> None:
    folder = write_skill(place, "forky")
    (folder / "SKILL.md").write_text("---\nname: forky\ndescription: F.\ncontext: fork\n---\nBODY OF forky\n")
    agent, model = agent_in(place, [calling(("skill_load", {"skill": "forky"})), Answer("done")])
    run(heard(agent, options=SessionOptions(visible=lambda skill: skill.name != "forky")))
    assert "there is no skill named 'forky'" in str(model.requests[-1].messages[-1]["content"])


def test_calls_of_a_sub_agent_that_a_crash_left_open_are_closed_too(place: Path) -> None:
    store = MemorySessionStore()
    agent, _ = agent_in(place, [Answer("ok")], store=store)

    async def go() -> None:
        task = {"to": "kid", "message": {"role": "user", "content": "x"}}
        await store.append(KEY, new_event("assistant", "message", task))
        open_call = calling(("skill_load", {"skill": "alpha"})).message()
        await store.append(KEY, new_event("kid", "message", {"message": open_call}))
        await heard(agent)
        found = await store.get(KEY)
        assert found is not None
        assert unanswered(transcript(found.events, "kid")) == []

    run(go())


def test_loads_that_fail_leave_what_was_loaded(place: Path) -> None:
    agent, _ = agent_in(place, [Answer("ok")], options=SessionOptions(load_mode="session"))

    async def go() -> None:
        await heard(agent, loads=[Load("alpha")])
        with pytest.raises(UnknownSkill):
            await heard(agent, loads=[Load("alpha"), Load("nope")])
        async with agent.runtime.session("s", user="u", app="app") as session:
            assert session.loaded_skills() == ("alpha",)

    run(go())
