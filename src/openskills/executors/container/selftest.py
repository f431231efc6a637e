"""Self-test of the container executor: probes inside a container, and checks for unrequested engine settings."""

import os
from collections.abc import Mapping
from typing import Any

from openskills.errors import ExecutorUnavailable
from openskills.executors.bubblewrap.selftest import build_expected_findings, check_isolation, create_trial_workspace
from openskills.executors.container.spec import ROOT
from openskills.executors.protocol import Backend


async def run_self_test(backend: Backend) -> None:
    """Test a new container from inside. Raises `ExecutorUnavailable` with the faults found."""
    with create_trial_workspace() as place:
        uid = os.getuid() if place.uid is None else place.uid
        launcher = await backend.attach(place)
        try:
            expected = build_expected_findings(ROOT, uid)
            found = await check_isolation(launcher, place, expected, _suggest_fix, "the container", python="python3")
            wrong = find_faults(found)
        finally:
            await launcher.close()
    if wrong:
        raise ExecutorUnavailable(f"the engine changed the container: {'; '.join(wrong)}; nothing is run")


def find_faults(facts: Mapping[str, Any]) -> list[str]:
    """Descriptions of the faults of a container with these facts; empty if there are none."""
    expected: Mapping[str, tuple[object, str]] = {
        "interfaces": (["lo"], "the container has a network"),
        "read_only": (True, "the root file system of the container is writable"),
        "skills_read_only": (True, "staged skills are writable"),
        "engines": ([], "the socket of an engine is visible in the container"),
    }
    return [words for name, (value, words) in expected.items() if facts.get(name) != value]


def _suggest_fix(what: str) -> str:
    if "writable places" in what:
        return "The engine must not map users, and SELinux must allow containers to use the workspace."
    return "Check the runtime and the defaults that the engine is configured with."
