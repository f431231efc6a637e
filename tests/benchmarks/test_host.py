import pytest

from tests.benchmarks.programs import measured, row_of
from tests.conftest import RequireProgram


@pytest.mark.slow
def test_our_host_is_compared_with_hosts_that_start_interpreters_and_with_bare_routes(
    require_program: RequireProgram,
) -> None:
    require_program("wrk")
    found = measured("host", "--only", "load")
    numbers = found["load"]["numbers"]
    assert {"FastAPI, bare route", "OpenSkill, cli:python"} <= set(numbers)
    # On a busy machine no interpreter may be up within the second of the smallest extent; then that is said.
    slow = "FastAPI, an interpreter per call"
    assert slow in numbers or any(f"{slow}: it served no more" in reason for reason in found["load"]["missing"])
    assert all(one["rate"] > 0 and one["repeats"] == 1 for one in numbers.values())
    for one in numbers.values():
        low, high = one["spread"]["p99"]
        assert low <= one["p99"] <= high
    assert sum(one["failed"] for name, one in numbers.items() if name.startswith("OpenSkill")) == 0
    assert row_of(found, "`cli:python`: calls a second, times of a host that starts an interpreter per call")
