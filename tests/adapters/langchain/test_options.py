"""The options beyond loading and unloading: off by default, each in a whole graph.

The model that a skill asks for.

`allowed-tools` as a rule.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends import FilesystemBackend
from deepagents.backends.protocol import LsResult
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from openskills.adapters.langchain.options import (
    ALWAYS_ALLOWED,
    SkillOptions,
    ToolRule,
    choose_model,
    collect_rules,
    find_refusal,
)
from openskills.errors import InvalidArgument
from tests.adapters.langchain.agents import Talk, deep
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.scripted import Scripted, call, load, says
from tests.skill_writer import WriteSkill

MANUAL = "disable-model-invocation: true\n"
HINTED = "argument-hint: '[env-name]'\n"
FORKED = "context: fork\n"


def search(query: str) -> str:
    """Search."""
    return f"found {query}"


def reported(messages: Sequence[BaseMessage]) -> str:
    """A subagent repeats the last result."""
    return f"child: {messages[-1].text}"


def nothing(_: str) -> None:
    """No model has this name."""


def optional(backend: Any, script: Any, *, agent: Any = None, **options: Any) -> Talk:
    return deep(backend, script, options=SkillOptions(**options), agent=agent)


def test_by_default_fields_beyond_the_specification_mean_nothing(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("deploy", front=f"{MANUAL}{HINTED}{FORKED}model: big\nallowed-tools: search\n")
    talk = deep(backend, [says(load("deploy")), says(call("ls", "ls", path="/"))])
    talk.say()
    assert talk.loaded == ["deploy"]
    assert "Manual only" not in talk.model.prompt(0)
    assert "args=" not in talk.model.prompt(0)
    assert set(talk.state["skills_metadata"][0]) == {
        *("path", "name", "description", "license", "compatibility", "metadata", "allowed_tools")
    }


def test_a_manual_skill_is_shown_as_one_and_the_model_cannot_load_it(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("deploy", front=MANUAL)
    talk = optional(backend, [says(load("deploy"))], invocation=True)
    talk.say()
    assert "- **deploy** (Manual only):" in talk.model.prompt()
    assert 'load_skill("deploy")' not in talk.model.prompt()
    assert talk.results()["load-deploy"].startswith("Error: Skill 'deploy' is for manual use only")
    assert talk.loaded == []


def test_a_person_can_still_start_a_manual_skill(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("deploy", front=MANUAL, body="Ship it.")
    talk = optional(backend, [], invocation=True)
    talk.say(pinned_skills=["deploy"])
    assert "Ship it." in talk.model.requests[-1][-1].text


def test_the_argument_hint_is_shown_and_arguments_take_their_place(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("deploy", front=HINTED, body="Deploy to $ARGUMENTS.")
    write_skill("other", body="No place.")
    script = [
        says(
            call("load_skill", "1", skill_name="deploy", args="staging"),
            call("load_skill", "2", skill_name="other", args="things"),
        )
    ]
    talk = optional(backend, script, invocation=True)
    talk.say()
    assert 'load_skill("deploy", args="[env-name]")' in talk.model.prompt(0)
    assert "Deploy to staging." in talk.results()["1"]
    assert "ARGUMENTS: things" in talk.results()["2"]


def test_a_loaded_skill_chooses_the_model(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("hard", front="model: big\n")
    big = Scripted(script=["from the big one"], label="big")
    talk = optional(backend, [says(load("hard"))], models={"big": big})
    answer = talk.say()
    assert answer["messages"][-1].text == "from the big one"
    assert len(talk.model.requests) == 1


def test_a_model_that_is_not_there_leaves_the_agents_own(
    write_skill: WriteSkill, backend: Any, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill("hard", front="model: unheard-of\n")
    talk = optional(backend, [says(load("hard")), "mine"], models=nothing)
    assert talk.say()["messages"][-1].text == "mine"
    assert "unheard-of" in caplog.text


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_skill_that_forks_is_done_by_a_subagent(write_skill: WriteSkill, backend: Any, awaited: bool) -> None:
    write_skill("research", front=FORKED, body="Research $ARGUMENTS.")
    script = [says(call("load_skill", "1", skill_name="research", args="owls")), "Owls see at night.", "end"]
    talk = optional(backend, script, fork=True)
    await talk.hear() if awaited else talk.say()
    assert "Research owls." in talk.model.requests[1][-1].text
    assert talk.results()["1"] == "Owls see at night."
    assert talk.loaded == []
    assert all("Research owls." not in message.text for message in talk.model.requests[2])


def test_a_skill_that_forks_may_name_its_subagent(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("research", front=f"{FORKED}agent: librarian\n")
    other = Scripted(script=["from the library"])
    spec = {"name": "librarian", "description": "reads", "system_prompt": "You read.", "model": other}
    talk = optional(backend, [says(load("research"))], fork=True, agent={"subagents": [spec]})
    talk.say()
    assert talk.results()["load-research"] == "from the library"


def test_a_subagent_without_subagents_loads_a_skill_that_forks_as_any_other(
    write_skill: WriteSkill, backend: Any
) -> None:
    write_skill("research", front=FORKED, body="Research.")
    script = [says(load("research", "outer")), says(load("research", "inner")), "child", "end"]
    talk = optional(backend, script, fork=True)
    talk.say()
    inner = {getattr(message, "tool_call_id", ""): message.text for message in talk.model.requests[2]}
    assert "Research." in inner["inner"]
    assert talk.results()["outer"] == "child"


@pytest.mark.parametrize("inherit", [False, True])
def test_a_subagent_begins_with_the_skills_of_its_caller_if_it_is_to_inherit(
    write_skill: WriteSkill, backend: Any, inherit: bool
) -> None:
    write_skill("pdf", body="Fill the form.")
    task = says(call("task", "task", description="go", subagent_type="general-purpose"))
    talk = optional(backend, [says(load("pdf")), task, says(load("pdf", "child")), "child", "end"], inherit=inherit)
    talk.say()
    child = talk.model.requests[2]
    assert ("Fill the form." in child[-1].text) is inherit
    assert ("- **pdf** [Loaded]:" in child[0].text) is inherit
    answers = {getattr(message, "tool_call_id", ""): message.text for message in talk.model.requests[3]}
    assert ("already loaded" in answers["child"]) is inherit
    assert talk.loaded == ["pdf"]


def test_a_restricting_skill_leaves_its_tools_and_the_built_in_ones(write_skill: WriteSkill, backend: Any) -> None:
    def send(text: str) -> str:
        """Send."""
        return f"sent {text}"

    write_skill("research", front="allowed-tools: search\n")
    free = says(call("send", "before", text="x"))
    bound = says(call("send", "send", text="x"), call("search", "search", query="x"), call("ls", "ls", path="/skills"))
    talk = optional(
        backend, [free, says(load("research")), bound], allowed_tools="restrict", agent={"tools": [search, send]}
    )
    talk.say()
    results = talk.results()
    assert results["before"] == "sent x"
    assert results["search"] == "found x"
    assert "/skills/research" in results["ls"]
    assert results["send"].startswith("Error: The tool `send` is not among the allowed tools")


def test_a_skill_without_allowed_tools_restricts_nothing(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    talk = optional(
        backend,
        [says(load("pdf")), says(call("search", "1", query="x"))],
        allowed_tools="restrict",
        agent={"tools": [search]},
    )
    talk.say()
    assert talk.results()["1"] == "found x"


def test_a_policy_that_does_not_exist_is_refused() -> None:
    policy: Any = "forbid"
    with pytest.raises(InvalidArgument, match="recommend"):
        SkillOptions(allowed_tools=policy)


class Unlisted(FilesystemBackend):
    """Cannot list the source of the skills while it is `down`."""

    down = False

    def ls(self, path: str) -> LsResult:
        return LsResult(error="unavailable") if self.down and path.rstrip("/") == "/skills" else super().ls(path)


@pytest.mark.parametrize("count", [1, 20])
def test_a_restriction_holds_while_the_source_of_its_skill_cannot_be_read(
    write_skill: WriteSkill, tmp_path: Path, count: int
) -> None:
    for number in range(count):
        write_skill(f"s-{number}", front="allowed-tools: ls\n")
    backend = Unlisted(root_dir=tmp_path, virtual_mode=True)
    script = [says(load("s-0")), "one", says(call("search", "1", query="x")), "two"]
    talk = optional(backend, script, allowed_tools="restrict", agent={"tools": [search]})
    talk.say()
    backend.down = True
    talk.say()
    assert talk.loaded == ["s-0"]
    assert talk.results()["1"].startswith("Error: ")
    assert "unload_skill" in talk.results()["1"]


@pytest.mark.parametrize("inherit", [False, True])
def test_a_restriction_holds_in_subagents(write_skill: WriteSkill, backend: Any, inherit: bool) -> None:
    write_skill("strict", front="allowed-tools: ls\n")
    begin = [says(load("strict")), says(call("task", "t", description="go", subagent_type="general-purpose"))]
    child = [says(call("search", "1", query="x")), reported]
    agent = {"tools": [search]}
    talk = optional(backend, [*begin, *child], allowed_tools="restrict", inherit=inherit, agent=agent)
    talk.say()
    assert talk.results()["t"].startswith("child: Error: The tool `search` is not among the allowed tools")


def test_a_subagent_cannot_unload_a_restriction_of_its_caller(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("strict", front="allowed-tools: ls\n")
    begin = [says(load("strict")), says(call("task", "t", description="go", subagent_type="general-purpose"))]
    child = [
        says(call("unload_skill", "0", skill_name="strict")),
        says(call("search", "1", query="x")),
        reported,
    ]
    agent = {"tools": [search]}
    talk = optional(backend, [*begin, *child], allowed_tools="restrict", inherit=True, agent=agent)
    talk.say()
    assert talk.results()["t"].startswith("child: Error: The tool `search`")


def test_a_restriction_holds_in_a_skill_that_forks(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("strict", front="allowed-tools: ls\n")
    write_skill("research", front=FORKED)
    script = [
        *(says(load("strict")), says(load("research")), says(call("search", "1", query="x"))),
        reported,
    ]
    talk = optional(backend, script, allowed_tools="restrict", fork=True, agent={"tools": [search]})
    talk.say()
    assert talk.results()["load-research"].startswith("child: Error: The tool `search`")


def test_a_manual_skill_stays_manual_in_a_thread_that_was_begun_without_the_option(
    write_skill: WriteSkill, backend: Any
) -> None:
    write_skill("deploy", front=MANUAL)
    saver = InMemorySaver()
    deep(backend, ["hi"], saver=saver).say()
    talk = deep(backend, [says(load("deploy"))], saver=saver, options=SkillOptions(invocation=True), rescan=False)
    talk.say()
    assert talk.loaded == []
    assert talk.results()["load-deploy"].startswith("Error: Skill 'deploy' is for manual use only")


def test_a_manual_skill_stays_manual_when_a_process_with_the_option_goes_on(
    write_skill: WriteSkill, backend: Any
) -> None:
    write_skill("deploy", front=MANUAL)
    saver, asked = InMemorySaver(), {"interrupt_on": {"load_skill": True}}
    deep(backend, [says(load("deploy"))], saver=saver, agent=asked).say()
    talk = deep(backend, [], saver=saver, agent=asked, options=SkillOptions(invocation=True))
    talk.agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), talk.config)
    assert talk.loaded == []


BIG, SMALL = Scripted(script=[]), Scripted(script=[])
MODELS = {"big": BIG, "small": SMALL}


def skill(name: str, model: Any = None) -> Any:
    return entry(name, extensions={"model": model} if model else {})


def test_the_skill_that_was_loaded_last_decides() -> None:
    assert choose_model(MODELS, [skill("a", "big"), skill("b", "small"), skill("c")]) is SMALL
    assert choose_model(MODELS, [skill("a", "big"), skill("c")]) is BIG


@pytest.mark.parametrize("model", ["inherit", "default", None])
def test_without_a_wish_it_is_the_agents_own(model: str | None) -> None:
    assert choose_model(MODELS, [skill("a", model)]) is None
    assert choose_model(MODELS, []) is None


def test_a_name_that_means_nothing_leaves_the_next_wish() -> None:
    assert choose_model(MODELS, [skill("a", "big"), skill("b", "unknown")]) is BIG


def test_a_function_may_find_the_model() -> None:
    assert choose_model(lambda name: BIG if name == "any" else None, [skill("a", "any")]) is BIG


def allowed(tool: str, *patterns: str, **arguments: Any) -> bool:
    return find_refusal(tool, arguments, [ToolRule(name="pdf", allowed_tools=list(patterns))], ALWAYS_ALLOWED) is None


def test_skills_that_name_no_tools_restrict_nothing() -> None:
    assert find_refusal("send", {}, [], frozenset()) is None
    assert collect_rules([entry("a")], ["a"]) == []


def test_tools_of_all_loaded_skills_are_allowed() -> None:
    skills = [entry("a", allowed_tools=["search"]), entry("b", allowed_tools=["send"]), entry("c")]
    rules = collect_rules(skills, ["a", "b", "c"])
    assert find_refusal("search", {}, rules, frozenset()) is None
    assert find_refusal("send", {}, rules, frozenset()) is None
    reason = find_refusal("delete", {}, rules, frozenset())
    assert reason is not None
    assert "`delete`" in reason
    assert "'a', 'b': search, send." in reason


@pytest.mark.parametrize("tool", ["load_skill", "unload_skill", "read_file", "ls", "glob", "grep", "write_todos"])
def test_built_in_tools_are_always_allowed(tool: str) -> None:
    assert allowed(tool, "search")


def test_running_commands_has_to_be_named() -> None:
    assert not allowed("execute", "search", command="ls")
    assert allowed("execute", "execute", command="ls; ls")
    assert allowed("execute", "Bash", command="ls; ls")
    assert allowed("execute", "Bash(*)", command="ls; ls")


@pytest.mark.parametrize(
    ("pattern", "command", "fits"),
    [
        ("Bash(git *)", "git status", True),
        ("Bash(git *)", "gitk", False),
        ("Bash(git:*)", "git", True),
        ("Bash(git:*)", "git log -1", True),
        ("Bash(git:*)", "gitk", False),
        ("Bash(git *)", "git status; rm -r x", False),
        ("Bash(git *)", "git log $(rm x)", False),
        ("Bash(git *)", "git log\nrm x", False),
        ("Bash(git *)", "git log && rm x", False),
        ("Bash(git *)", "git log > x", False),
        ("Bash(git status)", "git status", True),
        ("Bash(git status)", "git status -s", False),
        ("Bash(git *)", "git commit -m 'one; two'", True),
        ("Bash(git *)", 'git commit -m "$(rm x)"', False),
        ("Bash(git *)", "PAGER=sh git log", False),
        ("Bash(python scripts/*.py)", "python scripts/../other.py", False),
    ],
)
def test_a_pattern_allows_commands_that_fit_and_hides_no_other(pattern: str, command: str, fits: bool) -> None:
    assert allowed("execute", pattern, command=command) is fits


def test_a_pattern_for_arguments_that_are_not_there_allows_nothing() -> None:
    assert not allowed("execute", "Bash(git *)")
    assert not allowed("execute", "Bash(git *)", command=3)


def test_a_loaded_skill_of_which_nothing_is_known_allows_only_what_is_always_allowed() -> None:
    rules = collect_rules([], ["lost"])
    reason = find_refusal("send", {}, rules, ALWAYS_ALLOWED)
    assert reason is not None
    assert "'lost' are unknown" in reason
    assert find_refusal("unload_skill", {}, rules, ALWAYS_ALLOWED) is None


def test_a_rule_of_the_caller_holds_beside_those_of_its_own_and_cannot_be_unloaded() -> None:
    passed_on = collect_rules([entry("a", allowed_tools=["search"])], ["a"])
    rules = collect_rules([entry("b", allowed_tools=["send"])], ["b"], passed_on)
    assert find_refusal("search", {}, rules, frozenset()) is None
    assert find_refusal("send", {}, rules, frozenset()) is None
    reason = find_refusal("delete", {}, rules, frozenset())
    assert reason is not None
    assert "unload_skill" not in reason
