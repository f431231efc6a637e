"""Programs of others, run by Node: the conformance suite and the Inspector for MCP, and `npx skills`."""

import atexit
import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "npm_oracles.sh"
_PACKAGES = "node_modules/@modelcontextprotocol"
TIMEOUT = 120


@dataclass(frozen=True)
class Oracles:
    """The installed programs; `conformance` and `inspect` run them in `directory`, with an empty home."""

    node: str
    installed: Path
    directory: Path
    compiled: Path
    """Where Node keeps what it has compiled, so that it starts faster."""

    def conformance(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run(f"{_PACKAGES}/conformance/dist/index.js", *arguments)

    def inspect(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run(f"{_PACKAGES}/inspector/clients/launcher/build/index.js", "--cli", *arguments)

    def skills(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`npx skills`, which must not report to its makers."""
        return self._run("node_modules/skills/bin/cli.mjs", *arguments, DISABLE_TELEMETRY="1", **environment)

    def _run(self, program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.node, str(self.installed / program), *arguments],
            cwd=self.directory,
            env={
                "HOME": str(self.directory),
                "PATH": f"{Path(self.node).parent}:/usr/bin:/bin",
                "NODE_COMPILE_CACHE": str(self.compiled),
                **environment,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )


@cache
def _ask_script(option: str) -> str:
    return subprocess.run([SCRIPT, option], capture_output=True, text=True, check=True).stdout.strip()


@cache
def _compiled() -> Path:
    directory = TemporaryDirectory(prefix="openskills-compiled-")
    atexit.register(directory.cleanup)
    return Path(directory.name)


@pytest.fixture
def oracles(tmp_path: Path) -> Oracles:
    """The programs that `make test` installs. Where they are missing the test is skipped; in CI it fails."""
    node, found = (_ask_script(option) for option in ("--node", "--directory"))
    if not Path(found, "complete").exists():
        reason = "needs npm packages; install them with scripts/npm_oracles.sh"
        if os.environ.get("CI") == "true" and os.environ.get("NPM_ORACLES") != "none":
            pytest.fail(f"{reason} (CI=true, so this is a failure and not a skip)")
        pytest.skip(reason)
    return Oracles(node, Path(found), tmp_path, _compiled())
