import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

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
from benchmarks.context_trace import BEGIN, END, between
from tests.benchmarks.programs import evaluated, measured, row_of

BUILDERS = {"OpenSkill", "trpc-agent-py", "deepagents", "google-adk", "pydantic-ai-skills"}
ALONE = """
import json
from context_building import OURS, compared, targets
from sampling import Series

gone = {"deepagents": "deepagents: gone", "google-adk": "google-adk: gone", "trpc-agent-py, cached": "trpc: gone"}
series = {OURS: Series((0.0005,))}
print(json.dumps([one.row() for one in [*targets(1000, series, gone), compared(1000, series, gone)]]))
"""


@pytest.mark.slow
def test_building_a_request_answers_for_its_promises_with_every_number_of_skills() -> None:
    found = measured("context", "--only", "building")
    assert row_of(found, "24 skills, 10 loaded: building a request")
    assert row_of(found, "24 skills, 10 loaded: building a request, faster than the fastest variant of trpc-agent-py")
    for count in (10, 12, 24):
        row = f"{count} skills, 10 loaded: building a request, faster than deepagents and google-adk"
        assert row_of(found, row)
    numbers, missing = found["building"]["numbers"], found["building"]["missing"]
    assert set(numbers) == {"10", "12", "24"}
    low, high = numbers["24"]["OpenSkill"]["quartiles"]
    assert 0 < low <= high
    assert {"only joining the messages", "only copying the messages"} <= set(numbers["24"])
    named = {reason.split(":")[0] for reason in missing}
    assert {way.split(",")[0] for way in numbers["24"]} | named >= {*BUILDERS, "FastMCP", "skills-ref"}


@pytest.mark.slow
def test_no_file_is_touched_for_a_request_when_nothing_has_changed() -> None:
    found = measured("context", "--only", "files")
    assert found["files"]["numbers"]["audited"] == []
    assert found["files"]["numbers"]["called"] in ([], None)
    assert row_of(found, "files touched for 100 requests, 24 skills: audit events").endswith("| **0 events** | yes |")


@pytest.mark.slow
def test_nothing_that_was_sent_is_changed_by_later_loads_and_selections() -> None:
    found = measured("context", "--only", "prefix")
    one_turn = {one["way"]: one for one in found["prefix"]["numbers"]["one turn"]}
    assert one_turn["OpenSkill"]["kept"] == [1.0] * 12
    assert min(one_turn["OpenSkill, system message"]["kept"]) < 0.95
    promise = "twelve requests in one turn: lowest reuse of the previous request"
    assert row_of(found, promise).endswith("| **100.0 %** | yes |")


def test_what_is_promised_against_libraries_that_are_missing_says_why() -> None:
    ours, trpc, others = evaluated(ALONE)
    assert ours.endswith("| **0.50 ms** | yes |")
    assert "not measured: trpc: gone" in trpc
    assert "not measured: deepagents: gone; google-adk: gone" in others


HELD = """
import json
from context_held import held
from context_talk import as_data, long_turn

request = [{"role": "system", "content": "- one: a, - two: b"}, {"role": "tool", "content": "# one\\n\\nits text"}]
print(json.dumps(held(request, as_data(long_turn(["one", "two"])))))
"""
NOBODY = """
import asyncio, json, sys
from contextlib import AsyncExitStack
from pathlib import Path
import context_peers
from context_talk import long_turn

async def main(scratch):
    # The environment of another library: the script starts there, and fails for want of its own.
    wrong = context_peers.Holder("wrong", "venv", "deepagents", "context_adk.py")
    absent = context_peers.Holder("absent", "no-such-environment", "absent", "context_adk.py")
    few = context_peers.Holder("few", "no-such-environment", "absent", "context_adk.py", max_skills=10)
    (turn,) = long_turn(["one"])
    async with AsyncExitStack() as stack:
        holders = {"wrong": wrong, "absent": absent, "few": few}
        ways, missing = await context_peers.holding(turn, 1, scratch, 24, scratch, stack, holders)
    print(json.dumps({"ways": list(ways), "missing": missing}))

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_request_is_known_by_its_messages_and_by_the_texts_that_it_has() -> None:
    assert evaluated(HELD) == {"messages": 2, "loaded": 1}


def test_a_library_that_is_missing_or_fails_gives_its_reason_and_one_with_too_many_skills_is_left_out(
    tmp_path: Path,
) -> None:
    found = evaluated(NOBODY, tmp_path)
    assert found["ways"] == []
    assert set(found["missing"]) == {"wrong", "absent"}
    assert found["missing"]["absent"].startswith("absent: it is not installed")
    assert found["missing"]["wrong"].startswith("wrong: it ")


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


ROOT = Path(__file__).resolve().parents[2]

COUNTING = """
import json, os
from benchmarks.context_trace import file_events

open(os.devnull).close()
with file_events() as events:
    open(os.devnull).close()
    os.listdir(".")
    sum(range(100))
open(os.devnull).close()
print(json.dumps(events))
"""


def test_what_is_done_to_files_in_the_block_is_told_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", COUNTING], capture_output=True, text=True, cwd=ROOT)
    assert json.loads(done.stdout) == ["open", "os.listdir"], done.stderr


def test_only_what_stands_between_the_marks_is_counted() -> None:
    lines = ["1 openat(...)", f'1 access("{BEGIN}")', "2 read(3)", f'1 access("{END}")', "1 write(1)"]
    assert between(lines) == ["2 read(3)"]


@pytest.mark.parametrize("lines", [[], ["1 read(3)"], [f'1 access("{BEGIN}")', "1 read(3)"]])
def test_a_trace_without_marks_proves_nothing(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="no beginning or no end"):
        between(lines)
