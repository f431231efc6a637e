"""People who decide about commands while a graph waits for them.

Calls in a graph.

Skills of a runtime in whole graphs of LangChain.

Whose session a run is.
"""

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import deepagents
import pytest
from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from openskills.adapters.langchain.runtime import (
    SkillRuntimeMiddleware,
    ask_by_interrupt,
    build_tool_message,
    create_session_name,
    find_call_index,
    find_earlier_changes,
    find_scope,
    get_thread_id,
    get_user_id,
)
from openskills.adapters.langchain.runtime_state import loaded_skills
from openskills.artifacts.store import Scope
from openskills.catalog.catalog import Catalog
from openskills.catalog.sources.parse import parse_source
from openskills.errors import InvalidArgument
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.settings import Settings
from openskills.sync import run
from openskills.testing.fake_executor import FakeExecutor, FakeRun
from openskills.tools.tool import ToolResult
from tests.adapters.langchain.runtime_agents import SkillTalk, create_agent, hello, load, runtime_of, talk_of, unload
from tests.adapters.langchain.scripted import Scripted, call, says
from tests.servers.mcp import McpScenario, environment_of
from tests.skill_writer import WriteSkill


@pytest.fixture
def talk(tmp_path: Path, write_skill: WriteSkill) -> SkillTalk:
    """A thread in which every command is asked about, and that has come to the first."""
    write_skill("pdf")
    script = [says(load("pdf")), says(hello("pdf")), says(hello("pdf", "again")), "done"]
    found = talk_of(runtime_of(tmp_path / "skills", ask=ask_by_interrupt), script)
    found.say()
    return found


def waiting(talk: SkillTalk) -> list[Any]:
    """What the thread waits for."""
    return [one.value for one in talk.agent.get_state(talk.config).interrupts]


def answer(talk: SkillTalk, what: object) -> None:
    """Say it, and let the thread go on."""
    talk.agent.invoke(Command(resume=what), talk.config)


def test_the_interrupt_says_what_is_to_be_run(talk: SkillTalk) -> None:
    (question,) = waiting(talk)
    assert (question["skill"], question["command"]) == ("pdf", "hello")
    assert "run" not in talk.results()
    assert [type(choice) for choice in question["choices"]] == [str, str, str]


def test_a_yes_runs_it_and_the_next_command_is_asked_about_again(talk: SkillTalk) -> None:
    answer(talk, True)
    assert "hello from a command" in talk.results()["run"].text
    assert len(waiting(talk)) == 1
    answer(talk, "allow_once")
    assert talk.results()["again"].status == "success"
    assert waiting(talk) == []


def test_a_yes_for_the_session_is_remembered(talk: SkillTalk) -> None:
    answer(talk, "allow_session")
    assert waiting(talk) == []
    assert talk.results()["again"].status == "success"


@pytest.mark.parametrize("no", [False, "deny", {"what": "is this"}, 7, None], ids=str)
def test_anything_but_a_yes_runs_nothing_and_the_model_is_told(talk: SkillTalk, no: object) -> None:
    answer(talk, no if no is not None else "no, not today")
    assert talk.results()["run"].status == "error"
    assert "hello from a command" not in talk.results()["run"].text


def test_the_reason_of_a_no_reaches_the_model(talk: SkillTalk) -> None:
    answer(talk, "not before Monday")
    assert "not before Monday" in talk.results()["run"].text


@pytest.mark.parametrize("commands", [("hello", "hello"), ("hello", "hello again")], ids=["the same", "two"])
@pytest.mark.parametrize("is_awaited", [False, True])
async def test_commands_of_one_message_are_all_asked_about(
    tmp_path: Path, write_skill: WriteSkill, commands: tuple[str, str], is_awaited: bool
) -> None:
    write_skill("pdf")
    executor = FakeExecutor({"hello": FakeRun(b"hi"), "hello again": FakeRun(b"hi")})
    both = [call("skill_run", str(place), skill="pdf", command=command) for place, command in enumerate(commands)]
    talk = talk_of(
        runtime_of(tmp_path / "skills", executor, ask=ask_by_interrupt), [says(load("pdf")), says(*both), "done"]
    )
    await talk.hear() if is_awaited else talk.say()
    interrupts = talk.agent.get_state(talk.config).interrupts
    assert [one.value["command"] for one in interrupts] == list(commands)
    answer(talk, {one.id: True for one in interrupts})
    assert [talk.results()[call_id].status for call_id in ("0", "1")] == ["success", "success"]


async def test_an_awaited_graph_waits_too(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("pdf")
    script = [says(load("pdf")), says(hello("pdf")), "done"]
    talk = talk_of(runtime_of(tmp_path / "skills", ask=ask_by_interrupt), script)

    await talk.hear()
    assert len(waiting(talk)) == 1
    await talk.agent.ainvoke(Command(resume=True), talk.config)

    assert talk.results()["run"].status == "success"


async def test_outside_a_graph_nothing_runs(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("pdf")

    async with runtime_of(tmp_path / "skills", ask=ask_by_interrupt).session("s") as session:
        await session.call("skill_load", {"skill": "pdf"})
        result = (await session.call("skill_run", {"skill": "pdf", "command": "hello"})).text

    assert result.startswith("error:")


def test_a_call_has_the_place_that_it_has_in_the_last_answer() -> None:
    messages = [says(call("a", "3")), HumanMessage("hi"), says(call("a", "1"), call("b", "2"))]
    assert [find_call_index(call_id, messages) for call_id in ("1", "2", "3")] == [0, 1, 0]


def test_a_call_of_nobody_has_the_first_place() -> None:
    assert find_call_index("1", []) == 0
    assert find_call_index("1", [HumanMessage("hi"), AIMessage("done")]) == 0


def test_calls_before_one_count_if_they_may_change_what_is_loaded_and_have_no_result() -> None:
    calls = [call("skill_load", "1"), call("skill_run", "2"), call("skill_unload", "3"), call("skill_select_docs", "4")]
    messages = [says(call("skill_load", "0")), says(*calls), ToolMessage("no", tool_call_id="3")]
    assert [(place, one["id"]) for place, one in find_earlier_changes("4", messages)] == [(0, "1")]
    assert find_earlier_changes("1", messages) == []
    assert find_earlier_changes("unknown", messages) == []
    assert find_earlier_changes("1", []) == []


def test_a_result_says_whether_it_is_an_error() -> None:
    assert build_tool_message("t", "1", ToolResult("fine")).status == "success"
    failed = build_tool_message("t", "1", ToolResult.from_error(InvalidArgument("skill", "required")))
    assert failed.status == "error"
    assert failed.text == "error: skill: required"


def test_only_kept_files_are_beside_the_text() -> None:
    assert build_tool_message("t", "1", ToolResult("fine", {"stdout": "x"})).artifact is None
    files = [{"name": "a", "version": 0}]
    assert build_tool_message("t", "1", ToolResult("fine", {"artifact_files": files})).artifact == {
        "artifact_files": files
    }


@pytest.fixture
def skills(tmp_path: Path, write_skill: WriteSkill) -> Path:
    """Three skills, each with a body of its own; one has documents."""
    for name in ("pdf", "docx", "xlsx"):
        write_skill(name, body=f"# How to work with {name}")
    guide = tmp_path / "skills" / "pdf" / "references"
    guide.mkdir()
    (guide / "guide.md").write_text("The guide to forms.")
    return tmp_path / "skills"


def test_a_skill_is_listed_loaded_and_run(skills: Path) -> None:
    talk = talk_of(runtime_of(skills), [says(load("pdf")), says(hello("pdf")), "done"])
    talk.say()
    assert "- pdf: Merges things." in talk.model.prompt(0)
    assert "# How to work with pdf" not in talk.shown(0)
    assert "# How to work with pdf" in talk.shown(1)
    assert "hello from a command" in talk.results()["run"].text
    assert talk.loaded() == ("pdf",)


async def test_awaited_it_does_the_same(skills: Path) -> None:
    talk = talk_of(runtime_of(skills), [says(load("pdf")), says(hello("pdf")), "done"])
    await talk.hear()
    assert "# How to work with pdf" in talk.shown(1)
    assert "hello from a command" in talk.results()["run"].text


def test_every_turn_may_have_a_loop_of_its_own(skills: Path) -> None:
    script = [says(load("pdf")), "one", says(hello("pdf")), "two"]
    talk = talk_of(runtime_of(skills, load_mode="session"), script)
    asyncio.run(talk.hear())
    asyncio.run(talk.hear())
    assert "hello from a command" in talk.results()["run"].text


def test_blocking_and_awaited_turns_may_alternate_in_a_thread(skills: Path) -> None:
    script = [says(load("pdf")), "one", says(hello("pdf")), "two", says(unload("pdf")), "three"]
    talk = talk_of(runtime_of(skills, load_mode="session"), script)
    asyncio.run(talk.hear())
    talk.say()
    asyncio.run(talk.hear())
    assert "hello from a command" in talk.results()["run"].text
    assert talk.loaded() == ()


async def test_a_blocking_turn_works_where_a_loop_is_running(skills: Path) -> None:
    talk = talk_of(runtime_of(skills), [says(load("pdf")), "done"])

    talk.say()

    assert talk.loaded() == ("pdf",)


def test_the_thread_keeps_short_results_and_the_requests_have_the_texts(skills: Path) -> None:
    talk = talk_of(runtime_of(skills), [says(load("pdf")), "done"])
    messages = talk.say()
    assert [message.text for message in messages if isinstance(message, ToolMessage)] == ["loaded: pdf"]


def test_no_byte_of_a_request_changes_while_more_is_loaded(skills: Path) -> None:
    script = [says(load("pdf")), says(load("docx")), says(call("skill_select_docs", "docs", skill="pdf", docs="*"))]
    talk = talk_of(runtime_of(skills), script, agent={"system_prompt": "You are brief."})
    talk.say()
    requests = talk.model.requests
    for earlier, later in pairwise(requests):
        assert [message.text for message in later[: len(earlier)]] == [message.text for message in earlier]
    assert "The guide to forms." in talk.shown()


def test_two_loads_and_an_error_in_one_message_each_get_their_own_result(skills: Path) -> None:
    talk = talk_of(runtime_of(skills), [says(load("pdf"), load("nothing"), load("docx")), "done"])
    talk.say()
    assert talk.loaded() == ("pdf", "docx")
    assert talk.results()["load-nothing"].status == "error"
    assert "unknown skill 'nothing'" in talk.results()["load-nothing"].text


@pytest.mark.parametrize(
    ("first", "second", "loaded"),
    [(load("pdf"), unload("pdf"), ()), (unload("pdf"), load("pdf"), ("pdf",))],
    ids=["load, then unload", "unload, then load"],
)
def test_of_two_calls_in_one_message_the_second_decides(skills: Path, first: Any, second: Any, loaded: object) -> None:
    talk = talk_of(runtime_of(skills), [says(load("pdf", "before")), says(first, second), "done"])
    talk.say()
    assert talk.loaded() == loaded


async def test_awaited_calls_of_one_message_are_in_order_too(skills: Path) -> None:
    calls = [load(name) for name in ("pdf", "docx", "xlsx")]
    talk = talk_of(runtime_of(skills, max_loaded_skills=2), [says(*calls), "done"])
    await talk.hear()
    assert talk.loaded() == ("docx", "xlsx")


def test_never_more_is_shown_than_may_be_loaded(skills: Path) -> None:
    talk = talk_of(runtime_of(skills, max_loaded_skills=1), [says(load("pdf"), load("docx")), "done"])
    talk.say()
    assert talk.loaded() == ("docx",)
    assert "# How to work with docx" in talk.shown()
    assert "# How to work with pdf" not in talk.shown()
    assert "[Unloaded] pdf" in talk.shown()


def test_what_a_model_writes_never_ends_the_run(skills: Path) -> None:
    wrong = [
        call("skill_load", "1"),
        call("skill_load", "2", skill=["pdf"], runtime="mine", config={}, self=1, callbacks=2, run_manager=3),
        call("skill_run", "3", skill="pdf", command="hello"),
        call("no_such_tool", "4"),
    ]
    talk = talk_of(runtime_of(skills), [says(*wrong), "done"])
    talk.say()
    assert {call_id: message.status for call_id, message in talk.results().items()} == dict.fromkeys("1234", "error")
    assert "skill_load" in talk.results()["3"].text


def test_a_turn_of_the_user_ends_what_was_loaded_in_the_one_before(skills: Path) -> None:
    talk = talk_of(runtime_of(skills), [says(load("pdf")), "one", "two"])
    talk.say()
    talk.say("something else")
    assert talk.loaded() == ()
    assert "# How to work with pdf" not in talk.shown()


def test_in_the_mode_once_a_text_is_in_one_request_and_its_commands_may_still_be_run(skills: Path) -> None:
    script = [says(load("pdf")), says(hello("pdf")), says(hello("pdf", "again")), "done"]
    talk = talk_of(runtime_of(skills, load_mode="once"), script)
    talk.say()
    shown = ["# How to work with pdf" in talk.shown(number) for number in range(4)]
    assert shown == [False, True, False, False]
    assert [talk.results()[name].status for name in ("run", "again")] == ["success", "success"]


def test_fifty_turns_show_what_is_loaded_and_keep_their_state_small(skills: Path) -> None:
    names = ("pdf", "docx", "xlsx")
    script = [line for turn in range(50) for line in (says(load(names[turn % 3], f"load-{turn}")), f"turn {turn}")]
    talk = talk_of(runtime_of(skills), script)
    for turn in range(50):
        talk.say(f"turn {turn}")
        assert talk.loaded() == (names[turn % 3],)
        assert f"# How to work with {names[turn % 3]}" in talk.shown()
    state = talk.agent.get_state(talk.config).values["openskills_state"]
    assert len(state["skills"]["assistant"]) == 1
    assert len(talk.results()) == 50


def test_a_run_without_a_thread_has_a_session_of_its_own(skills: Path) -> None:
    wrote = call("write_file", "write", path="work/note.txt", content="remember")
    read = call("read_file", "read", file_name="work/note.txt")
    runtime = runtime_of(skills)
    first = talk_of(runtime, [says(wrote), says(read), "done"], thread=None)
    texts = [message.text for message in first.say() if isinstance(message, ToolMessage)]
    assert "remember" in texts[1]
    second = talk_of(runtime, [says(read), "done"], thread=None)
    (result,) = [message for message in second.say() if isinstance(message, ToolMessage)]
    assert result.status == "error"


def test_files_belong_to_the_user_and_the_thread(skills: Path) -> None:
    wrote = call("write_file", "write", path="work/note.txt", content="remember")
    read = call("read_file", "read", file_name="work/note.txt")
    runtime = runtime_of(skills)
    script = [says(wrote), "a", says(read), "b", says(call("read_file", "again", file_name="work/note.txt")), "c"]
    talk = talk_of(runtime, script)
    talk.say()
    talk.config = {"configurable": {"thread_id": "one", "user_id": "somebody else"}}
    talk.say()
    assert talk.results()["read"].status == "error"
    talk.config = {"configurable": {"thread_id": "one"}}
    talk.say()
    assert "remember" in talk.results()["again"].text


def test_the_user_may_be_found_by_a_function(skills: Path) -> None:
    runtime = runtime_of(skills)
    seen: list[str] = []

    def owner(config: Any) -> str:
        seen.append(config["configurable"]["thread_id"])
        return "ada"

    talk_of(runtime, [says(load("pdf")), "done"], user=owner).say()
    assert set(seen) == {"one"}


def test_a_name_that_cannot_be_one_is_refused_before_the_model_is_asked(skills: Path) -> None:
    talk = talk_of(runtime_of(skills), [], thread="x" * 600)
    with pytest.raises(InvalidArgument, match="session"):
        talk.say()
    assert talk.model.requests == []


def test_skills_that_come_later_are_listed_and_may_be_named(skills: Path, write_skill: WriteSkill) -> None:
    runtime = runtime_of(skills)
    talk = talk_of(runtime, ["one", says(load("later")), "two"])
    talk.say()
    write_skill("later", body="# It came later")
    runtime.catalog.refresh()
    talk.say()
    assert "- later:" in talk.model.prompt()
    assert "# It came later" in talk.shown()


def test_search_is_offered_when_not_every_skill_is_listed(skills: Path) -> None:
    assert "skill_search" not in _offered(runtime_of(skills))
    assert "skill_search" in _offered(runtime_of(skills, overview_tokens=20))


def test_tools_for_commands_are_offered_once_a_skill_has_anything_to_run(skills: Path, write_skill: WriteSkill) -> None:
    runtime = runtime_of(skills)
    talk = talk_of(runtime, ["one", says(load("later"), hello("later")), "two"])
    talk.say()
    assert "skill_run" not in talk.model.offered[0]
    assert "skill_exec" not in talk.model.prompt()
    write_skill("later", body="Run `hello --loud`.")
    runtime.catalog.refresh()
    talk.say()
    assert {"skill_run", "skill_exec", "skill_poll_session"} <= {*talk.model.offered[1]}
    assert "hello from a command" in talk.results()["run"].text


def test_without_an_executor_skills_can_be_read_and_not_run(skills: Path) -> None:
    runtime = SkillRuntime(Catalog.from_paths(skills))
    assert _offered(runtime) == ["skill_load", "skill_select_docs", "skill_list_docs", "skill_unload"]


def test_the_model_is_told_the_names_of_the_skills(skills: Path) -> None:
    schemas: list[Any] = []

    class Spy(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
            schemas.extend(tool.args for tool in request.tools if not isinstance(tool, dict))
            return handler(request)

    talk_of(runtime_of(skills), ["done"], after=[Spy()]).say()
    assert schemas[0]["skill"]["enum"] == ["docx", "pdf", "xlsx"]


def test_tools_that_somebody_took_out_of_a_request_stay_out(skills: Path) -> None:
    class Few(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
            return handler(request.override(tools=request.tools[:1]))

    talk = talk_of(runtime_of(skills), ["done"], before=[Few()])
    talk.say()
    assert talk.model.offered[0] == ["skill_load"]


def test_options_of_the_middleware_take_the_place_of_the_runtimes(skills: Path) -> None:
    options = SessionOptions(tools=("skill_load",), guidance="Be careful.")
    talk = talk_of(runtime_of(skills), ["done"], options=options)
    talk.say()
    assert talk.model.offered[0] == ["skill_load"]
    assert talk.model.prompt().endswith("Be careful.")


def test_a_file_of_the_user_is_there_for_commands(skills: Path) -> None:
    file = {"type": "file", "base64": "aGVsbG8=", "mime_type": "text/plain", "extras": {"filename": "greeting.txt"}}
    runtime = runtime_of(skills)
    talk = talk_of(runtime, [says(load("pdf")), says(hello("pdf")), says(call("list_files", "ls", path="work/inputs"))])
    talk.agent.invoke({"messages": [HumanMessage(["Look at this.", file])]}, talk.config)
    assert "greeting.txt" in talk.results()["ls"].text


def test_kept_files_are_told_to_programs(skills: Path) -> None:
    executor = FakeExecutor({"make": FakeRun(files={"out/a.txt": b"A"})})
    kept = call("skill_run", "run", skill="pdf", command="make", output_files=["out/*.txt"], save_as_artifacts=True)
    talk = talk_of(runtime_of(skills, executor), [says(load("pdf")), says(kept), "done"])
    talk.say()
    artifact = talk.results()["run"].artifact
    assert [file["name"] for file in artifact["artifact_files"]] == ["out/a.txt"]


def test_system_messages_with_parts_keep_their_parts(skills: Path) -> None:
    parts: list[Any] = [{"type": "text", "text": "You are brief.", "cache_control": {"type": "ephemeral"}}]
    talk = talk_of(runtime_of(skills), ["done"], agent={"system_prompt": SystemMessage(parts)})
    talk.say()
    content = talk.model.requests[0][0].content
    assert isinstance(content, list)
    assert content[0] == parts[0]


def test_it_opens_while_our_own_loop_runs(skills: Path) -> None:
    async def build() -> SkillRuntimeMiddleware:
        return SkillRuntimeMiddleware(runtime_of(skills))

    assert next(tool.name for tool in run(build()).tools) == "skill_load"


def test_two_agents_of_a_thread_share_files_and_not_what_they_loaded(skills: Path) -> None:
    runtime = runtime_of(skills)
    child_model = Scripted(
        script=[says(load("docx")), says(call("write_file", "w", path="work/from-child.txt", content="hi")), "child"]
    )
    child = create_agent(child_model, middleware=[SkillRuntimeMiddleware(runtime, agent="child")])

    @tool
    def delegate(task: str) -> str:
        """Let another agent do it."""
        return child.invoke({"messages": [HumanMessage(task)]})["messages"][-1].text

    script = [
        says(load("pdf"), call("delegate", "d", task="write")),
        says(call("read_file", "r", file_name="work/from-child.txt")),
        "done",
    ]
    talk = talk_of(runtime, script, agent={"tools": [delegate]})
    talk.say()
    assert talk.loaded() == ("pdf",)
    assert loaded_skills(talk.agent.get_state(talk.config).values, "child") == ()
    assert "# How to work with docx" in "\n".join(message.text for message in child_model.requests[-1])
    assert "# How to work with pdf" not in "\n".join(message.text for message in child_model.requests[-1])
    assert "hi" in talk.results()["r"].text


@pytest.mark.parametrize("is_awaited", [False, True])
async def test_a_command_is_talked_to_over_several_calls_and_turns(skills: Path, is_awaited: bool) -> None:
    executor = FakeExecutor({"ask": FakeRun(b"Your name? ", replies=(b"And yours? ", b"Bye."))})

    def write(messages: Any) -> Any:
        begun = next(message for message in messages if getattr(message, "tool_call_id", "") == "exec")
        identity = json.loads(begun.text)["session_id"]
        call_id = f"write-{len(messages)}"
        return says(call("skill_write_stdin", call_id, session_id=identity, chars="Ada", submit=True))

    begin = call("skill_exec", "exec", skill="pdf", command="ask")
    script = [says(load("pdf")), says(begin), write, "one", write, "two"]
    talk = talk_of(runtime_of(skills, executor, load_mode="session"), script)

    if is_awaited:
        await talk.hear()
        await talk.hear()
    else:
        talk.say()
        talk.say()
    outputs = [json.loads(message.text)["output"] for message in list(talk.results().values())[1:]]
    assert outputs == ["Your name? ", "And yours? ", "Bye."]


async def test_a_run_that_is_cancelled_ends_its_command(skills: Path) -> None:
    executor = FakeExecutor({"forever": FakeRun(forever=True)})
    runtime = runtime_of(skills, executor)
    talk = talk_of(runtime, [says(load("pdf")), says(call("skill_run", "run", skill="pdf", command="forever")), "x"])

    async def go() -> None:
        turn = asyncio.ensure_future(talk.hear())
        while not executor.commands:
            await asyncio.wait([turn], timeout=0.01)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert "run" not in talk.results()
        await runtime.close()

    await asyncio.wait_for(go(), 30)


def test_in_a_deep_agent_it_works_beside_the_tools_that_are_there(skills: Path, backend: Any) -> None:
    model = Scripted(script=[says(load("pdf"), hello("pdf")), says(hello("pdf", "again")), "done"])
    options = SessionOptions(tools=("skill_load", "skill_unload", "skill_run"))
    skill_tools = SkillRuntimeMiddleware(runtime_of(skills), options=options)
    agent = cast("Any", deepagents).create_deep_agent(
        model, backend=backend, middleware=[skill_tools], checkpointer=InMemorySaver()
    )
    talk = SkillTalk(agent, model)
    talk.say()
    assert {"read_file", "skill_run", "task"} <= set(model.offered[0])
    assert talk.results()["again"].status == "success"
    assert "# How to work with pdf" in talk.shown()


def _offered(runtime: SkillRuntime) -> list[str]:
    talk: SkillTalk = talk_of(runtime, ["done"])
    talk.say()
    return talk.model.offered[0]


THREAD: RunnableConfig = {"configurable": {"thread_id": 7, "user_id": "ada"}}
NOBODY: RunnableConfig = {}


def test_a_thread_is_a_session_whatever_the_type_of_its_name() -> None:
    assert get_thread_id(THREAD) == "7"
    assert find_scope(THREAD, {}, "app", "me") == Scope("app", "me", "7")


def test_the_user_is_found_in_the_configuration() -> None:
    assert find_scope(THREAD, {}, "app", get_user_id).user == "ada"
    assert get_user_id(NOBODY) == "local"


def test_a_run_without_a_thread_gets_a_name_once() -> None:
    named = create_session_name(NOBODY, {})
    assert named is not None
    assert create_session_name(NOBODY, named) is None
    assert find_scope(NOBODY, named, "app", "me").session == named["openskills_session"]
    assert create_session_name(NOBODY, {}) != named
    assert create_session_name(THREAD, {}) is None


def test_without_any_name_there_is_no_session() -> None:
    with pytest.raises(InvalidArgument, match="session"):
        find_scope(NOBODY, {}, "app", "me")


def test_a_graph_loads_and_runs_a_skill_of_an_mcp_server(tmp_path: Path) -> None:
    scenario = McpScenario(tmp_path)
    scenario.add("echo", {"scripts/say.py": b"print('said by a server')"})
    settings = Settings.from_env(environment_of(tmp_path / "home"))
    catalog = Catalog([parse_source(scenario.write(), settings, trusted=True)], settings)
    script = [
        says(load("echo")),
        says(call("skill_run", "run", skill="echo", command="python scripts/say.py")),
        "done",
    ]
    talk = talk_of(SkillRuntime(catalog, "auto", settings=settings), script)
    talk.say()
    assert "said by a server" in talk.results()["run"].text
    assert "This skill comes from the server mcp:" in talk.shown()
