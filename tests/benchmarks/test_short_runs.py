import pytest

from tests.benchmarks.programs import measured, row_of
from tests.conftest import RequireProgram
from tests.long_form import LONG, cases


@pytest.mark.slow
def test_a_call_of_skill_run_is_compared_with_a_bare_process_and_with_the_other_library() -> None:
    found = measured("tools", "--only", "calls")
    for theirs in ("loaded", "not loaded"):
        assert row_of(
            found, f"`true`, OpenSkill, sandbox: overhead over subprocess.run, relative to trpc-agent-py, {theirs}"
        )
    for command in ("true", "python -c pass"):
        numbers = found["calls"]["numbers"][command]
        assert {"subprocess.run", "subprocess.run, bash -c", "OpenSkill, local"} <= set(numbers)


@pytest.mark.slow
def test_every_layer_of_a_call_is_measured_by_itself() -> None:
    numbers = measured("tools", "--only", "layers")["layers"]["numbers"]["local"]
    assert set(numbers) == {
        "subprocess.run",
        "skill_run",
        "CommandRunner.run",
        "the executor",
        "checking the skill for changes",
    }


@pytest.mark.slow
def test_calls_commands_and_listings_over_mcp_are_compared_with_fastmcp_and_http(
    require_program: RequireProgram,
) -> None:
    require_program("wrk")
    require_program("bwrap")
    found = measured("mcp")
    assert row_of(found, "calls per second of a tool that does nothing, relative to FastMCP")
    assert row_of(found, "skill_run over MCP, relative to POST /skills/ID:invoke")
    assert row_of(found, "listing 20 skills")
    assert found["calls"]["numbers"]["rates"]["OpenSkill"] > 0
    assert {"skill_run over /mcp", "SkillSession.call"} <= set(found["running"]["numbers"]["times"])


@pytest.mark.slow
def test_finding_and_calling_are_compared_with_deepagents() -> None:
    found = measured("langchain", "--only", "discovery,calls")
    for thread in ("the first thread", "every other thread"):
        assert row_of(found, f"24 skills, OpenSkill, {thread}: faster than deepagents")
    for way in ("marked list", "stable list", "SkillRuntimeMiddleware"):
        assert row_of(found, f"a model call with 24 skills, OpenSkill, {way}: relative to deepagents")
    assert {"deepagents", "OpenSkill, the first thread"} <= set(found["discovery"]["numbers"]["24"])
    # And with the floors: files that are only read, an agent without skills.
    assert "only reading the files" in found["discovery"]["numbers"]["24"]
    for what in ("hook", "turn"):
        assert {"no middleware", "deepagents", "OpenSkill, stable list"} <= set(found["calls"]["numbers"][what])


@pytest.mark.slow
def test_checkpoints_are_smaller_than_those_of_deepagents() -> None:
    # Bytes, not times: the same on every machine.
    numbers = measured("langchain", "--only", "state")["state"]["numbers"]
    assert numbers["24"]["OpenSkill, SkillRuntimeMiddleware"] * 5 <= numbers["24"]["deepagents"]
    everything = numbers["everything"]["24"]
    assert 0 < everything["no middleware"] < everything["OpenSkill, stable list"] < everything["deepagents"]


@pytest.mark.slow
def test_a_stable_list_keeps_the_prefix_of_every_request_as_deepagents_does_in_the_same_steps() -> None:
    kept = measured("langchain", "--only", "prefix")["prefix"]["numbers"]
    assert {one["requests"] for one in kept.values()} == {10}
    assert kept["deepagents"]["least"] == kept["no middleware"]["least"] == 100.0
    assert kept["no middleware"]["new"] < kept["deepagents"]["new"]
    assert kept["OpenSkill, stable list"]["least"] == 100.0
    assert kept["OpenSkill, marked list"]["least"] < 50.0


@pytest.mark.slow
def test_pages_are_timed_and_the_bytes_of_a_visit_counted() -> None:
    found = measured("console", *([] if LONG else ["--only", "pages"]))
    assert row_of(found, "first page with 24 skills")
    assert row_of(found, "bytes of a first visit")
    assert {"console.css", "htmx.min.js", "/"} <= set(found["pages"]["numbers"]["bytes"])


@pytest.mark.slow
def test_a_command_through_ray_is_compared_with_the_same_executor_and_postgresql_with_sqlite() -> None:
    # The cluster in the long form.
    found = measured("scale_out", "--only", "command,database" if LONG else "database")
    if LONG:
        assert row_of(found, "a command through Ray: overhead over the same executor")
    assert row_of(found, "an idempotent call in PostgreSQL: overhead over SQLite")
    assert set(found["database"]["numbers"]["rows"]) == {"SQLite", "PostgreSQL"}


CURVES = {
    "skills": ("first discovery, by skills", {"refresh", "list", "search", "request"}),
    "sessions": ("load a skill, memory, by sessions", {"open, memory", "load a skill, SQLite", "memory"}),
    "clients": ("failed calls", {"a call, function", "time for each call, script"}),
    "transcripts": ("append, by events", {"next request", "open", "turn of an agent"}),
    "files": ("collect and keep, by bytes", {"copy by hand", "memory of the process"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", cases(["skills", "files"], ["sessions", "clients", "transcripts"]))
def test_a_cost_is_followed_over_its_sizes_and_has_an_exponent(part: str) -> None:
    promise, curves = CURVES[part]
    found = measured("scale", "--only", part)
    assert row_of(found, promise)
    numbers = found[part]["numbers"]
    assert curves <= set(numbers)
    for curve in curves:
        assert isinstance(numbers[curve]["exponent"], float)
        sizes = [int(size) for size in numbers[curve]["points"]]
        assert len(sizes) >= 2
        assert sizes == sorted(sizes)
        for point in numbers[curve]["points"].values():
            low, high = point["quartiles"]
            assert 0 < low <= point["median"] <= high
