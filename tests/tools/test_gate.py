"""Load first."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from openskills.errors import NotLoaded, UnknownSkill
from openskills.session.changes import Change, Consumed, Loaded, Recorded, TurnBegan, Unloaded
from openskills.session.state import AgentView, SkillState, apply
from openskills.sync import run
from openskills.tools.gate import require_loaded
from openskills.tools.tool import ToolOptions
from tests.tools.contexts import AGENT, tool_context, write_skill


def view_after(*changes: Change) -> AgentView:
    """What the agent sees after these, one after the other."""
    return apply(SkillState(), [Recorded(at, AGENT, change) for at, change in enumerate(changes, 1)]).of(AGENT)


def asked_for(directory: Path, name: str, changes: Sequence[Change] = (), *, required: bool = True) -> str:
    """The name of the skill that is let through."""
    write_skill(directory)

    async def scenario() -> str:
        options = ToolOptions(require_loaded=required)
        async with tool_context(directory, options=options, view=lambda: view_after(*changes)) as context:
            return require_loaded(context, name).name

    return run(scenario())


def test_a_loaded_skill_passes_whatever_blanks_are_around_its_name(tmp_path: Path) -> None:
    assert asked_for(tmp_path, " demo ", [Loaded("demo")]) == "demo"


def test_a_skill_that_was_shown_once_may_still_be_run(tmp_path: Path) -> None:
    assert asked_for(tmp_path, "demo", [Loaded("demo"), Consumed("demo")]) == "demo"


def test_a_skill_that_was_never_loaded_is_refused_with_the_call_to_make(tmp_path: Path) -> None:
    with pytest.raises(NotLoaded, match=r'^\'demo\' is not loaded; call skill_load with \{"skill": "demo"\} first$'):
        asked_for(tmp_path, "demo")


def test_a_skill_of_an_earlier_turn_is_refused_with_that_reason(tmp_path: Path) -> None:
    with pytest.raises(NotLoaded, match=r"before the user's last message .* call skill_load .* again first"):
        asked_for(tmp_path, "demo", [Loaded("demo"), TurnBegan()])


@pytest.mark.parametrize("evicted", [True, False])
def test_a_skill_that_was_unloaded_or_evicted_is_refused_with_that_reason(tmp_path: Path, evicted: bool) -> None:
    with pytest.raises(NotLoaded, match="was unloaded, or made room") as refusal:
        asked_for(tmp_path, "demo", [TurnBegan(), Loaded("demo"), Unloaded("demo", evicted)])
    assert refusal.value.details == {"skill": "demo"}


def test_a_name_that_is_wrong_is_that_and_not_a_skill_to_load(tmp_path: Path) -> None:
    with pytest.raises(UnknownSkill, match="did you mean 'demo'"):
        asked_for(tmp_path, "demmo")


def test_the_gate_can_be_switched_off_but_finds_no_skill_that_is_not_there(tmp_path: Path) -> None:
    assert asked_for(tmp_path, "demo", required=False) == "demo"
    with pytest.raises(UnknownSkill):
        asked_for(tmp_path, "other", required=False)
