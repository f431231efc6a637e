"""Runs, and the log they leave.

Files of users: what the model is told about them is where its commands find them.
"""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any, cast

import pytest

from openskills.agent.agent import INTERRUPTED, Agent, build_transcript, find_unanswered_calls
from openskills.agent.attached_line import split_files_line
from openskills.agent.models.model import ModelResponse
from openskills.agent.runner import Attachment, Image, Runner
from openskills.agent.subagent import Load
from openskills.catalog.catalog import Catalog
from openskills.errors import InvalidArgument, ModelUnavailable, UnknownSkill
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.session.events import new_event
from openskills.session.memory import MemorySessionStore
from openskills.session.open import open_session_store
from openskills.session.store import SessionKey
from openskills.testing.checks import PNG
from openskills.testing.model_server import ModelServer
from openskills.testing.models import ScriptedModel
from tests.agent.agents import agent_in, calling, heard, kinds, skills_for_agents
from tests.agent.asking import make_anthropic, make_openai
from tests.runtime.talking import runtime_in
from tests.tools.contexts import settings_in, write_skill

KEY = SessionKey("app", "u", "s")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return skills_for_agents(tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"files": ["x.csv"]}, r"files\[0\]: expected an Attachment, got str 'x.csv'; use Attachment\(name, data\)"),
        ({"message": {"role": "user"}}, "message: expected text or a list .*, got dict"),
        ({"loads": "alpha"}, "loads: expected a list"),
    ],
)
def test_arguments_of_a_wrong_type_are_refused_with_the_fix(place: Path, given: dict[str, Any], said: str) -> None:
    agent, _ = agent_in(place, [])
    with pytest.raises(InvalidArgument, match=said):
        Runner("app", agent).run(**cast("Any", {"user": "u", "session": "s", "message": "x", **given}))
    with pytest.raises(InvalidArgument, match=r"catalog: expected a Catalog, .*Catalog.from_paths"):
        SkillRuntime("skills")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgument, match="at least one path"):
        Catalog.from_paths()


async def test_a_conversation_goes_on_where_it_was(place: Path) -> None:
    store = MemorySessionStore()
    agent, model = agent_in(place, [ModelResponse("first"), ModelResponse("second")], store=store)

    await heard(agent, "one")
    await heard(agent, "two")

    said = [message["content"] for message in model.requests[-1].messages if message["role"] != "system"]
    assert said == ["one", "first", "two"]


async def test_what_a_caller_sees_is_what_the_log_has(place: Path) -> None:
    store = MemorySessionStore()
    agent, _ = agent_in(place, [calling(("skill_load", {"skill": "alpha"})), ModelResponse("ok")], store=store)

    events = await heard(agent)
    found = await store.get(KEY)
    assert found is not None
    assert [event.id for event in events if event.seq] == [event.id for event in found.events]
    assert kinds(found.events) == ["message", "message", "tool.call", "tool.response", "message", "end"]


async def test_a_model_that_cannot_be_reached_ends_the_run_and_not_the_session(place: Path) -> None:
    agent, _ = agent_in(place, [ModelUnavailable("overloaded"), ModelResponse("back")])

    first = await heard(agent)
    assert first[-1].kind == "error"
    assert first[-1].payload["reason"] == "MODEL_UNAVAILABLE"
    second = await heard(agent, "again")
    assert second[-1].payload["text"] == "back"


async def test_a_call_that_a_crash_left_open_is_closed_with_a_result_that_says_so(place: Path) -> None:
    store = MemorySessionStore()
    agent, model = agent_in(place, [ModelResponse("ok")], store=store)

    said = {"to": "assistant", "message": {"role": "user", "content": "x"}}
    await store.append(KEY, new_event("user", "message", said))
    open_call = calling(("skill_load", {"skill": "alpha"})).to_message()
    await store.append(KEY, new_event("assistant", "message", {"message": open_call}))
    await heard(agent, "and now?")

    assert [m["content"] for m in model.requests[0].messages if m["role"] == "tool"] == [INTERRUPTED]


async def test_declared_loads_are_in_sight_of_the_first_request(place: Path) -> None:
    agent, model = agent_in(place, [ModelResponse("ok"), ModelResponse("ok")])

    await heard(agent, loads=[Load("alpha", ("guide.md",))])
    await heard(agent, "two")

    first, second = (str(request.messages) for request in model.requests)
    assert "BODY OF alpha" in first
    assert "GUIDE OF alpha" in first
    assert "BODY OF alpha" not in second


async def test_declared_loads_that_cannot_be_stop_the_run_before_it_begins(place: Path) -> None:
    agent, model = agent_in(place, [])

    with pytest.raises(UnknownSkill):
        await heard(agent, loads=[Load("alpha"), Load("gamma")])
    with pytest.raises(InvalidArgument, match="twice"):
        await heard(agent, loads=[Load("alpha"), Load("alpha", ("guide.md",))])

    assert model.requests == []


async def test_files_of_the_user_are_artifacts_and_inputs_of_commands_in_later_turns_too(place: Path) -> None:
    cat = {"skill": "alpha", "command": "cat inputs/data.csv"}
    agent, model = agent_in(
        place,
        [
            ModelResponse("seen"),
            calling(("skill_load", {"skill": "alpha"})),
            calling(("skill_run", cat)),
            ModelResponse("ok"),
        ],
        executor="local",
    )

    async with agent.runtime:
        await heard(agent, "keep this", files=[Attachment("data.csv", b"1,2\n")])
        await heard(agent, "print it")

    assert "attached: data.csv" in str(model.requests[0].messages[-1]["content"])
    assert '"stdout":"1,2\\n"' in str(model.requests[-1].messages[-1]["content"])


async def test_history_can_be_left_out(place: Path) -> None:
    agent, model = agent_in(place, [ModelResponse("1"), ModelResponse("2"), ModelResponse("3")], history_turns=2)

    for text in ("one", "two", "three"):
        await heard(agent, text)

    said = [message["content"] for message in model.requests[-1].messages if message["role"] != "system"]
    assert said == ["two", "2", "three"]


async def test_who_stops_listening_stops_the_run(place: Path) -> None:
    began = asyncio.Event()

    async def slow(_: object) -> ModelResponse:
        began.set()
        await asyncio.sleep(600)
        raise AssertionError

    agent, _ = agent_in(place, [slow])

    stream = Runner("app", agent).run(user="u", session="s", message="x")
    first = await anext(stream)
    assert first.kind == "message"
    await stream.aclose()


async def test_fifty_sessions_at_once_do_not_wait_for_each_other(place: Path) -> None:
    answers = [calling(("skill_load", {"skill": "alpha"})), ModelResponse("ok")]

    async def one(number: int) -> str:
        agent, _ = agent_in(place, list(answers))
        return (await heard(agent, session=f"s{number}"))[-1].payload["text"]

    assert (await asyncio.gather(*(one(number) for number in range(50)))) == ["ok"] * 50


async def test_a_reply_is_the_run_as_one_value(place: Path) -> None:
    agent, _ = agent_in(place, [ModelResponse("hello back"), ModelUnavailable("gone")])
    good = await Runner("app", agent).reply(user="u", session="s", message="hello")
    assert (good.text, good.error) == ("hello back", None)
    bad = await Runner("app", agent).reply(user="u", session="s", message="hello")
    assert bad.error is not None
    assert bad.error["message"] == "gone"


async def test_options_of_one_run_are_for_that_run(place: Path) -> None:
    agent, model = agent_in(place, [ModelResponse("ok"), ModelResponse("ok")])
    hidden = SessionOptions(visible=lambda skill: skill.name == "beta")

    await heard(agent, options=hidden, instructions="Only today.")
    await heard(agent, "two")

    first, second = (str(request.messages[0]["content"]) for request in model.requests)
    assert "alpha" not in first
    assert first.startswith("Only today.")
    assert "alpha" in second


async def test_two_runners_on_one_session_do_not_talk_across_each_other(place: Path) -> None:
    store = open_session_store(f"sqlite:///{place}/x.db", settings_in(place))
    runtime = runtime_in(place, store=store)
    agents = [Agent("assistant", ScriptedModel([ModelResponse(f"answer {n}")]), runtime) for n in range(6)]
    calls = [Runner("app", agent).reply(user="u", session="s", message="x") for agent in agents]

    assert [reply.text for reply in await asyncio.gather(*calls)] == [f"answer {number}" for number in range(6)]


async def test_a_fork_has_the_options_of_its_run(place: Path) -> None:
    folder = write_skill(place, "forky")
    (folder / "SKILL.md").write_text("---\nname: forky\ndescription: F.\ncontext: fork\n---\nBODY OF forky\n")
    echo = calling(("skill_run", {"skill": "forky", "command": "echo no"}))
    agent, model = agent_in(
        place,
        [calling(("skill_load", {"skill": "forky"})), echo, ModelResponse("tried"), ModelResponse("done")],
        executor="local",
    )

    async with agent.runtime:
        await heard(agent, options=SessionOptions(denied_commands=["echo"]))

    assert "error: " in str(model.requests[2].messages[-1]["content"])


async def test_a_hidden_skill_is_not_forked(place: Path) -> None:
    folder = write_skill(place, "forky")
    (folder / "SKILL.md").write_text("---\nname: forky\ndescription: F.\ncontext: fork\n---\nBODY OF forky\n")
    agent, model = agent_in(place, [calling(("skill_load", {"skill": "forky"})), ModelResponse("done")])
    await heard(agent, options=SessionOptions(visible=lambda skill: skill.name != "forky"))
    assert "unknown skill 'forky'" in str(model.requests[-1].messages[-1]["content"])


async def test_calls_of_a_sub_agent_that_a_crash_left_open_are_closed_too(place: Path) -> None:
    store = MemorySessionStore()
    agent, _ = agent_in(place, [ModelResponse("ok")], store=store)

    task = {"to": "kid", "message": {"role": "user", "content": "x"}}
    await store.append(KEY, new_event("assistant", "message", task))
    open_call = calling(("skill_load", {"skill": "alpha"})).to_message()
    await store.append(KEY, new_event("kid", "message", {"message": open_call}))
    await heard(agent)
    found = await store.get(KEY)
    assert found is not None
    assert find_unanswered_calls(build_transcript(found.events, "kid")) == []


async def test_loads_that_fail_leave_what_was_loaded(place: Path) -> None:
    agent, _ = agent_in(place, [ModelResponse("ok")], options=SessionOptions(load_mode="session"))

    await heard(agent, loads=[Load("alpha")])
    with pytest.raises(UnknownSkill):
        await heard(agent, loads=[Load("alpha"), Load("nope")])
    async with agent.runtime.session("s", user="u", app="app") as session:
        assert session.loaded_skills() == ("alpha",)


ALIKE = ["x.csv", "a/x.csv", "X.CSV", "b\\x.csv", "x_2.csv", "", "-rf", "a, b.csv"]
SHOW = {"skill": "alpha", "command": 'cd $WORK_DIR/inputs && for one in *; do printf \'%s=\' "$one"; cat "$one"; done'}
LOADED = (calling(("skill_load", {"skill": "alpha"})), calling(("skill_run", SHOW)), ModelResponse("ok"))


def told(model: ScriptedModel, number: int) -> tuple[str, ...]:
    return split_files_line(str(model.requests[number].messages[-1]["content"]))[1]


def printed(model: ScriptedModel) -> dict[str, str]:
    result: dict[str, Any] = json.loads(str(model.requests[-1].messages[-1]["content"]))
    return dict(line.split("=", 1) for line in result["stdout"].splitlines())


def files(names: list[str], mark: str = "") -> list[Attachment]:
    return [Attachment(name, f"{mark}{number}\n".encode()) for number, name in enumerate(names)]


def test_a_file_is_bytes_or_a_reference() -> None:
    with pytest.raises(InvalidArgument, match="needs either data or a ref"):
        Attachment("a")
    with pytest.raises(InvalidArgument, match="needs either data or a ref"):
        Attachment("a", b"x", "artifact://x")


async def test_files_with_names_alike_are_found_as_the_model_was_told(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    agent, model = agent_in(tmp_path, [ModelResponse("first"), *LOADED], executor="local")

    async with agent.runtime:
        await heard(agent, files=files(ALIKE, "a"))
        await heard(agent, "again", files=files(["x.csv", "x_9.csv"], "b"))

    first, second = told(model, 0), told(model, 1)
    assert first[:4] == ("x.csv", "x_2.csv", "X_3.CSV", "x_4.csv")
    found = printed(model)
    assert [found[name] for name in first] == [f"a{number}" for number in range(len(ALIKE))]
    assert [found[name] for name in second] == ["b0", "b1"]
    assert len(found) == len(ALIKE) + 2


async def test_what_a_command_has_put_there_is_not_taken_for_the_users_file(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    write = {"skill": "alpha", "command": "echo mine > $WORK_DIR/inputs/x.csv"}
    answers = [calling(("skill_load", {"skill": "alpha"})), calling(("skill_run", write)), ModelResponse("ok"), *LOADED]
    agent, model = agent_in(tmp_path, answers, executor="local")

    async with agent.runtime:
        await heard(agent)
        await heard(agent, "look", files=[Attachment("x.csv", b"theirs\n")])

    assert told(model, 3) == ("x_2.csv",)
    assert printed(model) == {"x.csv": "mine", "x_2.csv": "theirs"}


async def test_after_a_restart_the_files_are_where_they_were(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    store = MemorySessionStore()
    model = ScriptedModel([*LOADED, *LOADED])

    for message, sent in (("one", files(ALIKE)), ("two", files(["x.csv"], "later "))):
        async with runtime_in(tmp_path, executor="local", store=store) as runtime:
            await heard(Agent("assistant", model, runtime), message, files=sent)

    found = printed(model)
    assert [found[name] for name in told(model, 0)] == [str(number) for number in range(len(ALIKE))]
    assert [found[name] for name in told(model, 3)] == ["later 0"]


async def test_without_commands_files_are_kept_and_named_all_the_same(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    agent, model = agent_in(tmp_path, [ModelResponse("ok")])
    events = await heard(agent, files=files(["x.csv", "a/x.csv"]))
    kept = events[0].payload["files"]
    assert [(one["name"], one["path"]) for one in kept] == [
        ("x.csv", "work/inputs/x.csv"),
        ("a/x.csv", "work/inputs/x_2.csv"),
    ]
    assert [one["ref"] for one in kept] == ["artifact://uploads/x.csv@0", "artifact://uploads/x_2.csv@0"]
    assert told(model, 0) == ("x.csv", "x_2.csv")


async def test_files_beyond_the_limit_have_names_of_their_own_and_the_model_hears_that_they_are_not_there(
    tmp_path: Path,
) -> None:
    skills_for_agents(tmp_path)
    agent, model = agent_in(tmp_path, list(LOADED), executor="local")
    await heard(agent, files=files(["x.csv"] * 103))
    await agent.runtime.close()
    assert len(told(model, 0)) == 103
    warnings = json.loads(str(model.requests[-1].messages[-1]["content"]))["warnings"]
    assert "x_101.csv, x_102.csv, x_103.csv are unavailable: too many files, at most 100" in warnings


PARTS = ["What is in", Image(PNG), Image(url="https://example.com/cat.png"), {"type": "text", "text": "these?"}]


async def test_images_and_texts_of_a_message_reach_both_providers_and_come_back_from_the_store(place: Path) -> None:
    store = open_session_store(f"sqlite:///{place / 'sessions.db'}", settings_in(place))
    data = base64.b64encode(PNG).decode()
    for session, make in (("openai", make_openai), ("anthropic", make_anthropic)):
        with ModelServer(["A cat.", "Yes."]) as server:
            model = make(server)
            agent = Agent("assistant", model, runtime_in(place, store=store))
            await heard(agent, cast("Any", PARTS), session=session)
            await heard(agent, "Sure?", session=session)
            await model.close()
        for asked in server.requests:
            (said, *_) = [message for message in asked.body["messages"] if message["role"] == "user"]
            kinds_of_parts = [part["type"] for part in said["content"][:4]]
            if session == "openai":
                assert kinds_of_parts == ["text", "image_url", "image_url", "text"]
                assert said["content"][1]["image_url"]["url"] == f"data:image/png;base64,{data}"
            else:
                assert kinds_of_parts == ["text", "image", "image", "text"]
                assert said["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": data}
                assert said["content"][2]["source"] == {"type": "url", "url": "https://example.com/cat.png"}


async def test_a_file_at_a_provider_is_sent_as_a_reference_and_refused_by_others(place: Path) -> None:
    theirs = {make_openai: "file-abc123", make_anthropic: "file_011CabC"}
    for make, ref in theirs.items():
        other = next(one for one in theirs.values() if one != ref)
        with ModelServer(["Read.", "Read."]) as server:
            model = make(server)
            agent = Agent("assistant", model, runtime_in(place))
            done = await Runner("app", agent).reply(
                user="u", session="s", message=["Read this.", Attachment("report.pdf", ref=ref)]
            )
            assert done.error is None
            failed = await Runner("app", agent).reply(
                user="u", session="t", message="Read this.", files=[Attachment("report.pdf", ref=other)]
            )
            await model.close()
        assert failed.error is not None
        assert f"{other} is a file at " in failed.error["message"]
        assert "attach its content" in failed.error["message"]
        (asked,) = server.requests
        (said,) = [message for message in asked.body["messages"] if message["role"] == "user"]
        if make is make_openai:
            assert said["content"][1] == {"type": "file", "file": {"file_id": ref, "filename": "report.pdf"}}
        else:
            assert said["content"][1]["type"] == "document"
            assert said["content"][1]["source"] == {"type": "file", "file_id": ref}
            assert asked.headers["anthropic-beta"] == "files-api-2025-04-14"


async def test_a_part_that_is_neither_text_nor_image_nor_file_is_refused(place: Path) -> None:
    agent, _ = agent_in(place, [])
    with pytest.raises(InvalidArgument, match=r"message\[1\]: expected text, Image, Attachment"):
        await heard(agent, cast("Any", ["x", {"role": "user"}]))
    for wrong in ({"type": "text"}, {"type": "text", "text": 5}):
        with pytest.raises(InvalidArgument, match=r"message\[0\]: expected text, Image, Attachment"):
            await heard(agent, cast("Any", [wrong]))
    with pytest.raises(InvalidArgument, match="either data or a url"):
        Image()
