import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from openskills.errors import DeadlineExceeded, InvalidArgument
from openskills.tools.matching import MAX_PATTERN, MOST, matching

TEXT = "alpha beta\nBETA\n\ngamma é\nbe.a\n"


def hits(pattern: str, text: str = TEXT, *, regex: bool = False, ignore_case: bool = False) -> list[int]:
    async def scenario() -> list[int]:
        async with matching(pattern, regex=regex, ignore_case=ignore_case) as matcher:
            return [line for line, _ in await matcher.hits(text)]

    return asyncio.run(scenario())


def test_plain_text_means_itself() -> None:
    assert hits("be.a") == [4]
    assert hits("beta") == [0]
    assert hits("é") == [3]
    assert hits("zzz") == []


def test_case_can_be_ignored() -> None:
    assert hits("Beta", ignore_case=True) == [0, 1]
    assert hits("b.TA", regex=True, ignore_case=True) == [0, 1]


def test_a_regular_expression_is_searched_in_every_line_by_itself() -> None:
    assert hits("be.a", regex=True) == [0, 4]
    assert hits("^$", regex=True) == [2]
    assert hits(r"^(?=.*a)\w+$", regex=True) == []
    assert hits(r"\w é$", regex=True) == [3]
    assert hits("a", "", regex=True) == []


def test_the_column_of_a_match_is_told() -> None:
    async def scenario() -> None:
        for regex in (False, True):
            async with matching("beta", regex=regex) as matcher:
                assert list(await matcher.hits("alpha beta\n")) == [(0, 6)]
                assert list(await matcher.hits("beta\nx\né beta beta\n")) == [(0, 0), (2, 2)]

    asyncio.run(scenario())


def test_a_text_full_of_matches_is_looked_at_until_there_are_enough() -> None:
    for regex in (False, True):
        assert hits("a", "ab\nb\n" * (MOST + 10), regex=regex) == list(range(0, 2 * MOST, 2))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("", "is empty"), ("a\nb", "line by line"), ("x" * (MAX_PATTERN + 1), "is the most"), ("\ud800", "surrogate")],
)
@pytest.mark.parametrize("regex", [False, True])
def test_what_is_no_pattern_is_refused(pattern: str, said: str, regex: bool) -> None:
    with pytest.raises(InvalidArgument, match=said):
        hits(pattern, regex=regex)


def test_a_broken_regular_expression_is_refused_with_the_place() -> None:
    with pytest.raises(InvalidArgument, match=r"pattern: .*unterminated subpattern at position 1"):
        hits("a(", regex=True)


@pytest.mark.parametrize("pattern", ["(" * 400 + ")" * 400, "a{99999999999999999999}", "(?P<a>x)(?P<a>x)"])
def test_an_absurd_regular_expression_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument):
        hits(pattern + "(", regex=True)


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+$", r"(.*)*b\1", r"^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_a_catastrophic_regular_expression_is_ended(pattern: str) -> None:
    async def scenario() -> None:
        async with matching(pattern, regex=True, seconds=0.5) as matcher:
            with pytest.raises(DeadlineExceeded, match=r"took more than 0\.5 seconds; write a simpler one"):
                await matcher.hits("a" * 5000 + "!\n")

    asyncio.run(scenario())
    assert not running_programs()


def test_the_loop_goes_on_while_a_regular_expression_takes_its_time() -> None:
    async def scenario() -> int:
        turns = 0
        async with matching(r"(a+)+$", regex=True, seconds=1.0) as matcher:
            searching = asyncio.ensure_future(matcher.hits("a" * 5000 + "!\n"))
            while not searching.done():
                await asyncio.sleep(0.01)
                turns += 1
            assert isinstance(searching.exception(), DeadlineExceeded)
        return turns

    assert asyncio.run(scenario()) > 1


def test_a_search_that_is_cancelled_leaves_no_process() -> None:
    async def scenario() -> None:
        async with matching(r"(a+)+$", regex=True) as matcher:
            searching = asyncio.ensure_future(matcher.hits("a" * 5000 + "!\n"))
            await asyncio.sleep(0)
            searching.cancel()
            with pytest.raises(asyncio.CancelledError):
                await searching

    asyncio.run(scenario())
    assert not running_programs()


def running_programs() -> list[str]:
    """Children of this process that run the program."""
    found: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        # Threads and children of other tests may end meanwhile.
        with suppress(OSError):
            found += [pid for pid in (task / "children").read_text().split() if _is_the_program(pid)]
    return found


def _is_the_program(pid: str) -> bool:
    try:
        return b"regex_program" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
