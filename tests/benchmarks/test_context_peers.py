from pathlib import Path

from tests.benchmarks.programs import evaluated

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
    few = context_peers.Holder("few", "no-such-environment", "absent", "context_adk.py", most=10)
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
