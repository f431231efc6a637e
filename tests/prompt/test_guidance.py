"""The model is told what is true for the tools it has, briefly."""

from itertools import combinations

import pytest

from openskills.prompt.guidance import HEADER, build_guidance
from openskills.tokens import estimate_tokens

KNOWLEDGE = ("skill_load", "skill_select_docs", "skill_list_docs", "skill_unload")
TALK = ("skill_exec", "skill_write_stdin", "skill_poll_session", "skill_kill_session")
FULL = (*KNOWLEDGE, "skill_search", "skill_run", *TALK, "read_file", "list_files", "search_files", "write_file")


def test_it_is_a_header_and_bullets() -> None:
    for tools in ((), KNOWLEDGE, FULL):
        header, *bullets = build_guidance(tools).splitlines()
        assert header == HEADER == "Tooling and workspace guidance:"
        assert bullets
        assert all(bullet.startswith("- ") for bullet in bullets)


def test_all_tools_together_need_less_than_two_hundred_tokens() -> None:
    assert estimate_tokens(build_guidance(FULL)) < 200
    assert estimate_tokens(build_guidance(KNOWLEDGE)) < 100


def test_the_order_of_the_tools_does_not_matter() -> None:
    assert build_guidance(FULL) == build_guidance(tuple(reversed(FULL))) == build_guidance(set(FULL))


def test_without_tools_the_list_is_a_catalogue() -> None:
    assert "catalogue" in build_guidance(())
    assert "catalogue" not in build_guidance(KNOWLEDGE)


@pytest.mark.parametrize("names", [*combinations(FULL, 1), *combinations(FULL, 2), KNOWLEDGE])
def test_no_tool_is_named_that_is_not_there(names: tuple[str, ...]) -> None:
    words = set(build_guidance(names).replace(":", " ").replace(",", " ").replace(";", " ").replace(".", " ").split())
    assert not words & (set(FULL) - set(names))


def test_where_commands_run_is_only_said_where_they_run() -> None:
    for word in ("$OUTPUT_DIR", "work/inputs", "artifact://"):
        assert word in build_guidance(FULL)
        assert word not in build_guidance(KNOWLEDGE)
    assert "Loading runs nothing" in build_guidance(KNOWLEDGE)
    assert "Loading runs nothing" not in build_guidance(FULL)


def test_documents_are_listed_before_they_are_selected() -> None:
    assert "skill_list_docs before skill_select_docs" in build_guidance(KNOWLEDGE)
    assert "documents" in build_guidance(("skill_load", "skill_select_docs"))
    assert "documents" in build_guidance(("skill_load", "skill_list_docs"))
    assert "documents" not in build_guidance(("skill_load",))


def test_the_policy_is_a_bullet_on_one_line_where_commands_run() -> None:
    note = "Allowed commands:\n- python3"
    assert "\n- Allowed commands: - python3" in build_guidance(("skill_load", "skill_run"), policy_note=note)
    assert "python3" not in build_guidance(KNOWLEDGE, policy_note=note)
