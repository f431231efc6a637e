"""Self-test of the container executor: probes inside a container, and checks for unrequested engine settings."""

import json
import os
from collections.abc import Mapping
from typing import Any, cast

from openskills.errors import ExecutorUnavailable
from openskills.executors.bubblewrap.selftest import build_expected_findings, check_isolation, create_trial_workspace
from openskills.executors.container.spec import ROOT
from openskills.executors.process import HostProcess
from openskills.executors.protocol import Backend, Launcher
from openskills.executors.spec import Command, Limits

_LIMITS = Limits(timeout=20.0)
_EXCERPT = 500

# Runs inside the container, without our modules.
FACTS = f"""
import json, os
read_only = lambda path: bool(os.statvfs(path).f_flag & os.ST_RDONLY)
interfaces = [line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]]
engines = ("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock")
print(json.dumps({{
    "interfaces": interfaces,
    "read_only": read_only("/"),
    "skills_read_only": read_only("{ROOT}/skills"),
    "engines": [path for path in engines if os.path.exists(path)],
}}))
"""


async def run_self_test(backend: Backend) -> None:
    """Test a new container from inside. Raises `ExecutorUnavailable` with the faults found."""
    with create_trial_workspace() as place:
        uid = os.getuid() if place.uid is None else place.uid
        launcher = await backend.attach(place)
        try:
            expected = build_expected_findings(ROOT, uid)
            await check_isolation(launcher, place, expected, _suggest_fix, "the container", python="python3")
            wrong = find_faults(await _read_facts(launcher))
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


async def _read_facts(launcher: Launcher) -> Mapping[str, Any]:
    command = Command(("python3", "-I", "-S", "-c", FACTS), limits=_LIMITS)
    env = {"PATH": ":".join(launcher.path)}
    process = await HostProcess.start(command, lambda stdio: launcher.launch(command, env, stdio))
    end = await process.wait()
    try:
        return cast("Mapping[str, Any]", json.loads(end.stdout.bytes()))
    except ValueError:
        reason = end.stderr.text().strip()[-_EXCERPT:]
        raise ExecutorUnavailable(f"the self-test of the container failed ({end.exit_code}): {reason}") from None


def _suggest_fix(what: str) -> str:
    if "writable places" in what:
        return "The engine must not map users, and SELinux must allow containers to use the workspace."
    return "Check the runtime and the defaults that the engine is configured with."
