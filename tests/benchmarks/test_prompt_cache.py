import subprocess
import sys
from typing import Any

import pytest

from tests.benchmarks.programs import ROOT, measured, row_of

KEPT = "mode `session`, or texts that stay until they are removed"
OURS = ("OpenSkill, tool results", "OpenSkill, system message")
PEERS = {"trpc-agent-py", "deepagents", "google-adk", "pydantic-ai-skills", "FastMCP"}


@pytest.fixture(scope="module")
def modes() -> dict[str, Any]:
    """Measured once: it starts every peer."""
    return measured("prompt_cache", "--only", "modes")


def named(missing: list[str]) -> set[str]:
    return {reason.split(":")[0] for reason in missing}


@pytest.mark.slow
def test_every_placement_and_mode_plays_the_same_steps_and_every_peer_is_measured_or_named(
    modes: dict[str, Any],
) -> None:
    numbers = modes["modes"]["numbers"]
    assert list(numbers) == ["mode `turn`", "mode `once`", KEPT]
    for played in numbers.values():
        assert tuple(one["way"] for one in played[:2]) == OURS
        assert {len(one["tokens"]) for one in played} == {12}
    ways = {one["way"].split(",")[0] for one in numbers[KEPT]}
    assert ways | named(modes["modes"]["missing"]) >= PEERS


@pytest.mark.slow
def test_nothing_that_was_sent_changes_in_tool_results_and_something_does_in_the_system_message(
    modes: dict[str, Any],
) -> None:
    results, system, *_ = modes["modes"]["numbers"][KEPT]
    assert results["least_kept"] == 100
    assert system["least_kept"] < 95
    assert results["uncached"] == results["tokens"][-1]
    promise = "twelve requests in three turns, mode `session`: lowest reuse of the previous request"
    assert row_of(modes, promise).endswith("| **100.0 %** | yes |")


@pytest.mark.slow
def test_the_number_of_requests_is_the_same_for_every_number_of_loads() -> None:
    found = measured("prompt_cache", "--only", "curves")
    numbers = found["curves"]["numbers"]
    assert list(numbers) == ["1", "4"]
    assert {len(one["tokens"]) for played in numbers.values() for one in played} == {24}
    ways = {one["way"].split(",")[0] for one in numbers["4"]}
    assert ways | named(found["curves"]["missing"]) >= PEERS | {"OpenSkill"}


CRASHED = """
from cache_curves import OURS, OURS_SYSTEM, _targets
from context_played import theirs
from openskills.tokens import estimate_tokens

played = [theirs(way, [[{"role": "user", "content": "hi"}]], estimate_tokens) for way in (OURS, OURS_SYSTEM)]
for target in _targets({1: played}, 4, {"deepagents": "deepagents: it failed with ValueError: no"}):
    print(target.row())
"""


def test_a_peer_that_crashed_is_in_the_promises_with_what_it_crashed_of() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASHED], cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True
    )
    (row,) = [line for line in done.stdout.splitlines() if "relative to deepagents" in line]
    assert "not measured: deepagents: it failed with ValueError: no |" in row
    assert "not installed" not in done.stdout
