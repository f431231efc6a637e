"""What is known of a run."""

import json

import orjson

from openskills.errors import RunCancelled
from openskills.host.books.run_states import Run, RunState, ended, without_result
from tests.host.results import succeeded

RUN = Run("run_1", "ci", "echo", "t-1", "0.1.0", RunState.QUEUED, "worker", 1_700_000_000.0)


def test_a_run_on_the_wire_has_its_state_and_times() -> None:
    assert json.loads(orjson.dumps(RUN.plain())) == {
        "id": "run_1",
        "state": "queued",
        "skill_id": "echo",
        "trace_id": "t-1",
        "version": "0.1.0",
        "created": "2023-11-14T22:13:20.000+00:00",
        "started": None,
        "ended": None,
        "cancel_requested": False,
        "cut_bytes": 0,
        "result": None,
    }


def test_at_its_end_it_has_the_result() -> None:
    done = ended(RUN, RunState.SUCCEEDED, succeeded(), 1_700_000_005.0, cut=7)
    plain = json.loads(orjson.dumps(done.plain()))
    assert (plain["state"], plain["ended"], plain["cut_bytes"]) == ("succeeded", "2023-11-14T22:13:25.000+00:00", 7)
    assert plain["result"] == succeeded().plain()
    assert done.status == 200


def test_a_run_without_a_result_of_its_own_gets_one_that_says_why() -> None:
    result = without_result(RUN, RunCancelled("somebody wanted that"), 1_700_000_002.5)
    assert (result.status, result.skill_id, result.trace_id) == (499, "echo", "t-1")
    assert result.latency_ms == 2_500.0
    assert result.plain()["error"]["details"]["reason"] == "CANCELLED"
