"""Our class in the place of deepagents' class, in whole graphs."""

from pathlib import Path
from typing import Any

import deepagents
import pytest
from deepagents.backends import FilesystemBackend, StateBackend
from deepagents.backends.protocol import LsResult
from deepagents.backends.utils import create_file_data
from deepagents.middleware.skills import SkillsMiddleware as Upstream
from deepagents.middleware.skills import SkillsState as UpstreamState
from langchain.agents.middleware import AgentMiddleware
from langchain.tools import ToolRuntime
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from openskills.adapters.langchain.middleware import SkillsMiddleware
from openskills.errors import InvalidArgument
from tests.adapters.langchain.agents import SOURCES, Talk, deep, plain
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.scripted import Scripted, call, load, says, unload
from tests.skill_writer import WriteSkill


class Failing(FilesystemBackend):
    """Raises for every directory while it is `down`."""

    down = False

    def ls(self, path: str) -> LsResult:
        if self.down:
            raise ConnectionError("down")
        return super().ls(path)


def pin(runtime: ToolRuntime[Any, Any]) -> Any:
    """Pin a skill."""
    done = ToolMessage("pinned", tool_call_id=runtime.tool_call_id)
    return Command(update={"pinned_skills": ["s-3"], "messages": [done]})


def pause() -> str:
    """Wait for a person."""
    return "went on"


def test_it_takes_the_slot_of_upstreams_class_in_the_main_agent_and_in_its_subagent(
    write_skill: WriteSkill, backend: Any
) -> None:
    write_skill("pdf")
    task = call("task", "task", description="go", subagent_type="general-purpose")
    talk = deep(backend, [says(task), "child", "done"])
    talk.say()
    for offered in talk.model.offered:
        assert {"load_skill", "unload_skill"} <= set(offered)
    assert talk.model.prompt(0).count("## Skills System") == 1
    assert talk.model.prompt(1).count("## Skills System") == 1


def test_a_subagent_of_ones_own_gets_it_by_its_own_middleware(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", body="Fill the form.", under="others")
    mine = SkillsMiddleware(backend=backend, sources=["/others/"])
    spec = {"name": "clerk", "description": "fills", "system_prompt": "You fill.", "middleware": [mine]}
    task = call("task", "task", description="go", subagent_type="clerk")
    talk = deep(backend, [says(task), says(load("pdf", "child")), "child"], agent={"subagents": [spec]})
    talk.say()
    assert "- **pdf**:" not in talk.model.prompt(0)
    assert any("Fill the form." in message.text for message in talk.model.requests[2])


def test_other_middleware_may_share_upstreams_state(write_skill: WriteSkill, backend: Any) -> None:
    class Forgetful(AgentMiddleware[Any, Any]):
        """Asks for a new search after every run, as upstream's documentation shows."""

        state_schema = UpstreamState

        def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:  # noqa: ARG002
            return {"skills_metadata": None}

    write_skill("pdf")
    talk = deep(backend, [says(load("pdf"))], rescan=False, more=lambda _: [Forgetful()])
    talk.say()
    write_skill("csv")
    talk.say()
    assert "- **csv**:" in talk.model.prompt()
    assert talk.loaded == ["pdf"]


def test_it_may_be_passed_beside_the_argument_skills(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    talk = deep(backend, [says(load("pdf"))], agent={"skills": SOURCES})
    talk.say()
    assert talk.loaded == ["pdf"]
    assert talk.model.prompt().count("## Skills System") == 1


def test_it_is_one_of_upstreams_class_by_type_and_name(backend: Any) -> None:
    ours = SkillsMiddleware(backend=backend, sources=["/a/", ("/b/", "Mine")])
    assert isinstance(ours, Upstream)
    assert ours.name == "SkillsMiddleware"
    assert ours.sources == ["/a/", "/b/"]
    assert ours.source_labels == ["A", "Mine"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"sources": [("/a/", "x", "y")]}, TypeError),
        ({"sources": [], "system_prompt": "no slots"}, ValueError),
        ({"sources": [], "system_prompt": 3}, TypeError),
        ({"sources": [], "max_loaded_skills": 0}, InvalidArgument),
        ({"sources": [], "max_loaded_skills": True}, InvalidArgument),
        ({"sources": [], "max_loaded_skills": 2.5}, InvalidArgument),
        ({"sources": [], "listing": "sorted"}, InvalidArgument),
        ({"sources": "/skills/"}, InvalidArgument),
    ],
)
def test_wrong_arguments_are_refused_when_it_is_made(
    backend: Any, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        SkillsMiddleware(backend=backend, **arguments)


@pytest.mark.parametrize("written", ["`pdf`", " 'pdf' ", "PDF"])
def test_a_name_in_backticks_or_another_case_is_understood(write_skill: WriteSkill, backend: Any, written: str) -> None:
    write_skill("pdf")
    talk = deep(backend, [says(load(written)), says(unload(written))])
    talk.say()
    assert "has been unloaded" in str(talk.results())
    assert talk.loaded == []


def test_the_prompt_counts_loaded_skills_and_names_only_tools_that_the_agent_has(
    write_skill: WriteSkill, backend: Any
) -> None:
    write_skill("pdf", front="allowed-tools: Read search Bash(git:*)\n")
    bare = plain(backend, [says(load("pdf"))], max_loaded_skills=3)
    bare.say()
    assert "(0 of 3 loaded)" in bare.model.prompt(0)
    assert "(1 of 3 loaded)" in bare.model.prompt(1)
    assert "read_file" not in bare.model.prompt(0)
    assert "Recommended tools" not in bare.model.prompt(0)
    assert "resource paths shown in the loaded skill output\n" in bare.model.prompt(0)
    whole = deep(backend, [])
    whole.say()
    assert "(0 of 10 loaded)" in whole.model.prompt()
    assert "skill output with `read_file`" in whole.model.prompt()
    assert "-> Recommended tools: Read\n" in whole.model.prompt()


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_pinned_skill_counts_as_loaded_until_it_is_unloaded(
    write_skill: WriteSkill, backend: Any, awaited: bool
) -> None:
    folder = write_skill("pdf", body="Fill the form.")
    talk = deep(backend, ["hello", says(load("pdf")), "read", says(unload("pdf"))])
    await talk.hear(pinned_skills=["pdf"]) if awaited else talk.say(pinned_skills=["pdf"])
    assert talk.loaded == ["pdf"]
    assert "- **pdf** [Loaded]:" in talk.model.prompt()
    talk.say()
    assert talk.results()["load-pdf"] == "Skill 'pdf' is already loaded. Its instructions are already active."
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text().replace("form", "new form"))
    talk.say()
    assert any("Fill the new form." in message.text for message in talk.model.requests[3])
    assert "has been unloaded" in talk.results()["unload-pdf"]
    assert talk.loaded == []


class Trimming(AgentMiddleware[Any, Any]):
    """Sends only the last message."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(messages=request.messages[-1:]))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request.override(messages=request.messages[-1:]))


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("trims_later", [False, True])
async def test_middleware_that_trims_messages_later_is_warned_of_once(
    write_skill: WriteSkill, backend: Any, caplog: pytest.LogCaptureFixture, awaited: bool, trims_later: bool
) -> None:
    write_skill("pdf")
    place = "later" if trims_later else "more"
    talk = plain(backend, [says(load("pdf"))], **{place: [Trimming()]})
    for _ in range(3):
        await talk.hear() if awaited else talk.say()
    warned = [record.getMessage() for record in caplog.records if "removed the instructions" in record.getMessage()]
    assert len(warned) == trims_later
    assert all("(pdf)" in message for message in warned)


def test_a_subagent_with_upstreams_class_is_warned_of_once(
    write_skill: WriteSkill, backend: Any, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill("pdf")
    mine = SkillsMiddleware(backend=backend, sources=SOURCES)
    specs = [
        {"name": "theirs", "description": "x", "system_prompt": "x", "skills": SOURCES},
        {"name": "ours", "description": "x", "system_prompt": "x", "middleware": [mine]},
        {"name": "none", "description": "x", "system_prompt": "x"},
    ]
    talk = deep(backend, [], agent={"subagents": specs})
    talk.say()
    talk.say()
    (warned,) = [record.getMessage() for record in caplog.records if "subagents" in record.getMessage()]
    assert "without load_skill: theirs;" in warned


async def test_metadata_that_the_caller_brings_is_kept_and_nothing_is_searched(
    write_skill: WriteSkill, backend: Any
) -> None:
    write_skill("pdf")
    ours: Any = SkillsMiddleware(backend=backend, sources=["/skills/"])
    assert ours.before_agent({"skills_metadata": []}, None, {}) is None
    assert ours.before_agent({"skills_metadata": [entry("docx")]}, None, {}) is None
    assert await ours.abefore_agent({"skills_metadata": []}, None, {}) is None
    begun = ours.before_agent({}, None, {})
    assert [skill["name"] for skill in begun["skills_metadata"]] == ["pdf"]


@pytest.mark.parametrize("source", [("/a/",), ("/a/", "x", "y"), ("/a/", 1), (1, "x")])
def test_a_malformed_source_is_a_type_error_that_says_what_is_expected(backend: Any, source: Any) -> None:
    with pytest.raises(TypeError, match=r"expected str or \(str, str\) tuple"):
        SkillsMiddleware(backend=backend, sources=[source])


def test_a_prompt_that_is_not_text_is_a_type_error(backend: Any) -> None:
    prompt: Any = 0
    with pytest.raises(TypeError, match="must be str or None"):
        SkillsMiddleware(backend=backend, sources=[], system_prompt=prompt)


def test_without_a_prompt_skills_can_still_be_loaded(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    talk = plain(backend, [says(load("pdf"))], system_prompt=None)
    talk.say()
    assert talk.loaded == ["pdf"]
    assert talk.model.requests[-1][0].type == "human"


def test_a_prompt_of_ones_own_gets_the_list(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    template = "Mine: {skills_locations}{skills_load_warnings} {skills_list}"
    talk = plain(backend, [], system_prompt=template)
    talk.say()
    assert talk.model.prompt().startswith("Mine: **Skills Skills**: `/skills/` (higher priority) - **pdf**:")


def test_nothing_of_its_state_is_in_the_output_or_taken_from_the_input(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    talk = deep(backend, [says(load("pdf"))])
    output = talk.say(skills_loaded=["pdf"], skill_resources={"x": []})
    assert not [key for key in output if "skill" in key]
    assert talk.loaded == ["pdf"]
    assert "Body" in talk.results()["load-pdf"], "it was not loaded by the input"


def test_skills_of_a_state_backend_are_those_of_the_thread() -> None:
    text = "---\nname: pdf\ndescription: Fills forms.\n---\n\nFill the form.\n"
    backend = StateBackend()
    talk = deep(backend, [says(load("pdf"))])
    files = {"/skills/pdf/SKILL.md": create_file_data(text), "/skills/pdf/scripts/a.py": create_file_data("1")}
    talk.say(files=files)
    assert "Fill the form." in talk.results()["load-pdf"]
    assert "- [script] `/skills/pdf/scripts/a.py`" in talk.results()["load-pdf"]
    other = Talk(talk.agent, talk.model, "two")
    other.say()
    assert "No skills available yet" in talk.model.prompt()


async def test_skills_of_a_state_backend_can_be_loaded_when_the_agent_is_awaited() -> None:
    text = "---\nname: pdf\ndescription: Fills forms.\n---\n\nFill the form.\n"
    talk = deep(StateBackend(), [says(load("pdf"))])
    await talk.hear(files={"/skills/pdf/SKILL.md": create_file_data(text)})
    assert "Fill the form." in talk.results()["load-pdf"]


def test_a_source_that_is_missing_is_a_warning_in_the_prompt(backend: Any) -> None:
    model = Scripted(script=[])
    make: Any = deepagents
    ours = SkillsMiddleware(backend=backend, sources=["/nowhere/"])
    agent = make.create_deep_agent(model, backend=backend, middleware=[ours])
    agent.invoke({"messages": [HumanMessage("go")]})
    assert "<skill_load_warnings>" in model.prompt()
    assert "path_not_found" in model.prompt()


def test_skills_changed_state_survives_in_a_database(write_skill: WriteSkill, backend: Any, tmp_path: Path) -> None:
    write_skill("pdf")
    place = str(tmp_path / "threads.db")
    with SqliteSaver.from_conn_string(place) as saver:
        deep(backend, [says(load("pdf"))], saver=saver).say()
    with SqliteSaver.from_conn_string(place) as saver:
        talk = deep(backend, [says(load("pdf", "again"))], saver=saver)
        talk.say()
        assert talk.loaded == ["pdf"]
        assert talk.results()["again"].startswith("Skill 'pdf' is already loaded.")


def test_one_instance_serves_threads_that_do_not_know_of_each_other(write_skill: WriteSkill, backend: Any) -> None:
    for name in ("a", "b"):
        write_skill(name)
    first = deep(backend, [says(load("a")), "x", says(load("b")), "y"])
    second = Talk(first.agent, first.model, "two")
    first.say()
    second.say()
    assert (first.loaded, second.loaded) == (["a"], ["b"])


def test_results_of_loads_are_streamed_as_messages(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", body="Fill the form.")
    talk = deep(backend, [says(load("pdf"))])
    stream = talk.agent.stream({"messages": [HumanMessage("go")]}, talk.config, stream_mode="messages")
    texts = [message.text for message, _ in stream if isinstance(message, ToolMessage)]
    assert any("Fill the form." in text for text in texts)


def test_fifty_turns_stay_within_the_limit_and_every_loaded_skill_is_in_sight(
    write_skill: WriteSkill, backend: Any
) -> None:
    names = [f"skill-{number}" for number in range(7)]
    for name in names:
        write_skill(name, body=f"The body of {name}.")

    def turn(number: int) -> Any:
        begin, end = names[number % 7], names[(number + 4) % 7]
        return says(unload(end, f"u{number}"), load(begin, f"l{number}"), load(names[(number * 3) % 7], f"m{number}"))

    script = [line for number in range(50) for line in (turn(number), f"answer {number}")]
    talk = deep(backend, script, max_loaded_skills=3)
    for number in range(50):
        talk.say(f"turn {number}")
        shown = "".join(message.text for message in talk.model.requests[-1][1:])
        assert len(talk.loaded) <= 3
        assert all(f"The body of {name}." in shown for name in talk.loaded)
        assert {name for name in names if f"- **{name}** [Loaded]" in talk.model.prompt()} == set(talk.loaded)


def test_a_stable_listing_has_the_same_bytes_whatever_is_loaded(write_skill: WriteSkill, backend: Any) -> None:
    for name in ("a", "b"):
        (write_skill(name) / "more.md").write_text("x", "utf-8")
    script = [says(load("a"), load("b")), says(unload("a")), "one", says(unload("b"))]
    talk = deep(backend, script, listing="stable")
    talk.say()
    talk.say()
    assert len({talk.model.prompt(number) for number in range(len(talk.model.requests))}) == 1
    assert "[Loaded]" not in talk.model.prompt()


def test_with_a_stable_listing_the_results_tell_what_is_loaded(write_skill: WriteSkill, backend: Any) -> None:
    for name in ("a", "b"):
        write_skill(name)
    script = [says(load("a"), load("b")), says(unload("a"))]
    talk = deep(backend, script, listing="stable", max_loaded_skills=3)
    talk.say()
    assert "Loaded skills" not in talk.results()["load-a"]
    assert talk.results()["load-b"].endswith("Loaded skills: a, b (2/3).")
    assert talk.results()["unload-a"].endswith("Loaded skills: b (1/3).")
    assert talk.loaded == ["b"]


def test_with_a_stable_listing_no_message_changes_once_the_model_saw_it(write_skill: WriteSkill, backend: Any) -> None:
    for name in ("a", "b"):
        write_skill(name)
    talk = deep(backend, [says(load("a")), says(load("b")), says(unload("a")), "end"], listing="stable")
    talk.say()
    for before, after in zip(talk.model.requests, talk.model.requests[1:], strict=False):
        assert [message.text for message in after[: len(before)]] == [message.text for message in before]


def test_a_thread_without_a_checkpointer_begins_again_each_time(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    talk = deep(backend, [says(load("pdf")), "one", "two"], saver=InMemorySaver())
    make: Any = deepagents
    ours = SkillsMiddleware(backend=backend, sources=SOURCES)
    agent = make.create_deep_agent(talk.model, backend=backend, middleware=[ours])
    agent.invoke({"messages": [HumanMessage("go")]})
    agent.invoke({"messages": [HumanMessage("go")]})
    assert "[Loaded]" not in talk.model.prompt()


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("count", [5, 20])
async def test_a_skill_that_was_pinned_before_an_interrupt_is_pinned_after_it(
    write_skill: WriteSkill, backend: Any, count: int, awaited: bool
) -> None:
    for number in range(count):
        write_skill(f"s-{number}", body=f"Body {number}.")
    talk = deep(backend, [says(call("pin", "1")), "ok"], agent={"tools": [pin], "interrupt_on": {"pin": True}})
    yes: Any = Command(resume={"decisions": [{"type": "approve"}]})

    if awaited:
        await talk.hear()
        await talk.agent.ainvoke(yes, talk.config)
    else:
        talk.say()
        talk.agent.invoke(yes, talk.config)
    assert "Body 3." in talk.model.requests[-1][-1].text
    assert "**s-4**" in talk.model.prompt()


def test_a_backend_that_fails_after_an_interrupt_ends_no_run(write_skill: WriteSkill, tmp_path: Path) -> None:
    for number in range(20):
        write_skill(f"s-{number}")
    backend = Failing(root_dir=tmp_path, virtual_mode=True)
    gate = {"tools": [pause], "interrupt_on": {"pause": True}}
    talk = deep(backend, [says(call("pause", "1")), says(load("nope")), says(load("s-1")), "ok", "end"], agent=gate)
    talk.say()
    backend.down = True
    talk.agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), talk.config)
    assert "ConnectionError: down" in talk.model.prompt(1), "the model knows why the list is empty"
    assert "Some skills may be missing" in talk.results()["load-nope"]
    assert "Some skills may be missing" in talk.results()["load-s-1"]
    backend.down = False
    talk.say()
    assert "**s-7**" in talk.model.prompt()
