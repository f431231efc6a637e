"""Who goes next."""

import asyncio

import pytest

from openskills.host.books.waiting_line import Waiter, WaitingLine


def waiter(key: str, skill: str = "echo") -> Waiter:
    future: asyncio.Future[None] = asyncio.Future(loop=asyncio.new_event_loop())
    future.get_loop().close()
    return Waiter(key, skill, None, None, 0.0, 0.0, future)


def line_of(keys: str) -> WaitingLine:
    line = WaitingLine()
    for number, key in enumerate(keys):
        line.add(waiter(key, str(number)))
    return line


def order(line: WaitingLine) -> str:
    found = ""
    while (one := line.next(lambda _: True)) is not None:
        found += one.key
    return found


@pytest.mark.parametrize(
    ("waiting", "served"), [("", ""), ("aaa", "aaa"), ("aaab", "abaa"), ("aaabbc", "abcaba"), ("abcabc", "abcabc")]
)
def test_keys_take_turns(waiting: str, served: str) -> None:
    assert order(line_of(waiting)) == served


def test_of_one_key_who_came_first_goes_first() -> None:
    line = line_of("abab")
    served = [one.skill for _ in range(4) if (one := line.next(lambda _: True))]
    assert served == ["0", "1", "2", "3"]
    assert len(line) == 0


def test_a_key_that_was_just_served_goes_behind_a_new_one() -> None:
    line = line_of("aa")
    assert line.next(lambda _: True)
    line.add(waiter("b"))
    assert order(line) == "ab"


def test_who_may_not_go_is_passed_over_and_keeps_its_place() -> None:
    line = line_of("aab")
    second = line.next(lambda one: one.skill != "0")
    assert second is not None
    assert second.skill == "1"
    assert line.next(lambda _: False) is None
    assert order(line) == "ba"


def test_the_number_ahead_is_the_number_that_is_served_before() -> None:
    for waiting in ("", "a", "aaab", "bbbb", "aabbccd", "dcba"):
        line = line_of(waiting)
        expected = line.ahead("a")
        mine = waiter("a", "mine")
        line.add(mine)
        before = 0
        while line.next(lambda _: True) is not mine:
            before += 1
        # Whose turn comes first among keys is not foreseen exactly.
        assert before <= expected <= before + 3, waiting


def test_counts_follow_what_is_added_and_removed() -> None:
    line = WaitingLine()
    first, second = waiter("a", "echo"), waiter("a", "sum")
    line.add(first)
    line.add(second)
    assert (len(line), line.of_key("a"), line.of_skill("echo"), line.of_skill("sum")) == (2, 2, 1, 1)
    assert line.remove(first)
    assert not line.remove(first)
    assert (len(line), line.of_key("a"), line.of_skill("echo")) == (1, 1, 0)
    assert list(line) == [second]


@pytest.mark.parametrize(
    ("waiting", "newcomer", "gives"),
    [("", "x", None), ("a", "x", None), ("aa", "x", "1"), ("aab", "b", None), ("aaab", "b", "2"), ("aaa", "a", None)],
)
def test_only_a_key_that_has_clearly_more_gives_a_place_away(waiting: str, newcomer: str, gives: str | None) -> None:
    found = line_of(waiting).last_of_longest(unless=newcomer)
    assert (found and found.skill) == gives
