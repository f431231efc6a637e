"""Which tools a model gets."""

from collections.abc import Sequence

import pytest

from openskills.errors import InvalidArgument
from openskills.tools.profiles import NAMES, Profile, chosen
from openskills.tools.table import TOOLS


def names(
    profile: Profile = Profile.FULL,
    allowed: Sequence[str] | None = None,
    *,
    search: bool = False,
    executor: bool = True,
    require_loaded: bool = True,
) -> tuple[str, ...]:
    return chosen(profile, allowed, search=search, executor=executor, require_loaded=require_loaded)


def test_every_name_has_its_tool_in_this_order() -> None:
    assert tuple(TOOLS) == NAMES


def test_the_full_profile_has_everything_and_search_only_when_needed() -> None:
    assert set(NAMES) - set(names()) == {"skill_search"}
    assert names(search=True) == NAMES


def test_knowledge_needs_no_executor_and_runs_nothing() -> None:
    found = names(Profile.KNOWLEDGE_ONLY, executor=False)
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
