"""Which tools a model gets.

How to read on.

Tools that are not there.
"""

import json
from collections.abc import Sequence

import pytest

from openskills.errors import InvalidArgument
from openskills.tools.names import ToolProfile, build_continuation_hint
from openskills.tools.registry import TOOLS, build_unknown_tool_error, select_tools


def names(
    profile: ToolProfile = ToolProfile.FULL,
    allowed: Sequence[str] | None = None,
    *,
    search: bool = False,
    executor: bool = True,
    require_loaded: bool = True,
) -> tuple[str, ...]:
    return select_tools(profile, allowed, search=search, executor=executor, require_loaded=require_loaded)


def test_the_full_profile_has_everything_and_search_only_when_needed() -> None:
    assert set(TOOLS) - set(names()) == {"skill_search"}
    assert names(search=True) == tuple(TOOLS)


def test_knowledge_needs_no_executor_and_runs_nothing() -> None:
    found = names(ToolProfile.KNOWLEDGE_ONLY, executor=False)
    assert found == ("skill_load", "skill_select_docs", "skill_list_docs", "skill_unload")


def test_an_explicit_list_is_exactly_that() -> None:
    assert names(allowed=["skill_run", "skill_load"]) == ("skill_load", "skill_run")
    assert names(allowed=[]) == ()


@pytest.mark.parametrize(
    ("allowed", "said"),
    [
        (["skill_lod"], "did you mean skill_load"),
        (["skill_run"], "needs skill_load"),
        (["skill_load", "skill_exec"], "needs skill_poll_session"),
        (["skill_load", "skill_poll_session"], "need skill_exec"),
    ],
)
def test_tools_that_cannot_work_are_refused_with_the_fix(allowed: list[str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        names(allowed=allowed)


def test_running_without_an_executor_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="needs an executor"):
        names(executor=False)


def test_without_the_load_first_rule_running_needs_no_loading() -> None:
    assert names(allowed=["skill_run"], require_loaded=False) == ("skill_run",)


def test_the_sentence_can_be_called_as_it_is() -> None:
    sentence = build_continuation_hint(["skill_load", "skill_select_docs"])("pdf", "a b.md", 12, 1)
    wanted = json.loads(sentence.partition(" with ")[2])
    assert wanted == {"skill": "pdf", "docs": ["a b.md#L12"], "mode": "add"}
    assert "SKILL.md#L1C400" in build_continuation_hint(["skill_select_docs"])("pdf", "SKILL.md", 1, 400)


def test_without_selecting_a_file_is_read_and_without_both_nothing_is_promised() -> None:
    assert '"start_line": 12' in build_continuation_hint(["read_file"])("pdf", "SKILL.md", 12, 1)
    assert "cannot be read" in build_continuation_hint([])("pdf", "SKILL.md", 12, 1)


def test_the_nearest_tools_are_named_or_all_of_them() -> None:
    assert "did you mean skill_load?" in build_unknown_tool_error("load_skill", ["skill_load", "read_file"]).message
    assert "available tools: read_file" in build_unknown_tool_error("zzz", ["read_file"]).message
    assert (
        "skill_run is not available in this session; available tools: read_file"
        in build_unknown_tool_error("skill_run", ["read_file"]).message
    )
    assert "available tools: none" in build_unknown_tool_error("zzz", []).message
    assert len(build_unknown_tool_error("z" * 10_000, []).message) < 200
