"""The skill that says what it was told."""

import json
import subprocess
import sys

import pytest

from tests.skills_cli.calling import ROOT, SKILLS, call


@pytest.mark.parametrize("text", ["hello", "", "你好，世界 🌍", "a\0b", '"\\\n\t', "x" * 100_000])
def test_a_text_comes_back_as_it_was(text: str) -> None:
    assert call("echo", {"text": text}).data == {"echoed": text}


def test_the_trace_id_of_the_host_comes_back() -> None:
    reply = call("echo", {"text": "hello"}, OPENSKILL_TRACE_ID="demo-123", OPENSKILL_SKILL_ID="echo")
    assert (reply.result["trace_id"], reply.result["skill_id"]) == ("demo-123", "echo")


def test_without_a_host_the_id_is_the_name_of_the_file_and_a_trace_id_is_made() -> None:
    first, second = (call("echo", {"text": "x"}).result for _ in range(2))
    assert first["skill_id"] == "echo"
    assert len(first["trace_id"]) == 32
    assert first["trace_id"] != second["trace_id"]


def test_it_needs_no_variable_at_all() -> None:
    done = subprocess.run(
        [sys.executable, SKILLS / "echo.py"], input=b'{"input": {"text": "x"}}', capture_output=True, cwd=ROOT, env={}
    )
    assert json.loads(done.stdout)["data"] == {"echoed": "x"}


def test_a_call_from_a_cold_start_loads_no_heavy_module() -> None:
    script = f"import runpy, sys\ntry: runpy.run_path({str(SKILLS / 'echo.py')!r}, run_name='__main__')\n"
    script += "except SystemExit: print(' '.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], input=b'{"input": {"text": "x"}}', capture_output=True)
    loaded = set(done.stderr.decode().split())
    assert "openskills.skillkit.entry" in loaded
    assert not loaded & {"pydantic", "yaml", "inspect", "dataclasses", "pathlib", "asyncio", "subprocess", "tempfile"}
