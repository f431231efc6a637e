"""Hooks out of front matter."""

from typing import Any

import pytest

from openskills.adapters.langchain.skill_hooks import Hook, hooks_for, hooks_of
from tests.adapters.langchain.entries import entry


def skill(hooks: Any) -> Any:
    return entry("pdf", extensions={"hooks": hooks})


def test_matchers_events_and_kinds_are_read() -> None:
    hooks = hooks_of(
        skill(
            {
                "PreToolUse": [{"matcher": "Bash|write_file", "hooks": [{"type": "command", "command": "./check.sh"}]}],
                "PostToolUse": [{"hooks": [{"type": "prompt", "prompt": " Be brief. ", "once": "true"}]}],
            }
        )
    )
    assert [(hook.event, hook.matcher, hook.kind, hook.text, hook.once) for hook in hooks] == [
        ("PreToolUse", "Bash|write_file", "command", "./check.sh", False),
        ("PostToolUse", "", "prompt", "Be brief.", True),
    ]
    assert len({hook.id for hook in hooks}) == 2


def test_a_handler_may_stand_beside_its_matcher() -> None:
    (hook,) = hooks_of(skill({"PreToolUse": {"matcher": "search", "command": "true"}}))
    assert (hook.matcher, hook.kind, hook.text) == ("search", "command", "true")


@pytest.mark.parametrize(
    "hooks",
    [
        "text",
        ["list"],
        {"SessionStart": [{"hooks": [{"type": "command", "command": "x"}]}]},
        {"PreToolUse": [{"hooks": [{"type": "agent", "prompt": "x"}]}]},
        {"PreToolUse": [{"hooks": [{"type": "command"}]}]},
        {"PreToolUse": "x"},
        None,
    ],
)
def test_what_is_not_understood_is_passed_over(hooks: Any) -> None:
    assert hooks_of(skill(hooks)) == []


@pytest.mark.parametrize(
    ("matcher", "tool", "fits"),
    [
        ("", "search", True),
        ("*", "search", True),
        ("search", "search", True),
        ("sear", "search", False),
        ("sear.*", "search", True),
        ("Bash", "execute", True),
        ("Write|Edit", "edit_file", True),
        ("Read", "edit_file", False),
        ("(", "search", False),
        ("(s+)+x", "s" * 60, False),
        ("(a|s*)*x", "s" * 60, False),
        ("search|" * 100, "search", False),
        ("(search|send)", "search", True),
        ("^search$", "search", True),
        ("^(send|search)$", "search", True),
        ("*arc*", "search", True),
        (".*ea.*c.*", "search", True),
        ("s*h", "sh", True),
        ("sh*hs", "shs", False),
        ("s.arch", "search", False),
        ("mcp__.*__read", "mcp__files__read", True),
        ("((s+))+!", "s" * 60, False),
        (r"(\w|\w\w)+!", "s" * 60, False),
        ("(s|s)*!", "s" * 60, False),
        (r"(?:(?:\w+)?)+!", "s" * 60, False),
        (".*s" * 160 + "!", "s" * 200, False),
    ],
)
def test_a_matcher_fits_whole_names_also_those_of_other_clients(matcher: str, tool: str, fits: bool) -> None:
    assert Hook("id", "pdf", "PreToolUse", matcher, "command", "x").fits(tool) is fits


def test_hooks_for_another_event_or_tool_are_left_out() -> None:
    one = skill({"PreToolUse": [{"matcher": "search", "command": "a"}, {"matcher": "send", "command": "b"}]})
    assert [hook.text for hook in hooks_for([one, entry("none")], "PreToolUse", "search")] == ["a"]
    assert hooks_for([one], "PostToolUse", "search") == []
