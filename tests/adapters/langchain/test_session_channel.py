"""The channel of a thread folds changes as sessions do."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from openskills.adapters.langchain.session_channel import fold, plain_changes, plain_state, state_of
from openskills.session.changes import Change, Consumed, DocsChosen, Loaded, Recorded, TurnBegan, Unloaded
from openskills.session.state import AgentView, SkillState, apply

SKILLS = st.sampled_from(["a", "b"])
DOCS = st.lists(st.sampled_from(["x.md", "y.md", "*"]), max_size=2).map(tuple)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(Loaded, SKILLS, st.one_of(st.none(), DOCS)),
    st.builds(Unloaded, SKILLS, st.booleans()),
    st.builds(Consumed, SKILLS),
    st.builds(DocsChosen, SKILLS, DOCS, st.booleans()),
    st.builds(TurnBegan),
)
RECORDED = st.builds(Recorded, st.integers(1, 12), st.sampled_from(["one", "two"]), CHANGES)
UPDATES = st.lists(st.lists(RECORDED, max_size=3), max_size=8)


def seen(view: AgentView) -> Any:
    """Everything that can be asked about an agent."""
    return [(name, view.is_loaded(name), view.may_run(name), view.docs(name)) for name in ("a", "b")], view.loaded()


@given(UPDATES)
def test_the_channel_says_what_the_fold_says(updates: list[list[Recorded]]) -> None:
    channel, state = None, SkillState()
    for update in updates:
        channel = fold(channel, plain_changes(update))
        state = apply(state, update)
        for agent in ("one", "two"):
            assert seen(state_of(channel).of(agent)) == seen(state.of(agent))


@given(UPDATES, st.randoms(use_true_random=False))
def test_updates_of_one_step_may_come_in_any_order(updates: list[list[Recorded]], random: Any) -> None:
    def folded(order: list[list[Recorded]]) -> Any:
        channel = None
        for update in order:
            channel = fold(channel, plain_changes(update))
        return [seen(state_of(channel).of(agent)) for agent in ("one", "two")]

    shuffled = list(updates)
    random.shuffle(shuffled)
    assert folded(shuffled) == folded(updates)


@given(st.lists(RECORDED, max_size=8))
def test_everything_in_it_is_plain(changes: list[Recorded]) -> None:
    update = plain_changes(changes)
    channel = fold({}, update)
    assert json.loads(json.dumps([channel, update])) == [channel, update]
    serialiser = JsonPlusSerializer()
    assert serialiser.loads_typed(serialiser.dumps_typed(channel)) == channel


def test_what_ended_with_a_turn_takes_no_room() -> None:
    changes = [Recorded(n, "one", Loaded(f"skill-{n}")) for n in range(1, 100)]
    channel = fold(None, plain_changes([*changes, Recorded(99, "one", TurnBegan())]))
    assert channel == {"clock": 99, "turns": {"one": 99}, "skills": {}}


def test_a_state_comes_back_as_it_was() -> None:
    changes = [Recorded(1, "one", Loaded("a", ("x.md",))), Recorded(2, "one", DocsChosen("a", ("y.md",), True))]
    state = apply(SkillState(), changes)
    assert state_of(plain_state(state)) == state
