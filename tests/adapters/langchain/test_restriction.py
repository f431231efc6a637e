"""`allowed-tools` as a rule."""

from typing import Any

import pytest

from openskills.adapters.langchain.restriction import ALWAYS_ALLOWED, Rule, refusal, rules_of
from tests.adapters.langchain.entries import entry


def allowed(tool: str, *patterns: str, **arguments: Any) -> bool:
    return refusal(tool, arguments, [Rule(name="pdf", allowed_tools=list(patterns))], ALWAYS_ALLOWED) is None


def test_skills_that_name_no_tools_restrict_nothing() -> None:
    assert refusal("send", {}, [], frozenset()) is None
    assert rules_of([entry("a")], ["a"]) == []


def test_tools_of_all_loaded_skills_are_allowed() -> None:
    skills = [entry("a", allowed_tools=["search"]), entry("b", allowed_tools=["send"]), entry("c")]
    rules = rules_of(skills, ["a", "b", "c"])
    assert refusal("search", {}, rules, frozenset()) is None
    assert refusal("send", {}, rules, frozenset()) is None
    reason = refusal("delete", {}, rules, frozenset())
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
    ],
)
def test_a_pattern_allows_commands_that_fit_and_hides_no_other(pattern: str, command: str, fits: bool) -> None:
    assert allowed("execute", pattern, command=command) is fits


def test_a_pattern_for_arguments_that_are_not_there_allows_nothing() -> None:
    assert not allowed("execute", "Bash(git *)")
    assert not allowed("execute", "Bash(git *)", command=3)


def test_a_loaded_skill_of_which_nothing_is_known_allows_only_what_is_always_allowed() -> None:
    rules = rules_of([], ["lost"])
    reason = refusal("send", {}, rules, ALWAYS_ALLOWED)
    assert reason is not None
    assert "'lost' allow cannot be read now" in reason
    assert refusal("unload_skill", {}, rules, ALWAYS_ALLOWED) is None


def test_a_rule_of_the_caller_holds_beside_those_of_its_own_and_cannot_be_unloaded() -> None:
    passed_on = rules_of([entry("a", allowed_tools=["search"])], ["a"])
    rules = rules_of([entry("b", allowed_tools=["send"])], ["b"], passed_on)
    assert refusal("search", {}, rules, frozenset()) is None
    assert refusal("send", {}, rules, frozenset()) is None
    reason = refusal("delete", {}, rules, frozenset())
    assert reason is not None
    assert "unload_skill" not in reason
