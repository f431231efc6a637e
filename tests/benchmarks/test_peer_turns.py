import json
import subprocess
import sys

from tests.benchmarks.programs import ROOT

TURNS = """
import asyncio, itertools, json
from peer_turns import in_turns_or_why
from running_part import NotMeasured

calls = itertools.count(1)

async def lasting():
    return 1.0

async def dying():
    if next(calls) == 3:
        raise NotMeasured("a peer: it failed with a crash")
    return 2.0

missing = {"another": "it is not installed"}
found = asyncio.run(in_turns_or_why({"lasting": lasting, "dying": dying}, 4, missing))
print(json.dumps([{name: one.seconds for name, one in found.items()}, missing, next(calls)]))
"""


def test_a_way_that_fails_in_the_middle_is_left_out_with_its_reason_and_the_others_go_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TURNS], cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True
    )
    found, missing, calls = json.loads(done.stdout)
    assert found == {"lasting": [1.0] * 4}
    assert missing == {"another": "it is not installed", "dying": "a peer: it failed with a crash"}
    # Nobody asks it again: the next number is the one after the call that failed.
    assert calls == 4
