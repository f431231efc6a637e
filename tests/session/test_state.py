"""What is loaded, as a fold of changes: in any order, more than once, and by several agents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.session.changes import ALL, Change, Consumed, DocsChosen, Loaded, Recorded, TurnBegan, Unloaded
from openskills.session.state import AgentView, SkillState, apply, most_recent
from tests.session.strategies import AGENTS, SKILLS, calls, changes, crowded, numbered, seen, shuffled

EMPTY = SkillState()


def after(*happened: Change) -> AgentView:
    """What one agent has loaded after some changes, each of a call of its own."""
    numbers = enumerate(happened, 1)
    return apply(EMPTY, [Recorded(at, "main", change) for at, change in numbers]).of("main")


def evicted(state: SkillState, agent: str, limit: int) -> SkillState:
    """The state after the policy has had its say about one agent."""
    gone = most_recent(limit)(state.of(agent))
    return apply(state, [Recorded(state.clock + 1, agent, Unloaded(skill, evicted=True)) for skill in gone])


def test_a_skill_that_was_loaded_is_seen_and_may_be_run() -> None:
    view = after(Loaded("pdf"))
    assert view.loaded() == ("pdf",)
    assert view.is_loaded("pdf")
    assert view.may_run("pdf")
    assert view.docs("pdf") == ()


def test_a_skill_that_nobody_loaded_is_neither_seen_nor_run() -> None:
    view = after(Loaded("pdf"))
    assert not view.is_loaded("csv")
    assert not view.may_run("csv")
    assert view.docs("csv") == ()


def test_the_skill_that_was_touched_last_comes_last() -> None:
    assert after(Loaded("a"), Loaded("b"), Loaded("c"), Loaded("a")).loaded() == ("b", "c", "a")


def test_choosing_documents_touches_a_skill() -> None:
    assert after(Loaded("a"), Loaded("b"), DocsChosen("a", ("x.md",))).loaded() == ("b", "a")


def test_choosing_documents_does_not_load_a_skill() -> None:
    view = after(DocsChosen("a", ("x.md",)))
    assert view.loaded() == ()
    assert not view.may_run("a")


def test_unloading_takes_a_skill_and_its_documents_away() -> None:
    view = after(Loaded("a", ("x.md",)), Unloaded("a"))
    assert view.loaded() == ()
    assert not view.may_run("a")
    assert view.docs("a") == ()


def test_a_skill_that_comes_back_comes_without_its_former_documents() -> None:
    view = after(Loaded("a", ("x.md",)), DocsChosen("a", ("y.md",), added=True), Unloaded("a"), Loaded("a"))
    assert view.loaded() == ("a",)
    assert view.docs("a") == ()


def test_a_skill_that_was_seen_once_is_not_seen_again_but_may_be_run() -> None:
    view = after(Loaded("a"), Consumed("a"))
    assert view.loaded() == ()
    assert not view.is_loaded("a")
    assert view.may_run("a")


def test_a_skill_that_was_seen_once_is_seen_again_when_it_is_loaded_again() -> None:
    assert after(Loaded("a"), Consumed("a"), Loaded("a")).loaded() == ("a",)


def test_unloading_a_skill_that_was_seen_once_keeps_it_from_being_run() -> None:
    assert not after(Loaded("a"), Consumed("a"), Unloaded("a")).may_run("a")


def test_a_new_turn_takes_everything_away_that_was_loaded_before() -> None:
    view = after(Loaded("a", ("x.md",)), Loaded("b"), Consumed("b"), TurnBegan())
    assert view.loaded() == ()
    assert not view.may_run("a")
    assert not view.may_run("b")
    assert view.docs("a") == ()


def test_what_is_loaded_in_the_new_turn_stays() -> None:
    assert after(Loaded("a"), TurnBegan(), Loaded("b")).loaded() == ("b",)


def test_a_turn_of_one_agent_is_not_the_turn_of_another() -> None:
    happened = [
        Recorded(1, "main", Loaded("a")),
        Recorded(2, "helper", Loaded("a")),
        Recorded(3, "helper", TurnBegan()),
    ]
    state = apply(EMPTY, happened)
    assert state.of("main").loaded() == ("a",)
    assert state.of("helper").loaded() == ()


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
    newer = apply(EMPTY, [Recorded(5, "main", Unloaded("a"))])
    assert apply(newer, [Recorded(3, "main", Loaded("a"))]).of("main").loaded() == ()
    assert apply(newer, [Recorded(6, "main", Loaded("a"))]).of("main").loaded() == ("a",)


def test_a_document_that_was_added_again_survives_an_older_selection_and_an_older_addition() -> None:
    newest = apply(EMPTY, [Recorded(5, "main", DocsChosen("a", ("x.md",), added=True))])
    late = [
        Recorded(2, "main", DocsChosen("a", ("x.md",), added=True)),
        Recorded(3, "main", DocsChosen("a", ("y.md",))),
    ]
    assert apply(newest, late).of("main").docs("a") == ("x.md", "y.md")


def test_applying_leaves_the_state_before_as_it_was() -> None:
    before = apply(EMPTY, [Recorded(1, "main", Loaded("a", ("x.md",)))])
    facts = seen(before)
    apply(before, [Recorded(2, "main", DocsChosen("a", ("y.md",), added=True)), Recorded(3, "main", TurnBegan())])
    assert seen(before) == facts


@pytest.mark.parametrize(
    ("limit", "gone"), [(-1, ()), (0, ()), (1, ("a", "b")), (2, ("a",)), (3, ()), (9, ())], ids=str
)
def test_most_recent_lets_the_oldest_go(limit: int, gone: tuple[str, ...]) -> None:
    view = after(Loaded("a"), Loaded("b"), Loaded("c"), Loaded("d"), Unloaded("d"))
    assert tuple(most_recent(limit)(view)) == gone


@given(crowded().flatmap(lambda made: st.tuples(st.just(made), shuffled(made))))
def test_any_order_and_any_repetition_of_changes_gives_the_same_state(
    made: tuple[list[Recorded], list[Recorded]],
) -> None:
    in_order, in_disorder = made
    assert apply(EMPTY, in_disorder) == apply(EMPTY, in_order)


@given(crowded(), crowded())
def test_changes_in_two_portions_give_what_they_give_in_one(first: list[Recorded], second: list[Recorded]) -> None:
    whole = apply(EMPTY, [*first, *second])
    assert apply(apply(EMPTY, first), second) == whole
    assert apply(apply(EMPTY, second), first) == whole


@given(numbered(changes), st.integers(1, 40), st.integers(1, 40), changes, changes)
def test_changes_of_different_skills_commute_whatever_their_numbers(
    before: list[Recorded], first_at: int, second_at: int, first: Change, second: Change
) -> None:
    state = apply(EMPTY, before)
    one, two = Recorded(first_at, AGENTS[0], first), Recorded(second_at, AGENTS[1], second)
    assert apply(apply(state, [one]), [two]) == apply(apply(state, [two]), [one])


@given(numbered(changes), st.sampled_from(AGENTS))
def test_what_one_agent_does_is_not_seen_by_another(made: list[Recorded], agent: str) -> None:
    alone = apply(EMPTY, [one for one in made if one.agent == agent])
    together = apply(EMPTY, made)
    assert [together.of(agent).loaded(), *(together.of(agent).docs(skill) for skill in SKILLS)] == [
        alone.of(agent).loaded(),
        *(alone.of(agent).docs(skill) for skill in SKILLS),
    ]
    assert [together.of(agent).may_run(skill) for skill in SKILLS] == [
        alone.of(agent).may_run(skill) for skill in SKILLS
    ]


@given(numbered(calls).flatmap(shuffled), st.integers(1, 4), st.sampled_from(AGENTS))
def test_after_eviction_the_budget_holds_and_nothing_else_is_lost(
    interleaved: list[Recorded], limit: int, agent: str
) -> None:
    before = apply(EMPTY, interleaved)
    kept = evicted(before, agent, limit)
    loaded = before.of(agent).loaded()
    assert kept.of(agent).loaded() == loaded[-limit:]
    gone = set(loaded[:-limit])
    facts, former = seen(kept), seen(before)
    untouched = [place for place in former if place != (agent, "") and not (place[0] == agent and place[1] in gone)]
    assert [facts[place] for place in untouched] == [former[place] for place in untouched]
    assert all(facts[agent, skill] == (False, False, ()) for skill in gone)


@given(numbered(calls), st.integers(1, 3))
def test_with_an_eviction_after_each_call_the_budget_never_breaks(made: list[Recorded], limit: int) -> None:
    state = EMPTY
    for call in made:
        state = evicted(apply(state, [Recorded(state.clock + 1, call.agent, call.change)]), call.agent, limit)
        assert all(len(state.of(agent).loaded()) <= limit for agent in AGENTS)
        if isinstance(call.change, Loaded):
            assert state.of(call.agent).loaded()[-1] == call.change.skill


@given(numbered(calls, 12), st.integers(1, 3), st.data())
def test_evictions_while_late_calls_still_arrive_hold_the_budget_in_the_end(
    made: list[Recorded], limit: int, data: st.DataObject
) -> None:
    portion = data.draw(st.integers(0, len(made)))
    arriving = data.draw(st.permutations(made))
    halfway = evicted(apply(EMPTY, arriving[:portion]), AGENTS[0], limit)
    done = evicted(apply(halfway, arriving[portion:]), AGENTS[0], limit)
    assert len(done.of(AGENTS[0]).loaded()) <= limit
    assert done.of(AGENTS[1]).loaded() == apply(EMPTY, made).of(AGENTS[1]).loaded()
