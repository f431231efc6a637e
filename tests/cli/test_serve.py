"""`openskills serve`: how it starts, what it says, and what it refuses."""

import json
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from openskills.host.serving import listening
from tests.cli.command import Command
from tests.host.host_process import host_process
from tests.host.hosting import eventually


def test_the_line_to_try_works_as_it_stands(tmp_path: Path) -> None:
    with host_process(tmp_path) as host:
        (line,) = (line for line in host.errors.read_text().splitlines() if line.startswith("try: "))
        done = subprocess.run(shlex.split(line.removeprefix("try: ")), capture_output=True, timeout=60, check=True)
    assert json.loads(done.stdout)["data"] == {"echoed": "hello"}


def test_it_says_what_is_served_what_is_not_and_that_no_key_is_needed(tmp_path: Path) -> None:
    (tmp_path / "skills_cli").mkdir()
    (tmp_path / "skills_cli" / "broken.yaml").write_text("id: broken\ntype: cli\nruntime: python\nentry: nowhere.py\n")
    with host_process(tmp_path) as host:
        said = host.errors.read_text()
    assert "ready       echo" in said
    assert "broken      broken" in said
    assert "nowhere.py" in said
    assert "serving 2 skills on http://127.0.0.1:" in said
    assert "no key is needed (this machine only)" in said
    assert host.errors.read_text().endswith("stopped\n")


def test_a_line_for_each_invocation_goes_where_it_is_told(tmp_path: Path) -> None:
    with host_process(tmp_path, "--json-log", "access.jsonl") as host:
        host.invoke("echo", {"text": "a"}, headers={"X-Trace-Id": "t-1"})
        eventually(lambda: (tmp_path / "access.jsonl").stat().st_size > 0)
    assert json.loads((tmp_path / "access.jsonl").read_text())["trace_id"] == "t-1"
    assert host.output.read_bytes() == b""


def test_more_manifests_can_be_given(tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "second.yaml").write_text("id: second\ntype: cli\nruntime: python\nentry: ./skills_cli/echo.py\n")
    with host_process(tmp_path, "--manifests", "more") as host:
        assert host.invoke("second", {"text": "a"}).json()["data"] == {"echoed": "a"}


def test_limits_can_be_given(tmp_path: Path) -> None:
    with host_process(tmp_path, "--concurrency", "1", "--queue", "0") as host:
        run = {"folder": str(host.folder)}
        host.client.post("/skills/slow:invoke?mode=async", json={"input": run})
        eventually(lambda: bool(host.children()))
        answer = host.invoke("echo", {"text": "a"})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_however_early_it_is_asked_to(new_openskills: Command, number: int) -> None:
    line, variables = new_openskills.line(["serve", "--port", "0"]), new_openskills.variables({})
    for _ in range(3):
        with subprocess.Popen(line, cwd=new_openskills.cwd, env=variables, stderr=subprocess.PIPE) as host:
            assert host.stderr is not None
            for said in host.stderr:
                if b" on http://" in said:
                    break
            host.send_signal(number)
            # By itself; or by the signal, as long as there is nothing to be ended well.
            assert host.wait(60) in {0, -number, 128 + number}


def test_a_port_that_is_taken_ends_it_with_what_to_do(openskills: Command) -> None:
    with listening("127.0.0.1", 0) as taken:
        ran = openskills("serve", "--port", str(taken.getsockname()[1]))
    assert (ran.code, ran.out) == (2, "")
    assert "is in use on 127.0.0.1; use another, or --port 0" in ran.err


def test_it_does_not_listen_to_everybody_without_keys(openskills: Command) -> None:
    ran = openskills("serve", "--host", "0.0.0.0", "--port", "0")
    assert ran.code == 2
    assert "openskills keys new" in ran.err
    assert "--no-auth" in ran.err


@pytest.mark.parametrize("arguments", [["--workers", "0"], ["--port", "70000"], ["--manifests", "nowhere"]])
def test_wrong_usage_is_told(openskills: Command, arguments: list[str]) -> None:
    ran = openskills("serve", "--port", "0", *arguments)
    assert ran.code == 2
    assert arguments[0] in ran.err


def test_the_help_teaches_by_examples(openskills: Command) -> None:
    ran = openskills("serve", "--help")
    assert ran.code == 0
    assert "openskills serve --port 9000" in ran.out
    assert "openskills.host.app:app" in ran.out
