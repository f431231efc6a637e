"""What a thread remembers.

The channel of a thread folds changes as sessions do.
"""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from openskills.adapters.langchain.runtime_state import (
    changes_to_channel,
    fold,
    loaded_skills,
    state_from_channel,
    state_to_channel,
)
from openskills.session.state import (
    AgentView,
    Change,
    Consumed,
    DocsChosen,
    Loaded,
    RecordedChange,
    SkillState,
    TurnBegan,
    Unloaded,
    apply_changes,
)


def test_what_is_loaded_can_be_read_from_the_values_of_a_thread() -> None:
    changes = [RecordedChange(2, "assistant", Loaded("pdf")), RecordedChange(1, "assistant", Loaded("docx"))]
    values = {"openskills_state": fold(None, changes_to_channel(changes))}
    assert loaded_skills(values) == ("docx", "pdf")
    assert loaded_skills(values, "somebody else") == ()


def test_a_thread_without_the_middleware_has_nothing_loaded() -> None:
    assert loaded_skills({"messages": []}) == ()


SKILLS = st.sampled_from(["a", "b"])
DOCS = st.lists(st.sampled_from(["x.md", "y.md", "*"]), max_size=2).map(tuple)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(Loaded, SKILLS, st.one_of(st.none(), DOCS)),
    st.builds(Unloaded, SKILLS, st.booleans()),
    st.builds(Consumed, SKILLS),
    st.builds(DocsChosen, SKILLS, DOCS, st.booleans()),
    st.builds(TurnBegan),
)
RECORDED = st.builds(RecordedChange, st.integers(1, 12), st.sampled_from(["one", "two"]), CHANGES)
UPDATES = st.lists(st.lists(RECORDED, max_size=3), max_size=8)


def seen(view: AgentView) -> Any:
    """Everything that can be asked about an agent."""
    return [
        (name, view.is_loaded(name), view.can_run(name), view.docs(name)) for name in ("a", "b")
    ], view.list_loaded()


@given(UPDATES)
def test_the_channel_says_what_the_fold_says(updates: list[list[RecordedChange]]) -> None:
    channel, state = None, SkillState()
    for update in updates:
        channel = fold(channel, changes_to_channel(update))
        state = apply_changes(state, update)
        for agent in ("one", "two"):
            assert seen(state_from_channel(channel).view_for(agent)) == seen(state.view_for(agent))


@given(UPDATES, st.randoms(use_true_random=False))
def test_updates_of_one_step_may_come_in_any_order(updates: list[list[RecordedChange]], random: Any) -> None:
    def folded(order: list[list[RecordedChange]]) -> Any:
        channel = None
        for update in order:
            channel = fold(channel, changes_to_channel(update))
        return [seen(state_from_channel(channel).view_for(agent)) for agent in ("one", "two")]

    shuffled = list(updates)
    random.shuffle(shuffled)
    assert folded(shuffled) == folded(updates)


@given(st.lists(RECORDED, max_size=8))
def test_everything_in_it_is_plain(changes: list[RecordedChange]) -> None:
    update = changes_to_channel(changes)
    channel = fold({}, update)
    assert json.loads(json.dumps([channel, update])) == [channel, update]
    serialiser = JsonPlusSerializer()
    assert serialiser.loads_typed(serialiser.dumps_typed(channel)) == channel


def test_what_ended_with_a_turn_takes_no_room() -> None:
    changes = [RecordedChange(n, "one", Loaded(f"skill-{n}")) for n in range(1, 100)]
    channel = fold(None, changes_to_channel([*changes, RecordedChange(99, "one", TurnBegan())]))
    assert channel == {"clock": 99, "turns": {"one": 99}, "skills": {}}


def test_a_state_comes_back_as_it_was() -> None:
    changes = [
        RecordedChange(1, "one", Loaded("a", ("x.md",))),
        RecordedChange(2, "one", DocsChosen("a", ("y.md",), True)),
    ]
    state = apply_changes(SkillState(), changes)
    assert state_from_channel(state_to_channel(state)) == state
