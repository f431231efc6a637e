from tests.benchmarks.programs import evaluated

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
