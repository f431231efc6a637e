import subprocess
import sys

import pytest

from benchmarks.memory import available, descendants, identity, taken_by
from benchmarks.sampling import Series, Way, growth, in_turns, timed
from tests.benchmarks.programs import evaluated


def test_the_median_and_the_quartiles_do_not_mind_one_wild_time() -> None:
    series = Series((1.0, 2.0, 3.0, 4.0, 1000.0))
    assert series.median == 3.0
    assert series.quartiles == (2.0, 4.0)
    assert series.at(0.95) == 1000.0


async def test_every_round_begins_with_another_way_and_the_first_rounds_do_not_count() -> None:
    order: list[str] = []

    def way(name: str) -> Way:
        async def once() -> float:
            order.append(name)
            return float(len(order))

        return once

    found = await in_turns({"a": way("a"), "b": way("b"), "c": way("c")}, 2, before=1)
    assert "".join(order) == "abcbcacab"
    assert found["a"].seconds == (6.0, 8.0)


async def test_a_way_is_timed_from_its_beginning_to_its_end() -> None:
    done: list[bool] = []

    async def act() -> None:
        done.append(True)

    assert await timed(act)() >= 0.0
    assert done == [True]


@pytest.mark.parametrize(("exponent", "grown"), [(0.0, 1.0), (1.0, 100.0), (0.5, 10.0)])
def test_growth_is_that_of_the_power_law_behind_the_costs(exponent: float, grown: float) -> None:
    points = [(size, 3.0 * size**exponent) for size in (20, 200, 2000)]
    assert growth(points) == pytest.approx(grown)


TURNS = """
import asyncio, json
from readings import take_turns
from running_part import NotMeasured

order = []

def way(name, fails_at=None):
    async def once():
        order.append(name)
        if fails_at == order.count(name):
            raise NotMeasured(f"{name}: it failed")
        return {"seconds": float(order.count(name))}
    return once

ways = {"a": way("a"), "b": way("b", 2), "c": way("c"), "d": way("d", 1)}
turns = asyncio.run(take_turns(ways, 3, before=1, at_most={"c": 1}))
print(json.dumps({"order": "".join(order), "readings": turns.readings, "missing": turns.missing,
                  "ratios": [turns.ratio("a", "c"), turns.ratio("b", "a")], "why": turns.why("a", "b")}))
"""
TABLE = """
import json
from readings import raw_turns, turns_table
from sampling import Series

series = {"ours": Series((1.0, 2.0, 3.0)), "theirs": Series((8.0,))}
print(json.dumps({"table": turns_table(series, "ours", {"ours": 1000, "theirs": 999}), "raw": raw_turns(series)}))
"""


def test_who_fails_is_named_and_disturbs_nobody_and_who_is_slow_is_taken_less_often() -> None:
    turns = evaluated(TURNS)
    # Rounds begin with a, b, c and d in turn; d fails at once, b in the second round, c is taken once after the first.
    assert turns["order"] == "abcdbcaaa"
    assert turns["readings"] == {"a": [{"seconds": float(number)} for number in (2, 3, 4)], "c": [{"seconds": 2.0}]}
    assert turns["missing"] == {"b": "b: it failed", "d": "d: it failed"}
    assert turns["ratios"] == [1.5, None]
    assert turns["why"] == "b: it failed"


def test_a_table_says_how_often_each_was_taken_and_what_it_found() -> None:
    shown = evaluated(TABLE)
    assert shown["table"].splitlines()[2:] == [
        "| ours | 2.00 s | 1.00 s to 3.00 s | 3 | 1.00x | 1,000 |",
        "| theirs | 8.00 s | 8.00 s to 8.00 s | 1 | 4.00x | 999 |",
    ]
    assert (shown["raw"]["ours"]["repeats"], shown["raw"]["ours"]["quartiles"]) == (3, [1.0, 3.0])


def test_a_descendant_counts_with_its_parent_and_is_known_until_it_ends() -> None:
    inner = "import sys; print(flush=True); sys.stdin.read()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        (grandchild,) = descendants(child.pid)
        known = [identity(pid) for pid in (child.pid, grandchild)]
        both, one = taken_by(child.pid), taken_by(grandchild)
        child.stdin.close()
    assert None not in known
    assert (both.processes, one.processes) == (2, 1)
    assert both.size > one.size > 0
    assert identity(child.pid) is None


def test_a_process_that_is_gone_takes_nothing_that_can_be_read() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert taken_by(child.pid).unreadable == 1


def test_the_machine_has_some_memory_left() -> None:
    assert available() > 0
