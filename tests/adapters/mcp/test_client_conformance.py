"""The conformance suite of MCP against our client: all scenarios for skills, and the general ones that apply.

Not here: `auth/*` (OAuth; keys are sent as bearer tokens), and two scenarios with elicitation, which is not declared.
"""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.servers.warm_openskills import program_line

ROOT = Path(__file__).resolve().parents[3]
OLD, NEW = "2025-11-25", "2026-07-28"
SCENARIOS = [
    ("sep-2640-client-no-prefetch", ""),
    ("sep-2640-client-verify-digest", ""),
    ("sep-2640-client-verify-size", ""),
    ("sep-2640-client-verify-frontmatter", ""),
    ("initialize", OLD),
    ("tools_call", OLD),
    ("tools_call", NEW),
    ("sse-retry", OLD),
    ("request-metadata", NEW),
    ("http-standard-headers", NEW),
    ("http-custom-headers", NEW),
    ("http-invalid-tool-headers", NEW),
    ("json-schema-ref-no-deref", NEW),
    ("json-schema-2020-12-preservation", OLD),
    ("json-schema-2020-12-preservation", NEW),
]


def ask_script(option: str) -> str:
    script = ROOT / "scripts" / "npm_oracles.sh"
    return subprocess.run([script, option], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def suite() -> list[str]:
    """The command of the suite. Where it is not installed the tests are skipped; in CI they fail."""
    program = Path(ask_script("--directory")) / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    if not program.exists():
        reason = "needs the MCP conformance suite; run scripts/npm_oracles.sh"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return [ask_script("--node"), str(program), "client"]


@pytest.mark.parametrize(("scenario", "version"), SCENARIOS)
def test_a_scenario_of_the_suite_passes_without_warnings(
    scenario: str, version: str, suite: list[str], tmp_path: Path
) -> None:
    client = shlex.join(program_line(Path(__file__).with_name("conformance_client.py")))
    chosen = ["--scenario", scenario, *(["--spec-version", version] if version else [])]
    argv = [*suite, "--command", client, *chosen, "--timeout", "60000", "-o", str(tmp_path)]
    # Without what an interpreter reads when it starts: this one has been started.
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_"))}
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, env={**given, "LANG": "C.UTF-8"})
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert re.search(r"Passed: [1-9]\d*/\d+, 0 failed, 0 warnings", said), said
