import json
import os
from collections.abc import Mapping, Sequence

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.bubblewrap.selftest import ExpectedFindings, check_isolation, create_trial_workspace
from openskills.executors.protocol import Launcher
from openskills.executors.spec import Command
from openskills.executors.supervisor import LaunchRequest, SupervisedProcess, SupervisorPool

EXPECTED: ExpectedFindings = {"network": ("closed",), "uid": ("1", "2")}


class Scripted:
    """Runs a line of shell, whatever the command is."""

    root, home, visible_pids, interpreter = "/workspace", "/home/u", True, None
    path: Sequence[str] = ("/usr/bin", "/bin")

    def __init__(self, script: str, pool: SupervisorPool) -> None:
        self._script = script
        self._pool = pool

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> SupervisedProcess:
        assert command.argv
        return await self._pool.start(LaunchRequest(("bash", "-c", self._script), env, "/", dict(enumerate(stdio))))

    async def close(self) -> None:
        """It holds nothing."""


async def refusal(script: str) -> str:
    pool = SupervisorPool()
    launcher: Launcher = Scripted(script, pool)
    try:
        with create_trial_workspace() as place, pytest.raises(ExecutorUnavailable) as caught:
            await check_isolation(launcher, place, EXPECTED, lambda said: f"ADVICE for {said[:9]}", "the box")
        return caught.value.message
    finally:
        await pool.close()


def answers(**found: str) -> str:
    return f"echo '{json.dumps(found)}'"


async def test_a_finding_that_is_not_expected_is_named_with_the_advice() -> None:
    message = await refusal(answers(network="open", uid="1"))
    assert "the box does not isolate on this machine (network: open); nothing is run" in message
    assert "ADVICE for network:" in message


async def test_a_probe_that_does_not_answer_has_failed() -> None:
    assert "uid: no answer" in await refusal(answers(network="closed"))


@pytest.mark.parametrize("script", ["true", "echo nonsense", "echo []", "echo '{\"uid\": [1]}'"])
async def test_answers_that_are_none_are_refused(script: str) -> None:
    assert "nothing is run" in await refusal(script)


async def test_probes_that_fail_are_refused_with_what_they_said() -> None:
    message = await refusal("echo broken >&2; exit 3")
    assert "exit code 3" in message
    assert "broken" in message


async def test_what_is_as_expected_passes() -> None:
    pool = SupervisorPool()
    with create_trial_workspace() as place:
        launcher: Launcher = Scripted(answers(network="closed", uid="2"), pool)
        await check_isolation(launcher, place, EXPECTED, str, "the box")
    await pool.close()


def test_the_place_of_a_trial_is_gone_afterwards() -> None:
    with create_trial_workspace() as place:
        assert (place.tree / "skills" / "probe" / "probes.py").is_file()
        assert (place.uid is None) == (os.geteuid() != 0)
    assert not place.tree.parents[1].exists()
