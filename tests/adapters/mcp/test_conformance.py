"""Our server as the official conformance suite and the MCP Inspector judge it, over stdio and HTTP, in both eras."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openskills.host.parts import HostOptions
from tests.adapters.mcp.oracles import Oracles
from tests.adapters.mcp.oracles import oracles as oracles
from tests.host.hosting import Served, served
from tests.long_form import cases

SKILLS = Path(__file__).resolve().parents[3] / "skills"
VERIFY = ("--method", "skills/list", "--verify", "--require-digests")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("host")
    with served(
        directory, options=HostOptions(watch=False, skills=(SKILLS,)), executor="local", allow_local=True
    ) as one:
        yield one


@pytest.mark.parametrize(
    "scenario",
    [
        "sep-2640-skills-enumeration",
        "sep-2640-skills-manifest",
        "sep-2640-skills-directory",
        "server-initialize",
        "server-session-lifecycle",
        "server-sse-multiple-streams",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "input-required-result-unsupported-methods",
    ],
)
def test_the_conformance_suite_finds_no_failure_and_no_warning(oracles: Oracles, host: Served, scenario: str) -> None:
    done = oracles.conformance("server", "--url", f"{host.url}/mcp", "--scenario", scenario, "-o", "out")
    assert done.returncode == 0, done.stdout[-4000:]
    found = re.search(r"Passed: (\d+)/(\d+), 0 failed, 0 warnings", done.stdout)
    assert found is not None, done.stdout[-4000:]
    assert found[1] == found[2] != "0"


@pytest.mark.parametrize("era", cases(["legacy"], ["modern"]))
def test_the_inspector_verifies_every_file_over_http(oracles: Oracles, host: Served, era: str) -> None:
    done = oracles.inspect(f"{host.url}/mcp", "--transport", "http", "--protocol-era", era, *VERIFY)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "Verified 8 skills" in done.stdout + done.stderr


@pytest.mark.parametrize("era", cases(["modern"], ["legacy"]))
def test_the_inspector_verifies_every_file_over_stdio(oracles: Oracles, era: str) -> None:
    command = [sys.executable, "-m", "openskills", "mcp", str(SKILLS), "--executor", "none"]
    done = oracles.inspect("--protocol-era", era, *VERIFY, "--", *command)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "Verified 8 skills" in done.stdout + done.stderr


def test_the_inspector_finds_no_fault_in_the_schemas_of_the_session_tools(oracles: Oracles, host: Served) -> None:
    done = oracles.inspect(f"{host.url}/mcp", "--transport", "http", "--method", "tools/list", "--strict")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "warnings across" not in done.stdout + done.stderr


def test_the_inspector_calls_a_hosted_skill_with_typed_arguments(oracles: Oracles, host: Served) -> None:
    call = ("--method", "tools/call", "--tool-name", "echo", "--tool-arg", "text=hello")
    done = oracles.inspect(f"{host.url}/mcp", "--transport", "http", *call)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"echoed": "hello"' in done.stdout
