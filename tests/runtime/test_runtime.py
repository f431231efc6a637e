"""A process that serves conversations, and its options."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openskills.catalog.catalog import Catalog
from openskills.catalog.locations import project_source
from openskills.catalog.trust import TrustAnswer
from openskills.errors import CommandDenied, InvalidArgument, SkillError
from openskills.executors.open import open_executor
from openskills.executors.requests import SecretRequest
from openskills.project import SkillGrants
from openskills.prompt.blocks import Placement
from openskills.runtime.options import SessionOptions, WhenLost
from openskills.runtime.runtime import SkillRuntime
from openskills.session.events import Event, new_event
from openskills.session.memory import MemorySessionStore
from openskills.session.state import LoadMode, keep_most_recent
from openskills.session.store import Session, SessionKey
from openskills.testing.checks import PNG
from openskills.tools.approvals import ApprovalDecision, ApprovalQuestion
from openskills.tools.names import ToolProfile
from tests.catalog.sources.web_server import Page, serving
from tests.conftest import RequireProgram
from tests.runtime.talking import Transcript, runtime_in, text_of
from tests.tools.contexts import settings_in, write_skill

KEY = SessionKey("openskills", "local", "s")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("alpha", "beta"):
        write_skill(tmp_path, name, {"guide.md": f"GUIDE OF {name}", "scripts/go.py": "print('went')"})
    return tmp_path


async def test_agents_share_a_conversation_and_not_what_they_loaded(place: Path) -> None:
    runtime = runtime_in(place)
    async with runtime.session("s", agent="chief") as chief, runtime.session("s", agent="child") as child:
        await chief.call("skill_load", {"skill": "alpha"})
        await child.call("skill_load", {"skill": "beta"})
        assert (chief.loaded_skills(), child.loaded_skills()) == (("alpha",), ("beta",))
        assert "[Loaded] beta" not in text_of(chief.context([{"role": "user", "content": "x"}]))
        assert child.state() == chief.state()


async def test_a_sub_agent_can_begin_with_what_its_chief_has(place: Path) -> None:
    runtime = runtime_in(place)
    async with runtime.session("s", agent="chief") as chief:
        await chief.call("skill_load", {"skill": "alpha", "docs": ["guide.md"]})
        async with runtime.session("s", agent="child", inherit_from="chief") as child:
            request = text_of(child.context([{"role": "user", "content": "do it"}]))
            assert "[Loaded] alpha" in request
            assert "GUIDE OF alpha" in request
            await child.call("skill_unload", {"skill": "alpha"})
        assert chief.loaded_skills() == ("alpha",)


async def test_what_lies_in_a_store_is_in_the_words_of_the_documents(place: Path) -> None:
    store = MemorySessionStore()

    async with runtime_in(place, store=store).session("s", agent="a/b") as session:
        await session.call("skill_load", {"skill": "alpha", "docs": ["guide.md"]})
        await session.call("skill_load", {"skill": "beta", "include_all_docs": True})
    found = await store.get(KEY)
    assert found is not None

    assert found.state == {
        "temp:skill:loaded_by_agent:a%2Fb/alpha": "1",
        "temp:skill:docs_by_agent:a%2Fb/alpha": '["guide.md"]',
        "temp:skill:loaded_by_agent:a%2Fb/beta": "1",
        "temp:skill:docs_by_agent:a%2Fb/beta": "*",
        "temp:skill:loaded_order_by_agent:a%2Fb": '["alpha","beta"]',
    }


async def test_a_session_opens_again_with_what_it_had(place: Path) -> None:
    store = MemorySessionStore()
    options = SessionOptions(load_mode="session")

    async with runtime_in(place, store=store, options=options).session("s") as session:
        talk = Transcript(session)
        talk.user("one")
        await talk.load("alpha", docs=["guide.md"])
        before = talk.request()
    async with runtime_in(place, store=store, options=options).session("s") as session:
        assert session.loaded_skills() == ("alpha",)
        assert session.context(talk.messages) == before


async def test_in_turn_mode_what_a_stored_session_had_is_gone_when_the_user_speaks_and_not_before(place: Path) -> None:
    store = MemorySessionStore()

    async with runtime_in(place, store=store).session("s") as session:
        talk = Transcript(session)
        talk.user("one")
        await talk.load("alpha")
    async with runtime_in(place, store=store).session("s") as session:
        assert "[Loaded] alpha" in text_of(session.context(talk.messages))
        talk.answer()
        talk.messages.append({"role": "user", "content": "two"})
        assert "[Loaded] alpha" not in text_of(session.context(talk.messages))
    found = await store.get(KEY)
    assert found is not None
    assert not any(found.state.values())


async def test_keys_of_older_versions_are_moved_when_they_are_seen(place: Path) -> None:
    store = MemorySessionStore()

    old = {"temp:skill:loaded:alpha": "1", "temp:skill:docs:alpha": '["guide.md"]', "other": "kept"}
    await store.append(KEY, new_event("somebody", "state.update", {}, old))
    async with runtime_in(place, store=store).session("s", agent="me") as session:
        assert session.loaded_skills() == ("alpha",)
    found = await store.get(KEY)
    assert found is not None

    state = found.state
    assert state["temp:skill:loaded_by_agent:me/alpha"] == "1"
    assert state["other"] == "kept"
    assert not state.get("temp:skill:loaded:alpha")


async def test_a_hook_of_the_store_may_evict_and_the_model_is_told(place: Path) -> None:
    def keep_one(event: Event, state: Mapping[str, str]) -> Event:
        loaded = [key for key in state if key.startswith("temp:skill:loaded_by_agent:")]
        coming = [key for key in event.delta if key.startswith("temp:skill:loaded_by_agent:") and event.delta[key]]
        return replace(event, delta={**event.delta, **dict.fromkeys(loaded)}) if coming else event

    async with runtime_in(place, store=MemorySessionStore(hook=keep_one)).session("s") as session:
        await session.call("skill_load", {"skill": "alpha"})
        result = await session.call("skill_load", {"skill": "beta"})
        assert result.data["evicted"] == ["alpha"]
        assert session.loaded_skills() == ("beta",)


async def test_a_hook_that_evicts_does_not_take_what_is_still_to_be_written(place: Path) -> None:
    def touched(event: Event, state: Mapping[str, str]) -> Event:
        del state
        return replace(event, delta={**event.delta, "seen": "1"})

    async with runtime_in(place, store=MemorySessionStore(hook=touched)).session("s") as session:
        await asyncio.gather(*(session.call("skill_load", {"skill": name}) for name in ("alpha", "beta")))
        assert set(session.loaded_skills()) == {"alpha", "beta"}


@pytest.mark.parametrize("agent", ["", "a\nb", "x" * 1000])
async def test_an_agent_needs_a_name_that_can_be_stored(place: Path, agent: str) -> None:
    async def go() -> None:
        async with runtime_in(place).session("s", agent=agent):
            raise AssertionError

    with pytest.raises(InvalidArgument, match="agent"):
        await go()


@pytest.mark.parametrize("name", ["local", "sandbox"])
async def test_a_whole_turn_with_a_command_an_artifact_and_a_file_of_the_user(
    place: Path, name: str, require_program: object
) -> None:
    del require_program

    async with runtime_in(place, executor=name) as runtime, runtime.session("s") as session:
        talk = Transcript(session)
        session.add_file("../data.csv", b"a,b\n1,2\n")
        talk.user("look at it")
        (early,) = await talk.call(("skill_run", {"skill": "alpha", "command": "true"}))
        assert early.error is not None
        assert "skill_load" in early.text
        await talk.load("alpha")
        command = "cat inputs/data.csv && python3 scripts/go.py && cp inputs/data.csv $OUTPUT_DIR/copy.csv"
        arguments = {"skill": "alpha", "command": command, "outputs": {"globs": ["out/*"], "save": True}}
        (result,) = await talk.call(("skill_run", arguments))
        assert result.data["stdout"] == "a,b\n1,2\nwent\n"
        assert result.data["staged_inputs"][0]["original_name"] == "../data.csv"
        assert result.data["artifact_files"][0]["ref"] == "artifact://out/copy.csv@0"
        for ref in (
            "workspace://out/copy.csv",
            "artifact://out/copy.csv",
            "inputs/data.csv",
            "skill://alpha/guide.md",
        ):
            (read,) = await talk.call(("read_file", {"file_name": ref}))
            assert read.error is None, read.text


async def test_a_process_lives_across_turns_and_sessions(place: Path) -> None:
    async with runtime_in(place, executor="local") as runtime:
        async with runtime.session("s") as session:
            session.context([{"role": "user", "content": "x"}])
            await session.call("skill_load", {"skill": "alpha"})
            command = {"skill": "alpha", "command": "read -r line; echo got $line > $OUTPUT_DIR/x; echo done"}
            started = await session.call("skill_exec", command)
            assert started.data["status"] == "running", started.text
        async with runtime.session("s", agent="other") as other:
            refused = await other.call("skill_poll_session", {"session_id": started.data["session_id"]})
            assert refused.error is not None
        async with runtime.session("s") as session:
            session.begin_turn()
            identity = started.data["session_id"]
            written = {"session_id": identity, "chars": "it", "submit": True, "yield_ms": 10_000}
            ended = await session.call("skill_write_stdin", written)
            assert ended.data["status"] == "exited"
            assert ended.data["result"]["output_files"][0]["ref"] == "workspace://out/x"


async def test_a_picture_survives_from_the_command_to_the_artifact(place: Path) -> None:
    async with runtime_in(place, executor="local") as runtime, runtime.session("s") as session:
        session.add_file("plot.png", PNG)
        session.context([{"role": "user", "content": "x"}])
        await session.call("skill_load", {"skill": "alpha"})
        arguments = {"skill": "alpha", "command": "cp inputs/plot.png out/plot.png", "output_files": ["out/*.png"]}
        result = await session.call("skill_run", {**arguments, "save_as_artifacts": True})
        assert "content" not in result.data["output_files"][0]
        async with runtime.artifacts.open(session.scope, "out/plot.png") as reading:
            assert b"".join([chunk async for chunk in reading.chunks]) == PNG


async def test_a_script_that_changed_after_its_project_was_trusted_is_neither_run_nor_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    settings = settings_in(tmp_path)
    folder = tmp_path / "project" / ".agents" / "skills" / "alpha"
    folder.parent.mkdir(parents=True)
    write_skill(tmp_path, "alpha", {"go.sh": "echo good"}).rename(folder)
    source = project_source(tmp_path / "project", settings)
    source.remember(source.find_locations(), TrustAnswer.YES)
    catalog = Catalog.standard(tmp_path / "project", settings=settings)
    call = {"skill": "alpha", "command": "sh go.sh"}
    async with SkillRuntime(catalog, "local", settings=settings) as runtime, runtime.session("s") as session:
        await session.call("skill_load", {"skill": "alpha"})
        (folder / "go.sh").write_text("echo evil")
        for _ in range(2):
            # The version that was loaded runs, also if the model tries to load the changed one.
            assert (await session.call("skill_run", call)).data["stdout"] == "good\n"
            await session.call("skill_load", {"skill": "alpha"})
        refused = await session.call("read_file", {"file_name": "skill://alpha/go.sh"})
        assert refused.error is not None
        assert "has changed since it was trusted" in refused.text
        source.remember(source.find_locations(), TrustAnswer.YES)
        catalog.refresh()
        await session.call("skill_load", {"skill": "alpha"})
        assert (await session.call("skill_run", call)).data["stdout"] == "evil\n"


async def test_without_an_executor_there_is_nothing_to_run_with(place: Path) -> None:
    async with runtime_in(place).session("s") as session:
        names = [tool["name"] for tool in session.tools("mcp")]
        assert names == ["skill_load", "skill_select_docs", "skill_list_docs", "skill_unload"]


def test_options_that_cannot_work_are_refused_when_the_runtime_is_made(place: Path) -> None:
    with pytest.raises(InvalidArgument, match="needs an executor"):
        runtime_in(place, options=SessionOptions(tools=["skill_load", "skill_run"]))
    with pytest.raises(InvalidArgument, match="sandbx"):
        runtime_in(place, executor="sandbx")


async def test_an_executor_of_yours_is_yours_to_close(place: Path) -> None:
    mine = open_executor("local", settings_in(place))
    try:
        async with runtime_in(place, executor=mine) as runtime, runtime.session("s") as session:
            await session.call("skill_load", {"skill": "alpha"})
            await session.call("skill_run", {"skill": "alpha", "command": "true"})
        async with runtime_in(place, executor=mine) as runtime, runtime.session("s") as session:
            await session.call("skill_load", {"skill": "alpha"})
            again = await session.call("skill_run", {"skill": "alpha", "command": "true"})
            assert again.error is None, again.text
    finally:
        await mine.close()


async def test_every_run_is_in_the_audit_log_under_its_agent(place: Path) -> None:
    async with runtime_in(place, executor="local") as runtime:
        for agent in ("one", "two"):
            async with runtime.session("s", agent=agent) as session:
                await session.call("skill_load", {"skill": "alpha"})
                await session.call("skill_run", {"skill": "alpha", "command": f"echo {agent}"})

    lines = [json.loads(line) for line in (place / "state/audit.jsonl").read_text().splitlines()]
    assert [line["agent"] for line in lines if line["event"] == "end"] == ["one", "two"]


async def test_variables_of_a_session_are_in_every_command_and_a_call_may_change_them(place: Path) -> None:
    options = SessionOptions(grants={"*": SkillGrants(environment={"COLOUR": "red", "SHAPE": "round"})})
    async with runtime_in(place, executor="local", options=options) as runtime, runtime.session("s") as session:
        await session.call("skill_load", {"skill": "alpha"})
        wanted = {"skill": "alpha", "command": "echo $COLOUR $SHAPE", "env": {"COLOUR": "blue"}}
        assert (await session.call("skill_run", wanted)).data["stdout"] == "blue round\n"


async def test_the_limit_holds_for_what_is_inherited_and_for_what_a_store_had(place: Path) -> None:
    store = MemorySessionStore()
    runtime = runtime_in(place, store=store, options=SessionOptions(load_mode="session"))
    one = SessionOptions(load_mode="session", max_loaded_skills=1)
    async with runtime.session("s", agent="chief") as chief:
        for name in ("alpha", "beta"):
            await chief.call("skill_load", {"skill": name})
        async with runtime.session("s", agent="child", inherit_from="chief", options=one) as child:
            request = text_of(child.context([{"role": "user", "content": "x"}]))
            assert len(child.loaded_skills()) == 1
            assert "[Unloaded]" in request
    async with runtime.session("s", agent="chief", options=one) as chief:
        chief.context([{"role": "user", "content": "x"}])
        assert chief.loaded_skills() == ("beta",)


async def test_the_rules_are_those_of_the_session_that_asks(place: Path) -> None:
    async def yes(question: ApprovalQuestion) -> bool:
        asked.append(question.command)
        return True

    async def no(question: ApprovalQuestion) -> str:
        return f"not {question.command}"

    asked: list[str] = []

    async with (
        runtime_in(place, executor="local") as runtime,
        runtime.session("s", options=SessionOptions(ask=yes)) as first,
        runtime.session("s", options=SessionOptions(ask=no)) as second,
        runtime.session("s", options=SessionOptions(denied_commands=["id"])) as third,
    ):
        await first.call("skill_load", {"skill": "alpha"})
        wanted = {"skill": "alpha", "command": "id"}
        assert (await first.call("skill_run", wanted)).error is None
        assert (await first.call("skill_exec", wanted)).error is None
        for session in (second, third):
            for tool in ("skill_run", "skill_exec"):
                assert isinstance((await session.call(tool, wanted)).error, CommandDenied), tool
        assert asked == ["id", "id"]


async def test_an_answer_for_the_session_and_a_file_outlive_one_block(place: Path) -> None:
    asked: list[str] = []

    async def ask(question: ApprovalQuestion) -> ApprovalDecision:
        asked.append(question.command)
        return ApprovalDecision.ALLOW_SESSION

    async with runtime_in(place, executor="local", options=SessionOptions(ask=ask)) as runtime:
        async with runtime.session("s") as session:
            session.add_file("a.txt", b"kept")
        for _ in range(2):
            async with runtime.session("s") as session:
                await session.call("skill_load", {"skill": "alpha"})
                result = await session.call("skill_run", {"skill": "alpha", "command": "cat inputs/a.txt"})
                assert result.data["stdout"] == "kept"
        assert len(asked) == 1


async def test_a_store_that_fails_keeps_nothing_open(place: Path) -> None:
    broken = [False]

    def hook(event: Event, state: Mapping[str, str]) -> Event:
        del state
        if broken[0]:
            raise SkillError("the disk is full")
        return event

    async def failing(runtime: SkillRuntime) -> None:
        async with runtime.session("s") as session:
            await session.call("skill_load", {"skill": "alpha"})
            await session.call("skill_run", {"skill": "alpha", "command": "true"})
            broken[0] = True
            session.begin_turn()

    runtime = runtime_in(place, executor="local", store=MemorySessionStore(hook=hook))
    with pytest.raises(SkillError, match="full"):
        await failing(runtime)
    async with runtime_in(place, executor="local") as other, other.session("s") as session:
        await session.call("skill_load", {"skill": "alpha"})
        assert (await session.call("skill_run", {"skill": "alpha", "command": "true"})).error is None
    await runtime.close()


async def test_a_store_that_is_slow_for_one_keeps_no_other_waiting(place: Path) -> None:
    class Slow(MemorySessionStore):
        async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
            if key.session == "slow":
                await asyncio.Event().wait()
            return await super().get(key, after=after)

    runtime = runtime_in(place, store=Slow())
    waiting = asyncio.ensure_future(runtime.session("slow").__aenter__())
    await asyncio.sleep(0)
    async with runtime.session("quick") as session:
        assert session.loaded_skills() == ()
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_only_the_skill_that_was_granted_a_host_reaches_it(place: Path, require_program: RequireProgram) -> None:
    require_program("bwrap")
    with serving() as web:
        web.pages["/"] = Page(b"reached")
        host = web.url.removeprefix("http://")
        options = SessionOptions(grants={"alpha": SkillGrants(network=(host,)), "beta": SkillGrants(timeout=20)})
        command = f"python3 -c \"import urllib.request as u; print(u.urlopen('{web.url}').read().decode())\""
        async with runtime_in(place, executor="sandbox", options=options) as runtime, runtime.session("s") as session:
            for skill, code in (("alpha", 0), ("beta", 1)):
                await session.call("skill_load", {"skill": skill})
                ran = await session.call("skill_run", {"skill": skill, "command": command})
                assert (ran.data["exit_code"], "reached" in ran.data["stdout"]) == (code, code == 0), ran.text
        assert web.paths == ["/"]


async def test_invalid_grants_are_refused_when_the_options_are_made(place: Path) -> None:
    del place
    for grants, message in (
        (SkillGrants(network=("a b",)), "network: invalid host name"),
        (SkillGrants(environment={"PATH": "/x"}), "environment: PATH is set by the runtime"),
        (SkillGrants(secrets=("LD_PRELOAD",)), "secrets: LD_PRELOAD changes which code"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            SessionOptions(grants={"*": grants})
    with pytest.raises(InvalidArgument, match="timeout: 0 is not a positive number"):
        SessionOptions(grants={"*": SkillGrants(timeout=0)})
    with pytest.raises(InvalidArgument, match="network"):
        SkillGrants(network="a.example")  # pyright: ignore[reportArgumentType]


async def test_a_program_decides_which_declared_variables_a_skill_gets(place: Path) -> None:
    requires = '{"env": ["KEY_A", "KEY_B", "KEY_C", "HOME"], "bins": ["sh"]}'
    front = f'metadata: {{"openclaw": {{"requires": {requires}, "primaryEnv": "KEY_D"}}}}'
    write_skill(place, "alpha", {"SKILL.md": f"---\nname: alpha\ndescription: Keys. Use it.\n{front}\n---\n"})
    asked: list[SecretRequest] = []

    async def decide(request: SecretRequest) -> Mapping[str, str]:
        asked.append(request)
        return {"KEY_B": "for-b"}

    options = SessionOptions(
        grants={"alpha": SkillGrants(secrets=("KEY_A",))}, secrets={"KEY_A": "for-a"}, ask_secrets=decide
    )
    settings = replace(settings_in(place), environment=dict.fromkeys(("KEY_A", "KEY_B", "KEY_C", "HOME"), "1"))
    catalog = Catalog.from_paths(place / "skills", settings=settings)
    async with (
        SkillRuntime(catalog, "local", settings=settings, options=options) as runtime,
        runtime.session("s") as session,
    ):
        loaded = await session.call("skill_load", {"skill": "alpha"})
        assert loaded.text == (
            "loaded: alpha\nrequires: programs sh; variables KEY_A, KEY_B, KEY_C, HOME, KEY_D; "
            "not granted, so commands do not have it: KEY_C, KEY_D"
        )
        assert loaded.data["not_granted"] == ["KEY_C", "KEY_D"]
        for tool in ("skill_run", "skill_exec"):
            ran = await session.call(tool, {"skill": "alpha", "command": "echo ${#KEY_A} ${#KEY_B} ${#KEY_C} $KEY_B"})
            assert "5 5 0 *****" in ran.text
    assert [(one.skill, one.names, one.agent) for one in asked] == [
        ("alpha", ("KEY_B", "KEY_C", "KEY_D"), "assistant")
    ] * 3
    assert len({one.digest for one in asked}) == 1


def test_text_is_taken_for_every_choice() -> None:
    options = SessionOptions(load_mode=" Session ", placement="system", when_lost="unload", profile="FULL")
    assert options.load_mode is LoadMode.SESSION
    assert options.placement is Placement.SYSTEM
    assert options.when_lost is WhenLost.UNLOAD
    assert options.profile is ToolProfile.FULL


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"load_mode": "forever"}, "load_mode.*turn, once, session"),
        ({"placement": "user"}, "placement.*tool_result, system"),
        ({"profile": "none"}, "profile.*full, knowledge_only"),
        ({"overview_format": "toml"}, "overview_format.*xml"),
        ({"max_loaded_skills": -1}, "max_loaded_skills.*negative"),
        ({"evict": keep_most_recent(1), "max_loaded_skills": 3}, "evict"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_field(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        SessionOptions(**given)


def test_secrets_are_not_in_what_is_printed() -> None:
    assert "hunter2" not in repr(SessionOptions(secrets={"TOKEN": "hunter2"}))
