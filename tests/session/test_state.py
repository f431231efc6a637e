"""What is loaded, as a fold of changes: in any order, more than once, and by several agents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.session.state import (
    ALL,
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
    keep_most_recent,
)
from tests.session.strategies import AGENTS, SKILLS, calls, changes, crowded, numbered, seen, shuffled

EMPTY = SkillState()


def after(*happened: Change) -> AgentView:
    """What one agent has loaded after some changes, each of a call of its own."""
    numbers = enumerate(happened, 1)
    return apply_changes(EMPTY, [RecordedChange(at, "main", change) for at, change in numbers]).view_for("main")


def evicted(state: SkillState, agent: str, limit: int) -> SkillState:
    """The state after the policy has had its say about one agent."""
    gone = keep_most_recent(limit)(state.view_for(agent))
    return apply_changes(
        state, [RecordedChange(state.clock + 1, agent, Unloaded(skill, evicted=True)) for skill in gone]
    )


def test_a_skill_that_was_loaded_is_seen_and_may_be_run() -> None:
    view = after(Loaded("pdf"))
    assert view.list_loaded() == ("pdf",)
    assert view.is_loaded("pdf")
    assert view.can_run("pdf")
    assert view.docs("pdf") == ()


def test_a_skill_that_nobody_loaded_is_neither_seen_nor_run() -> None:
    view = after(Loaded("pdf"))
    assert not view.is_loaded("csv")
    assert not view.can_run("csv")
    assert view.docs("csv") == ()


def test_the_skill_that_was_touched_last_comes_last() -> None:
    assert after(Loaded("a"), Loaded("b"), Loaded("c"), Loaded("a")).list_loaded() == ("b", "c", "a")


def test_choosing_documents_touches_a_skill() -> None:
    assert after(Loaded("a"), Loaded("b"), DocsChosen("a", ("x.md",))).list_loaded() == ("b", "a")


def test_choosing_documents_does_not_load_a_skill() -> None:
    view = after(DocsChosen("a", ("x.md",)))
    assert view.list_loaded() == ()
    assert not view.can_run("a")


def test_unloading_takes_a_skill_and_its_documents_away() -> None:
    view = after(Loaded("a", ("x.md",)), Unloaded("a"))
    assert view.list_loaded() == ()
    assert not view.can_run("a")
    assert view.docs("a") == ()


def test_a_skill_that_comes_back_comes_without_its_former_documents() -> None:
    view = after(Loaded("a", ("x.md",)), DocsChosen("a", ("y.md",), added=True), Unloaded("a"), Loaded("a"))
    assert view.list_loaded() == ("a",)
    assert view.docs("a") == ()


def test_a_skill_that_was_seen_once_is_not_seen_again_but_may_be_run() -> None:
    view = after(Loaded("a"), Consumed("a"))
    assert view.list_loaded() == ()
    assert not view.is_loaded("a")
    assert view.can_run("a")


def test_a_skill_that_was_seen_once_is_seen_again_when_it_is_loaded_again() -> None:
    assert after(Loaded("a"), Consumed("a"), Loaded("a")).list_loaded() == ("a",)


def test_unloading_a_skill_that_was_seen_once_keeps_it_from_being_run() -> None:
    assert not after(Loaded("a"), Consumed("a"), Unloaded("a")).can_run("a")


def test_a_new_turn_takes_everything_away_that_was_loaded_before() -> None:
    view = after(Loaded("a", ("x.md",)), Loaded("b"), Consumed("b"), TurnBegan())
    assert view.list_loaded() == ()
    assert not view.can_run("a")
    assert not view.can_run("b")
    assert view.docs("a") == ()


def test_what_is_loaded_in_the_new_turn_stays() -> None:
    assert after(Loaded("a"), TurnBegan(), Loaded("b")).list_loaded() == ("b",)


def test_a_turn_of_one_agent_is_not_the_turn_of_another() -> None:
    happened = [
        RecordedChange(1, "main", Loaded("a")),
        RecordedChange(2, "helper", Loaded("a")),
        RecordedChange(3, "helper", TurnBegan()),
    ]
    state = apply_changes(EMPTY, happened)
    assert state.view_for("main").list_loaded() == ("a",)
    assert state.view_for("helper").list_loaded() == ()


def test_loading_again_without_documents_leaves_the_selection_as_it_is() -> None:
    assert after(Loaded("a", ("x.md",)), Loaded("a")).docs("a") == ("x.md",)


def test_loading_again_with_documents_replaces_the_selection() -> None:
    assert after(Loaded("a", ("x.md",)), Loaded("a", ("y.md",))).docs("a") == ("y.md",)


def test_documents_are_added_and_come_sorted() -> None:
    view = after(Loaded("a", ("m.md",)), DocsChosen("a", ("z.md",), added=True), DocsChosen("a", ("b.md",), added=True))
    assert view.docs("a") == ("b.md", "m.md", "z.md")


def test_a_selection_that_replaces_forgets_what_was_added_before() -> None:
    view = after(DocsChosen("a", ("x.md",), added=True), DocsChosen("a", ("y.md",)))
    assert view.docs("a") == ("y.md",)


def test_an_empty_selection_clears() -> None:
    assert after(Loaded("a", ("x.md",)), DocsChosen("a", ())).docs("a") == ()


def test_every_document_swallows_the_single_ones() -> None:
    view = after(Loaded("a", ("x.md",)), DocsChosen("a", (ALL,), added=True), DocsChosen("a", ("y.md",), added=True))
    assert view.docs("a") == (ALL,)


def test_every_document_can_be_narrowed_by_replacing() -> None:
    assert after(Loaded("a", (ALL,)), DocsChosen("a", ("y.md",))).docs("a") == ("y.md",)


def test_an_older_change_that_arrives_late_does_not_undo_a_newer_one() -> None:
    newer = apply_changes(EMPTY, [RecordedChange(5, "main", Unloaded("a"))])
    assert apply_changes(newer, [RecordedChange(3, "main", Loaded("a"))]).view_for("main").list_loaded() == ()
    assert apply_changes(newer, [RecordedChange(6, "main", Loaded("a"))]).view_for("main").list_loaded() == ("a",)


def test_a_document_that_was_added_again_survives_an_older_selection_and_an_older_addition() -> None:
    newest = apply_changes(EMPTY, [RecordedChange(5, "main", DocsChosen("a", ("x.md",), added=True))])
    late = [
        RecordedChange(2, "main", DocsChosen("a", ("x.md",), added=True)),
        RecordedChange(3, "main", DocsChosen("a", ("y.md",))),
    ]
    assert apply_changes(newest, late).view_for("main").docs("a") == ("x.md", "y.md")


def test_applying_leaves_the_state_before_as_it_was() -> None:
    before = apply_changes(EMPTY, [RecordedChange(1, "main", Loaded("a", ("x.md",)))])
    facts = seen(before)
    apply_changes(
        before,
        [RecordedChange(2, "main", DocsChosen("a", ("y.md",), added=True)), RecordedChange(3, "main", TurnBegan())],
    )
    assert seen(before) == facts


@pytest.mark.parametrize(
    ("limit", "gone"), [(-1, ()), (0, ()), (1, ("a", "b")), (2, ("a",)), (3, ()), (9, ())], ids=str
)
def test_most_recent_lets_the_oldest_go(limit: int, gone: tuple[str, ...]) -> None:
    view = after(Loaded("a"), Loaded("b"), Loaded("c"), Loaded("d"), Unloaded("d"))
    assert tuple(keep_most_recent(limit)(view)) == gone


@given(crowded().flatmap(lambda made: st.tuples(st.just(made), shuffled(made))))
def test_any_order_and_any_repetition_of_changes_gives_the_same_state(
    made: tuple[list[RecordedChange], list[RecordedChange]],
) -> None:
    in_order, in_disorder = made
    assert apply_changes(EMPTY, in_disorder) == apply_changes(EMPTY, in_order)


@given(crowded(), crowded())
def test_changes_in_two_portions_give_what_they_give_in_one(
    first: list[RecordedChange], second: list[RecordedChange]
) -> None:
    whole = apply_changes(EMPTY, [*first, *second])
    assert apply_changes(apply_changes(EMPTY, first), second) == whole
    assert apply_changes(apply_changes(EMPTY, second), first) == whole


@given(numbered(changes), st.integers(1, 40), st.integers(1, 40), changes, changes)
def test_changes_of_different_skills_commute_whatever_their_numbers(
    before: list[RecordedChange], first_at: int, second_at: int, first: Change, second: Change
) -> None:
    state = apply_changes(EMPTY, before)
    one, two = RecordedChange(first_at, AGENTS[0], first), RecordedChange(second_at, AGENTS[1], second)
    assert apply_changes(apply_changes(state, [one]), [two]) == apply_changes(apply_changes(state, [two]), [one])


@given(numbered(changes), st.sampled_from(AGENTS))
def test_what_one_agent_does_is_not_seen_by_another(made: list[RecordedChange], agent: str) -> None:
    alone = apply_changes(EMPTY, [one for one in made if one.agent == agent])
    together = apply_changes(EMPTY, made)
    assert [together.view_for(agent).list_loaded(), *(together.view_for(agent).docs(skill) for skill in SKILLS)] == [
        alone.view_for(agent).list_loaded(),
        *(alone.view_for(agent).docs(skill) for skill in SKILLS),
    ]
    assert [together.view_for(agent).can_run(skill) for skill in SKILLS] == [
        alone.view_for(agent).can_run(skill) for skill in SKILLS
    ]


@given(numbered(calls).flatmap(shuffled), st.integers(1, 4), st.sampled_from(AGENTS))
def test_after_eviction_the_budget_holds_and_nothing_else_is_lost(
    interleaved: list[RecordedChange], limit: int, agent: str
) -> None:
    before = apply_changes(EMPTY, interleaved)
    kept = evicted(before, agent, limit)
    loaded = before.view_for(agent).list_loaded()
    assert kept.view_for(agent).list_loaded() == loaded[-limit:]
    gone = set(loaded[:-limit])
    facts, former = seen(kept), seen(before)
    untouched = [place for place in former if place != (agent, "") and not (place[0] == agent and place[1] in gone)]
    assert [facts[place] for place in untouched] == [former[place] for place in untouched]
    assert all(facts[agent, skill] == (False, False, ()) for skill in gone)


@given(numbered(calls), st.integers(1, 3))
def test_with_an_eviction_after_each_call_the_budget_never_breaks(made: list[RecordedChange], limit: int) -> None:
    state = EMPTY
    for call in made:
        state = evicted(
            apply_changes(state, [RecordedChange(state.clock + 1, call.agent, call.change)]), call.agent, limit
        )
        assert all(len(state.view_for(agent).list_loaded()) <= limit for agent in AGENTS)
        if isinstance(call.change, Loaded):
            assert state.view_for(call.agent).list_loaded()[-1] == call.change.skill


@given(numbered(calls, 12), st.integers(1, 3), st.data())
def test_evictions_while_late_calls_still_arrive_hold_the_budget_in_the_end(
    made: list[RecordedChange], limit: int, data: st.DataObject
) -> None:
    portion = data.draw(st.integers(0, len(made)))
    arriving = data.draw(st.permutations(made))
    halfway = evicted(apply_changes(EMPTY, arriving[:portion]), AGENTS[0], limit)
    done = evicted(apply_changes(halfway, arriving[portion:]), AGENTS[0], limit)
    assert len(done.view_for(AGENTS[0]).list_loaded()) <= limit
    assert done.view_for(AGENTS[1]).list_loaded() == apply_changes(EMPTY, made).view_for(AGENTS[1]).list_loaded()
