import pytest

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
    assert row_of(found, "24 skills, 10 loaded: building a request, faster than trpc-agent-py at its quickest")
    for count in (10, 12, 24):
        row = f"{count} skills, 10 loaded: building a request, faster than the quicker of deepagents and google-adk"
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
    promise = "twelve requests in one turn: the least that is kept of the request before"
    assert row_of(found, promise).endswith("| **100.0 %** | yes |")


def test_what_is_promised_against_libraries_that_are_missing_says_why() -> None:
    ours, trpc, others = evaluated(ALONE)
    assert ours.endswith("| **0.50 ms** | yes |")
    assert "not measured: trpc: gone" in trpc
    assert "not measured: deepagents: gone; google-adk: gone" in others
