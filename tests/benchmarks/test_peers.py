import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.programs import ROOT, evaluated

FOUND = """
import json, sys
from pathlib import Path
from peers import peer_versions, why_missing

bench = Path(sys.argv[1]) / ".bench"
print(json.dumps({"versions": peer_versions(bench, Path(sys.argv[1])), "why": why_missing("running", bench)}))
"""


def install(top: Path, environment: str, name: str, version: str) -> None:
    """What pip leaves of a library by which it is known."""
    folder = top / ".bench" / environment / "lib" / "python3.11" / "site-packages" / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")


def test_versions_are_those_that_are_installed_and_not_those_that_are_pinned(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("deepagents==1.0\nskills-ref==0.1\n")
    (tmp_path / "pydantic_requirements.txt").write_text("pydantic-ai-slim[openai]==2.0\n")
    install(tmp_path, "venv", "deepagents", "1.1")
    install(tmp_path, "pydantic", "pydantic_ai_slim", "2.2")
    found = evaluated(FOUND, tmp_path)["versions"]
    assert (found["deepagents"], found["pydantic-ai-slim"]) == ("1.1", "2.2")
    assert found["skills-ref"] == "not installed: `make peers` installs it where it can"


def test_the_reason_of_a_failed_installation_is_one_short_line(tmp_path: Path) -> None:
    (tmp_path / ".bench").mkdir()
    (tmp_path / ".bench" / "running.reason").write_text("ERROR: no\nmatching " + "x" * 500)
    why = evaluated(FOUND, tmp_path)["why"]
    assert why.startswith("its installation failed: ERROR: no matching xxx")
    assert len(why) < 250
    assert "\n" not in why


@pytest.mark.slow
def test_what_pip_said_last_is_kept_beside_the_environment_without_paths_and_addresses(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(ROOT / "scripts" / "setup.py", tmp_path / "scripts")
    missing = "not-to-be-had @ file:///nowhere/at/all.whl"
    (tmp_path / "benchmarks" / "running_requirements.txt").write_text(f"{missing}\n")
    argv = [sys.executable, "-I", str(tmp_path / "scripts" / "setup.py"), "running-peers"]
    done = subprocess.run(argv, env={**os.environ, "PIP_NO_INDEX": "1"}, capture_output=True, text=True)
    assert done.returncode != 0
    reason = (tmp_path / ".bench" / "running.reason").read_text()
    assert reason.startswith("ERROR: ")
    assert "/nowhere" not in reason
    assert "its installation failed: ERROR: " in evaluated(FOUND, tmp_path)["why"]
