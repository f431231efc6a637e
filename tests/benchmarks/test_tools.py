import pytest

from tests.benchmarks.programs import measured, row_of


@pytest.mark.slow
def test_a_call_of_skill_run_is_compared_with_a_bare_process_and_with_the_other_library() -> None:
    found = measured("tools", "--only", "calls")
    for theirs in ("loaded", "not loaded"):
        assert row_of(found, f"`true`, OpenSkill, sandbox: over subprocess.run, times of trpc-agent-py, {theirs}")
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
        "looking through the skill",
    }
