import pytest

from tests.benchmarks.programs import measured, row_of
from tests.conftest import RequireProgram


@pytest.mark.slow
def test_calls_commands_and_listings_over_mcp_are_compared_with_fastmcp_and_http(
    require_program: RequireProgram,
) -> None:
    require_program("wrk")
    require_program("bwrap")
    found = measured("mcp")
    assert row_of(found, "calls a second of a tool that does nothing, times of FastMCP")
    assert row_of(found, "skill_run over MCP, times of POST /skills/ID:invoke")
    assert row_of(found, "listing 20 skills")
    assert found["calls"]["numbers"]["rates"]["OpenSkill"] > 0
    assert {"skill_run over /mcp", "SkillSession.call"} <= set(found["running"]["numbers"]["times"])
