from collections import Counter

from benchmarks.context_talk import (
    LOAD,
    SELECT,
    Documented,
    Turn,
    as_data,
    in_many_turns,
    in_one_turn,
    in_three_turns,
    long_turn,
    of_data,
)

SKILLS = [Documented(name, ["a.md", "b.md"]) for name in ("one", "two", "three")]


def requests(turns: list[Turn]) -> int:
    """The model is asked when the user has spoken, and after each call."""
    return sum(1 + len(turn.steps) for turn in turns)


def kinds(turns: list[Turn]) -> Counter[str]:
    return Counter(step.kind for turn in turns for step in turn.steps)


def test_a_conversation_has_twelve_requests_three_loads_and_two_selections_however_often_the_user_speaks() -> None:
    for turns in (in_one_turn(SKILLS), in_three_turns(SKILLS)):
        assert requests(turns) == 12
        assert (kinds(turns)[LOAD], kinds(turns)[SELECT]) == (3, 2)


def test_the_long_turn_has_forty_messages_with_that_of_the_system() -> None:
    (turn,) = long_turn([f"skill-{number}" for number in range(10)])
    assert kinds([turn])[LOAD] == 10
    assert 2 + 2 * len(turn.steps) == 40


def test_another_process_gets_the_same_conversation() -> None:
    turns = in_three_turns(SKILLS)
    assert list(of_data(as_data(turns))) == turns


def test_many_turns_have_the_same_number_of_calls_for_any_number_of_loads() -> None:
    skills = [Documented(f"skill-{number}", ["a.md"]) for number in range(8)]
    for number in (1, 3, 8):
        turns = in_many_turns(skills[:number], 8)
        assert [len(turn.steps) for turn in turns] == [3] * 8
        loads = [step.skill for turn in turns for step in turn.steps if step.kind == LOAD]
        assert loads == [skill.name for skill in skills[:number]]
