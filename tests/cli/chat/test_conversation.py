"""Where conversations are kept: a file of the state directory, or another address; each is found by its name.

A conversation as a person reads it: words in full, each call with its result in one line.

What a conversation costs: estimated by us, counted by the provider.
"""

from pathlib import Path

import pytest

from openskills.agent.agent import ARTIFACT, END, ERROR, SUMMARY, TOOL_CALL
from openskills.agent.models.model import ModelResponse, Usage
from openskills.artifacts.open import open_artifact_store
from openskills.artifacts.store import Scope, read_artifact
from openskills.cli.chat.conversation import (
    TokenTracker,
    conversation_title,
    delete_conversations,
    format_conversation,
    list_conversations,
    open_store,
    read_conversation,
    sum_usage,
)
from openskills.cli.sessions import current_user
from openskills.errors import InvalidArgument, ModelUnavailable, SkillError, UnknownSession, UnknownSkill
from openskills.runtime.options import ModelCall
from openskills.session.events import MESSAGE, STATE_UPDATE, TOOL_RESPONSE, Event, new_event
from openskills.session.store import SessionKey
from openskills.settings import Settings
from openskills.sync import run
from openskills.testing.models import ScriptedModel
from tests.agent.agents import skills_for_agents
from tests.cli.chatting import talking


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"HOME": str(tmp_path)})


def key(name: str) -> SessionKey:
    return SessionKey("cli", current_user(), name)


def begin(settings: Settings, *names: str, url: str | None = None) -> None:
    """Begin conversations, one after the other."""

    async def work() -> None:
        async with open_store(url, settings) as store:
            for name in names:
                await store.append(key(name), new_event("user", MESSAGE, {"message": {"content": f"I am {name}"}}))

    run(work())


async def test_the_usual_place_is_a_file_of_the_state_directory(settings: Settings) -> None:
    begin(settings, "one")
    assert (settings.state_dir / "sessions.db").is_file()
    assert (await read_conversation(None, settings, key("one"))).revision == 1


async def test_another_address_is_another_store(settings: Settings, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/other.db"
    begin(settings, "one", url=url)
    assert (await read_conversation(url, settings, key("one"))).revision == 1
    with pytest.raises(UnknownSession):
        await read_conversation(None, settings, key("one"))
    with pytest.raises(InvalidArgument, match="store"):
        await read_conversation("nowhere", settings, key("one"))


def test_a_store_without_connections_can_be_used_as_well(settings: Settings) -> None:
    begin(settings, "one", url="memory:")


async def test_the_list_has_the_last_ones_with_their_titles_and_says_how_many_more_there_are(
    settings: Settings,
) -> None:
    begin(settings, "one", "two", "three")
    found, more = await list_conversations(None, settings, "cli", current_user(), 2)
    assert [(info.key.session, title) for info, title in found] == [("three", "I am three"), ("two", "I am two")]
    assert more == 1
    assert await list_conversations(None, settings, "cli", "somebody-else", 2) == ([], 0)


async def test_a_name_that_is_not_there_is_answered_with_those_like_it(settings: Settings) -> None:
    begin(settings, "report", "chat-20260131")
    with pytest.raises(UnknownSession, match="did you mean 'report'"):
        await read_conversation(None, settings, key("reprot"))
    with pytest.raises(UnknownSession, match="openskills sessions list"):
        await read_conversation(None, settings, key("zzz"))


async def test_deleting_takes_all_or_nothing_and_artifacts_only_when_asked(settings: Settings) -> None:
    begin(settings, "one", "two", "three")
    artifacts = open_artifact_store(None, settings)
    for name in ("one", "two"):
        await artifacts.put(Scope("cli", current_user(), name), "out/a", b"a")
    await artifacts.put(Scope("cli", current_user(), "one"), "user:b", b"b")
    with pytest.raises(UnknownSession):
        await delete_conversations(None, settings, [key("one"), key("nothing")], artifacts=artifacts)
    assert (await read_conversation(None, settings, key("one"))).revision == 1
    assert await delete_conversations(None, settings, [key("one")], artifacts=artifacts) == 1
    assert await delete_conversations(None, settings, [key("two")], artifacts=None) == 0
    assert [
        info.key.session for info, _ in (await list_conversations(None, settings, "cli", current_user(), 9))[0]
    ] == ["three"]
    assert [one.name for one in await artifacts.list(Scope("cli", current_user(), "one"))] == ["user:b"]
    assert [one.name for one in await artifacts.list(Scope("cli", current_user(), "two"))] == ["out/a", "user:b"]


def said(author: str, text: str | None, **more: object) -> Event:
    return new_event(author, MESSAGE, {"message": {"content": text}, **more})


def lines(*events: Event) -> list[str]:
    return [
        "".join(part if isinstance(part, str) else part[0] for part in line) for line in format_conversation(events)
    ]


def call(identity: str, tool: str = "skill_load") -> Event:
    return new_event("assistant", TOOL_CALL, {"call_id": identity, "tool": tool, "arguments": '{"skill": "pdf"}'})


def result(identity: str, text: str = "loaded: pdf", *, failed: bool = False) -> Event:
    return new_event("assistant", TOOL_RESPONSE, {"call_id": identity, "content": text, "failed": failed})


def test_words_are_whole_and_every_call_stands_with_its_result() -> None:
    assert lines(
        said("user", "What is\nin it?\x1b", to="assistant"),
        said("assistant", None),
        call("1"),
        call("2"),
        result("2", "error: no\nmore", failed=True),
        result("1"),
        new_event("assistant", ARTIFACT, {"ref": "artifact://out/a@0"}),
        said("assistant", "Much."),
        new_event("assistant", END, {"text": "Much."}),
    ) == [
        "user: What is\nin it?\\x1b",
        "  * skill_load pdf -> loaded: pdf",
        "  * skill_load pdf -> error: no (+1 line)",
        "  saved artifact://out/a@0",
        "assistant: Much.",
    ]


def test_what_the_person_loaded_what_another_agent_was_told_and_how_it_failed_is_in_it() -> None:
    assert lines(
        result(""),
        said("assistant", "Find it.", to="assistant.pdf"),
        call("1", "skill_run"),
        new_event("assistant", SUMMARY, {"upto": 2, "text": "They met."}),
        new_event("assistant", ERROR, {"message": "it is gone"}),
        new_event("assistant", STATE_UPDATE, {}),
    ) == [
        "  * loaded: pdf",
        "assistant to assistant.pdf: Find it.",
        "  * skill_run pdf -> no result",
        "  summary of everything before: They met.",
        "  error: it is gone",
    ]


def test_events_that_somebody_else_wrote_in_another_way_break_nothing() -> None:
    strange = [new_event("x", kind) for kind in (MESSAGE, TOOL_CALL, TOOL_RESPONSE, ARTIFACT, SUMMARY, ERROR)]
    assert len(lines(*strange)) == 5
    assert lines(new_event("x", MESSAGE, {"message": "hi"}), said("x", None)) == []


def test_the_title_is_what_the_user_said_first_without_its_files() -> None:
    first = said("user", "What is\nin it?\n\n[attached: a.csv; commands find the user's files in work/inputs/]")
    assert conversation_title([said("assistant", "Hello."), first, said("user", "More.")]) == "What is in it?"
    assert conversation_title([]) == ""


def counting(number: int) -> dict[str, object]:
    return {"message": {}, "usage": {"input": number, "output": 1, "cached": 2}}


def test_what_the_provider_counted_is_added_up_over_all_answers() -> None:
    events = [new_event("a", MESSAGE, counting(10)), new_event("u", MESSAGE, {}), new_event("a", "end", counting(5))]
    assert sum_usage([*events, new_event("b", MESSAGE, counting(20))]) == Usage(30, 2, 4)


def test_without_a_request_there_is_little_to_say() -> None:
    lines = TokenTracker().format_lines([], [])
    assert lines[0] == "the model reports no usage; all numbers are estimates"
    assert lines[1:] == [
        "no requests in this chat yet",
        "all 0 skills in full: about 0 tokens",
    ]


def test_requests_are_estimated_as_they_are_sent() -> None:
    tokens = TokenTracker()
    first = [{"role": "user", "content": "hello " * 100}]
    tokens.record_request(ModelCall("s", "a", (), list(first)))
    tokens.record_request(ModelCall("s", "a", (), [*first, {"role": "assistant", "content": "hello " * 100}]))
    line = tokens.format_lines([], [])[1]
    assert line.startswith("2 requests in this chat; the last had about ")
    assert line.endswith(" tokens, 50% of them unchanged since the previous request")


async def test_a_conversation_says_what_all_skills_would_cost_and_which_were_loaded(tmp_path: Path) -> None:
    usage = ModelResponse("Hello.", usage=Usage(1234, 5, 0))
    async with talking(skills_for_agents(tmp_path), [usage]) as (talk, _):
        await talk.send("hi $alpha")
        counted, _, full, loaded = talk.tokens.format_lines(await talk.session.events(), talk.runtime.catalog.skills)
    assert counted == "reported by the provider for this conversation: 1,234 in, 5 out"
    assert full.startswith("all 2 skills in full: about ")
    assert loaded.startswith("loaded in the last request: alpha (about ")


def last_words(model: ScriptedModel) -> str:
    return str(model.requests[-1].messages[-1]["content"])


def system_text(model: ScriptedModel) -> str:
    return "\n".join(str(one["content"]) for one in model.requests[-1].messages if one["role"] == "system")


def reserved(directory: Path) -> Path:
    """Two usual skills, one for people, one for models, and one that cannot be used here."""
    skills_for_agents(directory)
    for name, front in (
        ("deploy", "disable-model-invocation: true"),
        ("inner", "user-invocable: false"),
        ("far", "metadata:\n  openskills:\n    requires:\n      env: [SURELY_NOT_SET]"),
    ):
        folder = directory / "skills" / name
        folder.mkdir()
        text = f"---\nname: {name}\ndescription: The skill {name}.\n{front}\n---\nBODY OF {name}\n"
        (folder / "SKILL.md").write_text(text)
    return directory


async def test_an_answer_is_true_and_an_error_of_the_model_is_false(tmp_path: Path) -> None:
    answers = ["Hello.", ModelUnavailable("it is down")]
    async with talking(skills_for_agents(tmp_path), answers) as (talk, _):
        result = await talk.send("hi"), await talk.send("hi")

    assert result == (True, False)


async def test_a_skill_that_is_named_is_loaded_before_the_model_is_asked_for_this_turn(tmp_path: Path) -> None:
    async with talking(skills_for_agents(tmp_path), ["One.", "Two."]) as (talk, model):
        await talk.send("Use $alpha now")
        assert last_words(model) == "Use $alpha now"
        assert "BODY OF alpha" in str(model.requests[-1].messages)
        await talk.send("and then?")
        assert "BODY OF alpha" not in str(model.requests[-1].messages)


async def test_a_name_that_is_nearly_a_skill_is_not_sent_and_money_is(tmp_path: Path) -> None:
    async with talking(skills_for_agents(tmp_path), ["Fine."]) as (talk, model):
        with pytest.raises(UnknownSkill, match="did you mean 'alpha'"):
            await talk.send("$alphaa please")
        assert await talk.send("$5 is too much for $HOME and me$alpha")
        assert len(model.requests) == 1


async def test_files_go_with_one_message_and_are_kept_as_artifacts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sales.csv").write_text("a,b\n")
    (tmp_path / "more.txt").write_text("more")
    monkeypatch.chdir(tmp_path)

    async with talking(skills_for_agents(tmp_path), ["One.", "Two."]) as (talk, model):
        talk.attach("more.txt")
        await talk.send("What is in @data/sales.csv, and in @nothing.csv?")
        said, _, attached = last_words(model).partition("\n\n")
        assert said == "What is in sales.csv, and in @nothing.csv?"
        assert attached.startswith("[attached: more.txt, sales.csv;")
        kept = await read_artifact(talk.runtime.artifacts, talk.session.scope, "uploads/sales.csv")
        assert kept == b"a,b\n"
        await talk.send("and now?")
        assert last_words(model) == "and now?"

    shown = capsys.readouterr().err
    assert "attached: more.txt (4 bytes)" in shown
    assert "note: file not found: nothing.csv?; sent as text" in shown


async def test_what_cannot_be_sent_keeps_its_files_for_the_next_message(tmp_path: Path) -> None:
    async with talking(skills_for_agents(tmp_path), ["Fine."]) as (talk, model):
        (tmp_path / "a.txt").write_text("a")
        talk.attach(str(tmp_path / "a.txt"))
        with pytest.raises(SkillError):
            await talk.send("$alphaa please")
        await talk.send("$alpha please")
        assert "[attached: a.txt;" in last_words(model)


async def test_a_skill_for_people_is_seen_by_the_model_while_a_person_uses_it_and_no_longer(tmp_path: Path) -> None:
    async with talking(reserved(tmp_path), ["One.", "Two."]) as (talk, model):
        await talk.send("Please $deploy")
        assert "BODY OF deploy" in str(model.requests[-1].messages)
        await talk.send("thanks")
        assert "deploy" not in system_text(model)


async def test_a_skill_for_models_or_one_that_cannot_be_used_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with talking(reserved(tmp_path), []) as (talk, _):
        with pytest.raises(InvalidArgument, match="not user-invocable"):
            await talk.send("$inner please")
        with pytest.raises(InvalidArgument, match="SURELY_NOT_SET"):
            talk.find_skill("far")


async def test_files_with_the_same_name_are_distinguished_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("north", "south"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text(folder)
    monkeypatch.chdir(tmp_path)

    async with talking(skills_for_agents(tmp_path), ["One.", "Two."]) as (talk, model):
        await talk.send("Compare @north/x.csv and @south/x.csv.")
        said, _, attached = last_words(model).partition("\n\n")
        assert said == "Compare north/x.csv and south/x.csv."
        assert attached.startswith("[attached: x.csv (north/x.csv), x_2.csv (south/x.csv);")
        await talk.send("And @south/x.csv again.")
        assert last_words(model).partition("\n\n")[2].startswith("[attached: x_3.csv (x.csv);")
