"""Changes of conversations, as Hypothesis makes them up."""

from typing import TypeVar

from hypothesis import strategies as st

from openskills.session.state import (
    ALL,
    Change,
    Consumed,
    DocsChosen,
    Loaded,
    RecordedChange,
    SkillState,
    TurnBegan,
    Unloaded,
)

T = TypeVar("T")

AGENTS = ("main", "team/writer", "team%2Fwriter", "100%", "图 agent")
SKILLS = ("pdf", "csv", "log-summary", "图表", "a/b")
DOCS = ("guide.md", "docs/api.md", 'odd "name".md', ALL)

agents = st.sampled_from(AGENTS)
skills = st.sampled_from(SKILLS)
docs = st.lists(st.sampled_from(DOCS), max_size=3).map(tuple)

loads = st.builds(Loaded, skills, st.none() | docs)
unloads = st.builds(Unloaded, skills, st.booleans())
selections = st.builds(DocsChosen, skills, docs, st.booleans())
consumptions = st.builds(Consumed, skills)
turns = st.builds(TurnBegan)

calls: st.SearchStrategy[Change] = st.one_of(loads, loads, selections, unloads)
"""What the tools of a model do."""

changes: st.SearchStrategy[Change] = st.one_of(loads, loads, selections, selections, unloads, consumptions, turns)
"""Whatever can happen."""


def numbered(of: st.SearchStrategy[Change], most: int = 16) -> st.SearchStrategy[list[RecordedChange]]:
    """Changes of several agents, each with a number of its own, in their order."""
    return st.lists(st.tuples(agents, of), max_size=most).map(
        lambda made: [RecordedChange(at, agent, change) for at, (agent, change) in enumerate(made, 1)]
    )


def crowded(most: int = 16) -> st.SearchStrategy[list[RecordedChange]]:
    """Changes that meet each other: of few agents and skills, and several with one number, as of one call."""
    skill, few = st.sampled_from(SKILLS[:2]), st.lists(st.sampled_from(DOCS[:2]), max_size=2).map(tuple)
    loading, choosing = st.builds(Loaded, skill, st.none() | few), st.builds(DocsChosen, skill, few, st.booleans())
    made: st.SearchStrategy[Change] = st.one_of(
        loading, choosing, choosing, st.builds(Unloaded, skill), st.builds(Consumed, skill), turns
    )
    return st.lists(st.builds(RecordedChange, st.integers(1, 6), st.sampled_from(AGENTS[:2]), made), max_size=most)


def shuffled(values: list[T]) -> st.SearchStrategy[list[T]]:
    """The same values in any order, some of them more than once."""
    extra = st.lists(st.sampled_from(values), max_size=4) if values else st.just(list[T]())
    return extra.flatmap(lambda more: st.permutations([*values, *more]))


def seen(state: SkillState) -> dict[tuple[str, str], tuple[object, ...]]:
    """Everything that can be seen of a state: per agent and skill, and the order of an agent's skills."""
    facts: dict[tuple[str, str], tuple[object, ...]] = {}
    for agent in AGENTS:
        view = state.view_for(agent)
        facts[agent, ""] = view.list_loaded()
        for skill in SKILLS:
            facts[agent, skill] = (view.is_loaded(skill), view.can_run(skill), view.docs(skill))
    return facts
