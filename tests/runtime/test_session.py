"""What a model sees and does, through `SkillSession.context` and `SkillSession.call`.

The first layer.

Where a conversation stands.
"""

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from openskills.catalog.catalog import Catalog
from openskills.errors import InvalidArgument, NotLoaded
from openskills.prompt.blocks import PromptLayer, TokenBudget
from openskills.prompt.history import HistoryReplay, TranscriptPosition
from openskills.runtime.options import ModelCall, SessionOptions
from openskills.runtime.session import OverviewCache
from openskills.session.state import AgentView, LoadMode
from openskills.tokens import estimate_tokens
from openskills.tools.tool import ToolResult, format_tools
from tests.runtime.talking import Transcript, runtime_in, text_of
from tests.skill_writer import skill_writer
from tests.tools.contexts import settings_in, write_skill


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three skills whose bodies and documents can be told apart."""
    for name in ("alpha", "beta", "gamma"):
        folder = write_skill(tmp_path, name, {"guide.md": f"GUIDE OF {name}", "more.md": f"MORE OF {name}"})
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: The skill {name}.\n---\nBODY OF {name}\n")
    return tmp_path


async def test_a_body_stands_in_the_result_of_its_load_and_the_transcript_keeps_the_stub(place: Path) -> None:
    async with runtime_in(place).session("s") as session:
        talk = Transcript(session)
        first = talk.user("hello")
        assert "BODY OF" not in text_of(first)
        await talk.load("alpha")
        second = talk.request()
        assert second[-1]["content"].startswith("loaded: alpha\n\n[Loaded] alpha\n\nBODY OF alpha")
        assert talk.messages[-1]["content"] == "loaded: alpha"
        assert second[: len(first)] == first


async def test_no_later_request_changes_an_earlier_byte(place: Path) -> None:
    async with runtime_in(place).session("s") as session:
        talk = Transcript(session)
        requests = [talk.user("hello")]
        await talk.load("alpha", docs=["guide.md"])
        requests.append(talk.request())
        await talk.call(("skill_select_docs", {"skill": "alpha", "docs": ["more.md"], "mode": "add"}))
        requests.append(talk.request())
        await talk.call(("skill_load", {"skill": "beta"}), ("skill_load", {"skill": "gamma"}))
        requests.append(talk.request())
        for before, after in pairwise(requests):
            assert after[: len(before)] == before
        assert "MORE OF alpha" in requests[2][-1]["content"]
        assert all(request.unchanged_share == 1.0 for request in session.ledger.last)


async def test_the_workspace_is_opened_while_the_model_answers_if_a_loaded_skill_has_scripts(tmp_path: Path) -> None:
    write_skill(tmp_path, "plain", {"guide.md": "x"})
    write_skill(tmp_path, "scripted", {"scripts/say.py": "print('said')"})
    settings = settings_in(tmp_path)
    workspaces = settings.state_dir / "workspaces"
    async with runtime_in(tmp_path, executor="local") as runtime, runtime.session("s") as session:
        await session.call("skill_load", {"skill": "plain"})
        await asyncio.sleep(0.05)
        assert not list(workspaces.glob("*/tree"))
        await session.call("skill_load", {"skill": "scripted"})
        while not list(workspaces.glob("*/tree/skills")):
            await asyncio.sleep(0.01)
        result = await session.call("skill_run", {"skill": "scripted", "command": "python3 scripts/say.py"})
        assert "said" in result.text


async def test_a_session_that_is_closed_while_its_workspace_is_being_opened_leaves_nothing_in_use(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "scripted", {"scripts/say.py": "print('said')"})
    async with runtime_in(tmp_path, executor="local") as runtime:
        for _ in range(5):
            async with runtime.session("s") as session:
                await session.call("skill_load", {"skill": "scripted"})
        async with runtime.session("s") as session:
            await session.call("skill_load", {"skill": "scripted"})
            result = await session.call("skill_run", {"skill": "scripted", "command": "python3 scripts/say.py"})
    assert "said" in result.text


async def test_tools_for_commands_are_offered_once_a_skill_has_anything_to_run(place: Path) -> None:
    async with runtime_in(place, executor="local") as runtime, runtime.session("s") as session:

        def offered() -> set[str]:
            return {tool["name"] for tool in session.tools("mcp")}

        commands = {"skill_run", "skill_exec", "skill_write_stdin", "skill_poll_session", "skill_kill_session"}
        talk = Transcript(session)
        assert not offered() & commands
        asked = text_of(talk.user("hello"))
        assert not any(name in asked for name in commands)
        assert session.ledger.sum.by_layer[PromptLayer.TOOLS] == estimate_tokens(format_tools(session.tools()))
        write_skill(place, "delta", {"scripts/go.sh": "echo went"})
        runtime.catalog.refresh()
        assert offered() >= commands
        assert "skill_exec" in text_of(talk.user("go on"))
        (place / "skills" / "delta" / "SKILL.md").unlink()
        runtime.catalog.refresh()
        assert not offered() & commands


async def test_tools_that_were_chosen_are_offered_whatever_the_skills_have(place: Path) -> None:
    options = SessionOptions(tools=("skill_load", "skill_run"))
    async with runtime_in(place, executor="local", options=options) as runtime, runtime.session("s") as session:
        assert [tool["name"] for tool in session.tools("mcp")] == ["skill_load", "skill_run"]


async def test_skills_that_are_not_visible_offer_nothing_to_run(place: Path) -> None:
    write_skill(place, "delta", {"scripts/go.sh": "echo went"})
    options = SessionOptions(visible=lambda skill: skill.name != "delta")
    async with runtime_in(place, executor="local", options=options) as runtime, runtime.session("s") as session:
        assert "skill_run" not in {tool["name"] for tool in session.tools("mcp")}


async def test_tools_are_offered_when_they_are_usable_and_their_descriptions_are_counted(place: Path) -> None:
    write_skill(place, "delta", {"scripts/go.sh": "echo went"})
    async with runtime_in(place, executor="local") as runtime, runtime.session("s") as session:

        def offered() -> set[str]:
            return {tool["name"] for tool in session.tools("mcp", usable=True)}

        everything = {tool["name"] for tool in session.tools("mcp")}
        running = {"skill_write_stdin", "skill_poll_session", "skill_kill_session"}
        assert everything - offered() == running
        talk = Transcript(session)
        talk.user("hello")
        assert session.ledger.sum.by_layer[PromptLayer.TOOLS] == estimate_tokens(format_tools(session.tools()))
        await talk.load("alpha")
        assert everything - offered() == running
        await talk.call(("skill_exec", {"skill": "alpha", "command": "cat"}))
        assert offered() == everything


async def test_the_caller_declares_turns_and_an_image_from_a_tool_does_not_begin_one(place: Path) -> None:
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]}
    async with runtime_in(place).session("s") as session:
        talk = Transcript(session)
        talk.user("hello")
        await talk.load("alpha")
        talk.messages.append(image)
        assert "BODY OF alpha" in text_of(session.context(talk.messages))
        talk.answer()
        talk.messages.append({"role": "user", "content": "output of a program"})
        assert "BODY OF alpha" in text_of(session.context(talk.messages, new_turn=False))
        assert "BODY OF alpha" not in text_of(session.context(talk.messages, new_turn=True))


async def test_a_turn_ends_what_was_loaded_in_it(place: Path) -> None:
    async with runtime_in(place).session("s") as session:
        talk = Transcript(session)
        talk.user("one")
        await talk.load("alpha")
        talk.request()
        talk.answer()
        second = talk.user("two")
        assert "BODY OF alpha" not in text_of(second)
        assert second[3]["content"].startswith("loaded: alpha\n")
        assert session.loaded_skills() == ()
        await talk.load("alpha")
        third = talk.request()
        assert text_of(third).count("BODY OF alpha") == 1
        assert "BODY OF alpha" in third[-1]["content"]
        assert third[: len(second)] == second


async def test_a_session_keeps_it_and_one_look_is_one_look(place: Path) -> None:
    async def go(mode: str) -> list[bool]:
        async with runtime_in(place, options=SessionOptions(load_mode=mode)).session("s") as session:
            talk = Transcript(session)
            talk.user("one")
            await talk.load("alpha")
            seen = ["BODY OF alpha" in text_of(talk.request()), "BODY OF alpha" in text_of(talk.request())]
            await talk.call(("skill_list_docs", {"skill": "alpha"}))
            seen.append("BODY OF alpha" in text_of(talk.request()))
            talk.answer()
            return [*seen, "BODY OF alpha" in text_of(talk.user("two"))]

    assert await go("turn") == [True, True, True, False]
    assert await go("session") == [True, True, True, True]
    assert await go("once") == [True, True, False, False]


async def test_after_one_look_a_skill_may_still_be_run(place: Path) -> None:
    async with (
        runtime_in(place, executor="local", options=SessionOptions(load_mode="once")) as runtime,
        runtime.session("s") as session,
    ):
        talk = Transcript(session)
        talk.user("one")
        await talk.load("alpha")
        talk.request()
        (result,) = await talk.call(("skill_run", {"skill": "alpha", "command": "echo ran"}))
        assert result.error is None
        assert result.data["stdout"] == "ran\n"
        (again,) = await talk.call(("skill_run", {"skill": "alpha", "command": "echo ran"}))
        talk.request()
        assert again.error is None
        talk.answer()
        talk.user("two")
        (refused,) = await talk.call(("skill_run", {"skill": "alpha", "command": "echo ran"}))
        assert isinstance(refused.error, NotLoaded)
        assert "skill_load" in refused.text


async def test_the_least_recently_touched_goes_and_the_model_is_told(place: Path) -> None:
    async with runtime_in(place, options=SessionOptions(max_loaded_skills=2)).session("s") as session:
        talk = Transcript(session)
        talk.user("one")
        await talk.load("alpha")
        await talk.load("beta")
        await talk.call(("skill_select_docs", {"skill": "alpha", "docs": ["guide.md"]}))
        result = await talk.load("gamma")
        assert result.text == "loaded: gamma\nevicted: beta"
        assert result.data["evicted"] == ["beta"]
        assert session.loaded_skills() == ("alpha", "gamma")
        assert "BODY OF beta" not in text_of(talk.request())


async def test_a_policy_of_your_own_decides_who_goes(place: Path) -> None:
    def only_gamma(view: AgentView) -> list[str]:
        return [skill for skill in view.list_loaded() if skill != "gamma"] if "gamma" in view.list_loaded() else []

    async with runtime_in(place, options=SessionOptions(evict=only_gamma)).session("s") as session:
        talk = Transcript(session)
        talk.user("one")
        await talk.load("alpha")
        await talk.load("beta")
        assert set((await talk.load("gamma")).data["evicted"]) == {"alpha", "beta"}


async def test_parallel_loads_never_exceed_the_budget_and_lose_no_change(place: Path) -> None:
    async with runtime_in(place, options=SessionOptions(max_loaded_skills=2)).session("s") as session:
        session.context([{"role": "user", "content": "x"}])
        calls = [session.call("skill_load", {"skill": name}) for name in ("alpha", "beta", "gamma")]
        await asyncio.gather(*calls)
        assert session.loaded_skills() == ("beta", "gamma")


async def test_what_history_has_lost_comes_back_in_one_message(place: Path) -> None:
    async with runtime_in(place, options=SessionOptions(load_mode="session")).session("s") as session:
        talk = Transcript(session)
        talk.user("one")
        await talk.load("alpha", docs=["guide.md"])
        talk.request()
        cut = session.context([{"role": "system", "content": "Summary: they said hello."}, talk.messages[0]])
        assert [message["role"] for message in cut] == ["system", "system", "user"]
        assert cut[1]["content"].startswith("Loaded skill context:")
        assert text_of(cut).count("BODY OF alpha") == text_of(cut).count("GUIDE OF alpha") == 1


async def test_or_counts_as_unloaded_and_the_model_is_told(place: Path) -> None:
    options = SessionOptions(load_mode="session", when_lost="unload")

    async with runtime_in(place, options=options).session("s") as session:
        talk = Transcript(session)
        talk.user("one")
        await talk.load("alpha")
        talk.request()
        cut = session.context([{"role": "user", "content": "one"}, {"role": "assistant", "content": "short"}])
        assert session.loaded_skills() == ()
        assert "BODY OF alpha" not in text_of(cut)
        assert "[Unloaded] alpha" in text_of(cut)
        assert "skill_load" in text_of(cut)


async def test_a_skill_that_left_the_catalog_counts_as_unloaded_and_the_model_is_told(place: Path) -> None:
    runtime = runtime_in(place, options=SessionOptions(load_mode="session"))
    async with runtime.session("s") as session:
        await session.call("skill_load", {"skill": "alpha"})
    (place / "skills/alpha/SKILL.md").unlink()
    runtime.catalog.refresh()
    async with runtime.session("s") as session:
        request = session.context([{"role": "user", "content": "x"}])
        assert "[Unloaded] alpha" in text_of(request)
        assert session.loaded_skills() == ()


async def test_in_the_system_message_when_asked_for(place: Path) -> None:
    async with runtime_in(place, options=SessionOptions(placement="system")).session("s") as session:
        talk = Transcript(session)
        talk.messages.append({"role": "system", "content": "You are kind."})
        talk.user("one")
        await talk.load("alpha")
        request = talk.request()
        assert request[0]["content"].startswith("You are kind.\n\nAvailable skills:")
        assert "[Loaded] alpha\n\nBODY OF alpha" in request[0]["content"]
        assert request[-1]["content"] == "loaded: alpha"


async def test_giving_a_request_back_changes_nothing(place: Path) -> None:
    async with runtime_in(place).session("s") as session:
        talk = Transcript(session)
        talk.user("one")
        await talk.load("alpha")
        request = talk.request()
        assert session.context(request) == request


async def test_messages_are_not_touched(place: Path) -> None:
    async with runtime_in(place).session("s") as session:
        talk = Transcript(session)
        talk.user("one")
        await talk.load("alpha")
        before = json.dumps(talk.messages)
        talk.request()[-1]["content"] = "mine"
        assert json.dumps(talk.messages) == before


async def test_a_text_that_is_too_long_can_be_read_to_its_end(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "long")
    lines = [f"line number {number} of the long text" for number in range(1, 1001)]
    (folder / "SKILL.md").write_text("---\nname: long\ndescription: A long one.\n---\n" + "\n".join(lines) + "\n")

    options = SessionOptions(budget=TokenBudget(body=2000, doc=4000, total=30_000))
    async with runtime_in(tmp_path, options=options).session("s") as session:
        talk = Transcript(session)
        talk.user("one")
        await talk.load("long")
        for _ in range(10):
            text = talk.request()[-1]["content"]
            _, found, rest = text.rpartition("call skill_select_docs with ")
            if not found:
                break
            await talk.call(("skill_select_docs", json.JSONDecoder().raw_decode(rest)[0]))
        result = {line for line in text_of(talk.request()).splitlines() if line.startswith("line number")}

    assert result == set(lines)


async def test_before_the_model_sees_it_somebody_else_may(place: Path) -> None:
    seen: list[tuple[str, ...]] = []

    def before_model(call: ModelCall) -> list[dict[str, Any]] | None:
        seen.append(call.loaded_skills)
        return [*call.messages, {"role": "user", "content": "reminder"}] if seen[-1] else None

    async with runtime_in(place, options=SessionOptions(before_model=before_model)).session("s") as session:
        talk = Transcript(session)
        talk.user("one")
        await talk.load("alpha")
        result = talk.request()

    assert result[-1]["content"] == "reminder"
    assert seen == [(), ("alpha",)]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("load_skill", {}, "did you mean skill_load"),
        ("skill_load", {"skill": "alpah"}, "did you mean 'alpha'"),
        ("skill_load", "{broken", "not valid JSON"),
        ("skill_load", {}, "skill: required"),
        ("skill_run", {"skill": "alpha", "command": "true"}, "skill_run is not available"),
        ("", None, "unknown tool ''"),
        ("\x00" * 5000, {"x": 1}, "unknown tool"),
    ],
)
async def test_nothing_a_model_writes_raises(place: Path, name: str, arguments: Any, said: str) -> None:
    async with runtime_in(place).session("s") as session:
        result = await session.call(name, arguments)
        assert result.error is not None
        assert said in result.text
        assert "Traceback" not in result.text


async def test_objects_of_a_client_are_taken_for_messages(place: Path) -> None:
    class Message:
        """As clients have them: a model that can say what it is."""

        def model_dump(self, *, exclude_none: bool = False) -> dict[str, Any]:
            call = {
                "id": "c",
                "type": "function",
                "function": {"name": "skill_load", "arguments": '{"skill": "alpha"}'},
            }
            return {"role": "assistant", "tool_calls": [call], **({} if exclude_none else {"content": None})}

    async with runtime_in(place).session("s") as session:
        session.context([{"role": "user", "content": "x"}])
        result = await session.call("skill_load", {"skill": "alpha"})
        tool = {"role": "tool", "tool_call_id": "c", "content": result.text}
        found = text_of(session.context([{"role": "user", "content": "x"}, Message(), tool]))

    assert "BODY OF alpha" in found


async def test_many_skills_are_not_listed_in_every_schema(tmp_path: Path) -> None:
    write = skill_writer(tmp_path, "skills")
    for number in range(300):
        write(f"skill-{number}")

    async with runtime_in(tmp_path).session("s") as session:
        result = json.dumps(session.tools("anthropic"))

    assert "skill-17" not in result


async def test_what_cannot_be_a_message_is_refused_with_what_to_give(place: Path) -> None:
    async with runtime_in(place).session("s") as session:
        with pytest.raises(InvalidArgument, match="expected mappings with role and content, got str"):
            session.context(["hello"])


async def test_a_notice_goes_when_the_skill_is_back(place: Path) -> None:
    options = SessionOptions(load_mode="session", when_lost="unload")
    async with runtime_in(place, options=options).session("s") as session:
        talk = Transcript(session)
        talk.user("one")
        await talk.load("alpha")
        talk.request()
        talk.messages[-1]["content"] = "[cleared]"
        assert "[Unloaded] alpha: its text" in text_of(talk.request())
        await talk.load("alpha")
        assert "[Unloaded] alpha: its text" not in text_of(talk.request())


async def test_a_document_that_has_gone_is_named(place: Path) -> None:
    runtime = runtime_in(place, options=SessionOptions(load_mode="session"))
    async with runtime.session("s") as session:
        await session.call("skill_load", {"skill": "alpha", "docs": ["guide.md"]})
    (place / "skills/alpha/guide.md").unlink()
    async with runtime.session("s") as session:
        assert "[Missing] guide.md of alpha" in text_of(session.context([{"role": "user", "content": "x"}]))


async def test_after_its_block_a_session_is_closed(place: Path) -> None:
    async with runtime_in(place).session("s") as session:
        pass
    with pytest.raises(InvalidArgument, match="closed"):
        session.context([])
    with pytest.raises(InvalidArgument, match="closed"):
        await session.call("skill_load", {"skill": "alpha"})


def catalog_in(directory: Path) -> Catalog:
    return Catalog.from_paths(directory / "skills", settings=settings_in(directory))


def test_it_is_the_same_value_until_the_catalog_changes(tmp_path: Path) -> None:
    write_skill(tmp_path, "one")
    catalog = catalog_in(tmp_path)
    overviews = OverviewCache(catalog, SessionOptions(), executor=False)
    before = overviews.get()
    assert overviews.get() is before
    write_skill(tmp_path, "two")
    catalog.refresh()
    assert "two" in overviews.get().overview.text
    assert "two" not in before.overview.text


def test_guidance_is_ours_or_yours_or_none(tmp_path: Path) -> None:
    write_skill(tmp_path, "one")
    catalog = catalog_in(tmp_path)
    texts = [
        OverviewCache(catalog, SessionOptions(guidance=text), executor=True).get().text
        for text in (None, "Be brief.", "")
    ]
    assert "Tooling and workspace guidance:" in texts[0]
    assert texts[1].endswith("\n\nBe brief.")
    assert texts[2].startswith("Available skills:")
    assert "guidance" not in texts[2]


def test_without_skills_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    assert OverviewCache(catalog_in(tmp_path), SessionOptions(), executor=True).get().text == ""


def test_search_comes_when_the_list_has_no_room(tmp_path: Path) -> None:
    write = skill_writer(tmp_path, "skills")
    for number in range(40):
        write(f"skill-{number}", description="Does one thing that takes a while to describe in words. " * 3)
    catalog = catalog_in(tmp_path)
    whole = OverviewCache(catalog, SessionOptions(), executor=False).get()
    tight = OverviewCache(catalog, SessionOptions(overview_tokens=150), executor=False).get()
    asked = OverviewCache(catalog, SessionOptions(search=True), executor=False).get()
    assert "skill_search" not in whole.tools
    assert "skill_search" in tight.tools
    assert "skill_search" in asked.tools
    assert tight.overview.tokens <= 150


def test_hidden_skills_are_as_good_as_absent(tmp_path: Path) -> None:
    for name in ("seen", "hidden"):
        write_skill(tmp_path, name)
    options = SessionOptions(visible=lambda skill: skill.name == "seen")
    layer = OverviewCache(catalog_in(tmp_path), options, executor=False).get()
    assert "hidden" not in layer.text
    assert not layer.skills.has("hidden")


def test_tools_that_cannot_work_are_refused_at_once(tmp_path: Path) -> None:
    write_skill(tmp_path, "one")
    with pytest.raises(InvalidArgument, match="needs an executor"):
        OverviewCache(catalog_in(tmp_path), SessionOptions(profile="full"), executor=False)


def position_of(messages: list[dict[str, Any]]) -> TranscriptPosition:
    return HistoryReplay(LoadMode.TURN).continue_with(messages).position


def said(*roles: str) -> list[dict[str, Any]]:
    return [{"role": role.partition(":")[0], "content": role.partition(":")[2]} for role in roles]


@pytest.mark.parametrize(
    ("before", "now", "begins"),
    [
        (None, ["user:a"], True),
        (None, ["user:a", "assistant", "tool"], False),
        (["user:a"], ["user:a"], False),
        (["user:a"], ["user:a", "assistant", "tool"], False),
        (["user:a", "assistant", "tool"], ["user:a", "assistant", "tool", "assistant", "user:b"], True),
        (["user:a", "assistant"], ["user:a", "assistant", "user:a"], True),
        (["user:a", "assistant", "tool"], ["user:a"], True),
        (["system:x", "user:a"], ["system:y", "user:a", "system:z"], False),
        ([], ["user:a"], True),
        (["user:a"], [], False),
    ],
)
def test_a_turn_begins_when_the_user_has_spoken_again(before: list[str] | None, now: list[str], begins: bool) -> None:
    earlier = None if before is None else position_of(said(*before))
    assert position_of(said(*now)).is_new_turn_after(earlier) is begins


@pytest.mark.parametrize(
    ("before", "now", "answered"),
    [
        (["user:a"], ["user:a"], False),
        (["user:a"], ["user:a", "assistant", "tool"], True),
        (["user:a", "assistant", "tool"], ["user:a", "assistant", "tool"], False),
        (["user:a", "assistant", "tool"], ["user:a", "assistant", "tool", "assistant", "tool"], True),
        (["user:a", "assistant"], ["user:b"], True),
        (None, ["user:a", "assistant"], False),
    ],
)
def test_the_model_has_answered_when_there_is_more_from_it(
    before: list[str] | None, now: list[str], answered: bool
) -> None:
    earlier = None if before is None else position_of(said(*before))
    assert position_of(said(*now)).has_answer_after(earlier) is answered


def test_anything_can_be_in_a_message() -> None:
    assert position_of([{}, {"role": None}, {"role": ["x"], "content": 3}]).users == 0


RUN = {"skill": "alpha", "command": "echo ran >> $OUTPUT_DIR/count; cat $OUTPUT_DIR/count"}


async def test_a_repeated_call_id_is_answered_and_not_run_again_also_by_a_new_runtime(place: Path) -> None:
    results = list[ToolResult]()
    for _ in range(2):
        async with runtime_in(place, executor="local") as runtime, runtime.session("s") as session:
            await session.call("skill_load", {"skill": "alpha"})
            results += [await session.call("skill_run", RUN, call_id="call_1") for _ in range(2)]
    assert [result.data["stdout"] for result in results] == ["ran\n"] * 4
    assert "warnings" not in results[0].data
    assert all("was not run again" in result.data["warnings"][0] for result in results[1:])


async def test_another_call_id_other_arguments_or_another_agent_run_again(place: Path) -> None:
    async with runtime_in(place, executor="local") as runtime, runtime.session("s") as session:
        await session.call("skill_load", {"skill": "alpha"})
        ids = ("call_1", "call_2", "", "", "\ud800 of any characters")
        outputs = [(await session.call("skill_run", RUN, call_id=one)).data for one in ids]
        assert [one["stdout"] for one in outputs] == ["ran\n" * count for count in range(1, 6)]
        assert not any("warnings" in one for one in outputs)
        other = await session.call("skill_run", {**RUN, "command": "echo other"}, call_id="call_1")
        assert other.data["stdout"] == "other\n"
        async with runtime.session("s", agent="second") as second:
            await second.call("skill_load", {"skill": "alpha"})
            assert (await second.call("skill_run", RUN, call_id="call_1")).data["stdout"] == "ran\n" * 6


async def test_a_command_runs_the_version_that_was_loaded_and_a_new_one_after_loading_again(place: Path) -> None:
    folder = write_skill(place, "edited", {"scripts/version.sh": "#!/bin/sh\necho one\n"})
    run = ("skill_run", {"skill": "edited", "command": "scripts/version.sh"})
    async with runtime_in(place, executor="local") as runtime, runtime.session("s") as session:
        talk = Transcript(session)
        talk.user("go")
        await talk.load("edited")
        (folder / "scripts" / "version.sh").write_text("#!/bin/sh\necho two\n")
        (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "\nThe second version.\n")
        (first,) = await talk.call(run)
        assert first.data["stdout"] == "one\n"
        assert "The second version." not in text_of(talk.request())
        await talk.load("edited")
        (second,) = await talk.call(run)
        assert second.data["stdout"] == "two\n"
        assert text_of(talk.request()).count("The second version.") == 1


async def test_in_the_mode_once_documents_are_shown_once_and_are_not_selected_afterwards(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {"a.md": "text of a", "b.md": "text of b"})
    options = SessionOptions(load_mode="once")
    async with runtime_in(tmp_path, options=options) as runtime, runtime.session("s") as session:
        talk = Transcript(session)
        talk.user("go")
        await talk.load("demo", docs=["a.md"])
        assert text_of(talk.request()).count("text of a") == 1
        await talk.call(("skill_select_docs", {"skill": "demo", "docs": ["b.md"], "mode": "add"}))
        shown = text_of(talk.request())
        assert shown.count("text of b") == shown.count("[Loaded] demo") == 1
        talk.answer("I have read it")
        talk.request()
        assert session.docs_of("demo") == ()
        await talk.load("demo")
        assert "text of" not in text_of(talk.request())


async def test_all_documents_are_shown_as_far_as_possible_and_the_others_are_named(tmp_path: Path) -> None:
    long = "words of a document\n" * 2_000
    write_skill(
        tmp_path, "demo", {"a.md": "text of a", "b.md": b"\xff\xfe\x00", **{f"long{n}.md": long for n in range(4)}}
    )
    options = SessionOptions(budget=TokenBudget(body=500, doc=20_000, total=12_000), load_mode="session")
    async with runtime_in(tmp_path, options=options) as runtime, runtime.session("s") as session:
        talk = Transcript(session)
        talk.user("go")
        loaded = (await talk.load("demo", include_all_docs=True)).raise_for_error()
        assert loaded.text.startswith("loaded: demo\ndocuments not shown: b.md (it is not UTF-8 text); ")
        assert "long3.md" in loaded.text
        request = text_of(talk.request())
        assert request.count("text of a") == 1
        assert "[Missing]" not in request
        (chosen,) = await talk.call(("skill_select_docs", {"skill": "demo", "include_all_docs": True}))
        assert "b.md" in json.loads(chosen.text)["left_out"]
        assert text_of(talk.request()).count("text of a") == 1


async def test_what_a_caller_does_with_a_request_is_not_in_the_next_one(place: Path) -> None:
    async with runtime_in(place).session("s") as session:
        talk = Transcript(session)
        talk.user("go")
        await talk.load("alpha")
        first = talk.request()
        expected = [dict(message) for message in first]
        for message in first:
            message["content"] = "changed"
        assert talk.request() == expected
