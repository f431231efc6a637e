"""Where an invocation goes, and how it is told."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from openskills.cli.invoking import Manner, Place, Wanted, manner_of, opened, perform
from openskills.errors import HostUnavailable, InvalidArgument
from openskills.host.calling.client import Client
from openskills.settings import Settings
from tests.cli.command import Command
from tests.conftest import RequireProgram
from tests.host.scripted_server import as_json, event, events, failure, normal, scripted

Capture = pytest.CaptureFixture[str]
SETTINGS = Settings.from_env({})
NOBODY = Place("http://127.0.0.1:1")
SKILL = """\
import json, sys
given = json.load(sys.stdin)["input"]
print("on my way", file=sys.stderr)
data = {"greeting": "hello " + given["name"]}
print(json.dumps({"success": True, "data": data, "error": None}))
"""


def test_json_and_streams_decide_how_it_is_told() -> None:
    assert manner_of(None, as_json=True) is Manner.JSON
    assert manner_of(True, as_json=True) is Manner.JSON_LINES
    assert manner_of(True, as_json=False) is Manner.LIVE
    assert manner_of(False, as_json=False) is Manner.RESULT


def test_a_place_is_checked_before_anything_happens() -> None:
    for timeout in (0.0, -1.0, float("nan"), 1e9):
        with pytest.raises(InvalidArgument, match="--timeout"):
            Place(timeout=timeout)
    with pytest.raises(InvalidArgument, match="--local"):
        Place("http://127.0.0.1:8000", local=True)


def test_a_place_with_a_url_has_a_client_for_it() -> None:
    client = opened(Place("http://127.0.0.1:9/"), SETTINGS)
    assert isinstance(client, Client)
    assert client.base_url == "http://127.0.0.1:9"


@pytest.mark.parametrize(("reply", "code"), [(as_json(normal()), 0), (failure(500, "boom"), 1)])
def test_the_exit_code_says_whether_the_skill_succeeded(capsys: Capture, reply: object, code: int) -> None:
    with scripted() as host:
        host.replies["POST /skills/echo:invoke"] = [reply]  # pyright: ignore[reportArgumentType]
        for manner in (Manner.RESULT, Manner.JSON):
            assert perform(Wanted("echo", {}, manner=manner), Place(host.url), SETTINGS) == code
    capsys.readouterr()


def test_events_are_told_as_they_come(capsys: Capture) -> None:
    with scripted() as host:
        host.on_invoke(events(event("stdout", {"text": "hi"}), event("result", normal())), verb="stream")
        assert perform(Wanted("echo", {}, manner=Manner.JSON_LINES), Place(host.url), SETTINGS) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [line["event"] for line in lines] == ["stdout", "result"]
        assert perform(Wanted("echo", {}, manner=Manner.LIVE), Place(host.url), SETTINGS) == 0
        assert capsys.readouterr().err.startswith("hi\ndone: echo")


@pytest.mark.parametrize("manner", [Manner.JSON, Manner.JSON_LINES])
def test_programs_hear_as_a_result_what_kept_it_from_being_invoked(capsys: Capture, manner: Manner) -> None:
    with pytest.raises(HostUnavailable):
        perform(Wanted("echo", {}, manner=manner), NOBODY, SETTINGS)
    said = json.loads(capsys.readouterr().out)
    result = said if manner is Manner.JSON else said["data"]
    assert (result["success"], result["error"]["code"], len(result["trace_id"])) == (False, 503, 32)


def test_without_the_extra_it_is_said_how_to_install_it() -> None:
    program = (
        "import sys\n"
        "sys.modules['orjson'] = None\n"
        "from openskills.cli.main import main\n"
        "sys.exit(main(['invoke', 'echo', '--local']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "pip install 'openskills[host]'" in done.stderr


def write_greet(directory: Path, script: str = SKILL) -> None:
    for name in ("skills_cli", "data"):
        (directory / name).mkdir()
    (directory / "skills_cli" / "greet.py").write_text(script, "utf-8")


def test_a_script_of_this_directory_runs_without_a_host(openskills: Command, require_program: RequireProgram) -> None:
    require_program("bwrap")
    write_greet(openskills.cwd)
    ran = openskills("invoke", "greet", "--local", "--stream", "--input", '{"name": "Ada"}')
    assert (ran.code, ran.json) == (0, {"greeting": "hello Ada"})
    assert "on my way" in ran.err


def test_a_timeout_ends_a_script_without_a_host(openskills: Command, require_program: RequireProgram) -> None:
    require_program("bwrap")
    write_greet(openskills.cwd, "import time\ntime.sleep(600)\n")
    ran = openskills("invoke", "greet", "--local", "--timeout", "2")
    assert ran.code == 1
    assert "greet took longer than 2 seconds" in ran.err
