"""`openskills serve`: how it starts, what it says, and what it refuses.

`keys`: make, list, revoke.

`runs`: what a host has done.
"""

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from openskills.host.auth import KeyRing, read_keys
from openskills.host.history import History, RunRecord
from openskills.host.server import open_socket
from openskills.sync import run
from tests.catalog.sources.web_server import Page, serving
from tests.cli.command import Command
from tests.conftest import RequireProgram
from tests.host.host_process import host_process, write_skills
from tests.host.hosting import eventually
from tests.host.results import record, refused, succeeded
from tests.long_form import LONG


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
    assert "authentication: off (this machine only)" in said
    assert host.errors.read_text().endswith("stopped\n")


def test_json_log_gets_a_line_for_each_invocation(tmp_path: Path) -> None:
    with host_process(tmp_path, "--json-log", "access.jsonl") as host:
        host.invoke("echo", {"text": "a"}, headers={"X-Trace-Id": "t-1"})
        eventually(lambda: (tmp_path / "access.jsonl").stat().st_size > 0)
    assert json.loads((tmp_path / "access.jsonl").read_text())["trace_id"] == "t-1"
    assert host.output.read_bytes() == b""


def test_a_terminal_gets_readable_lines_and_json_when_asked(new_openskills: Command) -> None:
    (new_openskills.cwd / "skills_cli").mkdir()
    echo = new_openskills.cwd / "skills_cli" / "echo.py"
    echo.write_text("import json, sys\nprint(json.dumps(json.load(sys.stdin)['input']))\n")
    for more, status in (
        ((), r"\d\d:\d\d:\d\d  200  echo +[\d.]+ ms  anonymous  t-1\n"),
        (("--json-log", "-"), r'"trace_id":"t-1"'),
    ):
        serve = ("serve", "--port", "0", "--executor", "local", *more)
        with new_openskills.begun(*serve) as terminal:
            terminal.wait_for("try: ")
            url = re.search(r"http://[\d.:]+", terminal.screen)
            assert url is not None
            httpx2.post(f"{url[0]}/skills/echo:invoke", json={"input": {}}, headers={"X-Trace-Id": "t-1"}, timeout=60)
            while not re.search(status, terminal.screen):
                assert terminal.more()
            terminal.terminate()
            assert terminal.finish().code == 0


def test_a_folder_can_be_an_argument(tmp_path: Path) -> None:
    skill = tmp_path / "folders" / "shout"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: shout\ndescription: Shouts. Use when asked.\n---\n")
    (skill / "manifest.yaml").write_text("id: shout\ntype: cli\nruntime: python\nentry: scripts/shout.py\n")
    (skill / "scripts" / "shout.py").write_text("import json, sys\nprint(json.dumps(json.load(sys.stdin)['input']))\n")
    with host_process(tmp_path, "folders") as host:
        assert "ready       shout" in host.errors.read_text()


def test_scripts_of_folders_are_served_and_what_is_not_is_said_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "word-tools"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: word-tools\ndescription: Counts words.\n---\nBody.\n")
    (folder / "scripts" / "helper.py").write_text("def f(): pass\n")
    (folder / "scripts" / "count.py").write_text("import sys\nprint(len(open(sys.argv[1]).read().split()))\n")
    (folder / "scripts" / "count_all_words.py").write_text("print(1)\n")
    with host_process(tmp_path, "--skills", str(tmp_path / "skills")) as host:
        found = host.invoke("word-tools.count", {"args": ["a.txt"], "files": {"a.txt": "one two"}}).json()
        listed = host.client.get("/skills").json()["data"]
        tools = host.client.get("/tools?format=anthropic").json()["data"]["tools"]
    said = host.errors.read_text()
    assert re.search(r"ready +word-tools.count +cli:script +none +\[derived\] scripts/count.py of the skill", said)
    assert len({line.index(" cli:script ") for line in said.splitlines() if " cli:script " in line}) == 1
    assert "not served  word-tools: scripts/helper.py: it only defines names for other scripts" in said
    assert (found["success"], found["data"]["stdout"]) == (True, "2\n")
    assert {one["id"]: one["derived"] for one in listed["skills"]}["word-tools.count"] == "default"
    reason = "it only defines names for other scripts"
    assert listed["not_served"] == [{"skill": "word-tools", "script": "scripts/helper.py", "reason": reason}]
    assert "word-tools--count" in [tool["name"] for tool in tools]
    assert any(line["runner_type"] == "cli:script" for line in host.lines())


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
    for _ in range(3 if LONG else 1):
        with subprocess.Popen(line, cwd=new_openskills.cwd, env=variables, stderr=subprocess.PIPE) as host:
            assert host.stderr is not None
            for said in host.stderr:
                if b" on http://" in said:
                    break
            host.send_signal(number)
            # By itself; or by the signal, as long as there is nothing to be ended well.
            assert host.wait(60) in {0, -number, 128 + number}


def test_a_port_that_is_taken_ends_it_with_what_to_do(openskills: Command) -> None:
    with open_socket("127.0.0.1", 0) as taken:
        ran = openskills("serve", "--port", str(taken.getsockname()[1]))
    assert (ran.code, ran.out) == (2, "")
    assert "is in use on 127.0.0.1; use another, or --port 0" in ran.err


def test_it_does_not_listen_to_everybody_without_keys(openskills: Command) -> None:
    ran = openskills("serve", "--host", "0.0.0.0", "--port", "0")
    assert ran.code == 2
    assert "openskills keys new" in ran.err
    assert "--no-auth" in ran.err


@pytest.mark.parametrize(
    "arguments", [["--workers", "0"], ["--port", "70000"], ["--manifests", "nowhere"], ["--derive-schemas", "yes"]]
)
def test_wrong_usage_is_reported(openskills: Command, arguments: list[str]) -> None:
    ran = openskills("serve", "--port", "0", *arguments)
    assert ran.code == 2
    assert arguments[0] in ran.err


def test_the_help_teaches_by_examples(openskills: Command) -> None:
    ran = openskills("serve", "--help")
    assert ran.code == 0
    assert "openskills serve --port 9000" in ran.out
    assert "openskills.host.app:app" in ran.out


def path_of(openskills: Command) -> Path:
    return openskills.home / ".config" / "openskills" / "keys.json"


def test_a_new_key_is_printed_alone_so_that_a_shell_can_take_it(openskills: Command) -> None:
    ran = openskills("keys", "new", "ci")
    assert ran.code == 0
    key = ran.out.removesuffix("\n")
    assert "not shown again" in ran.err
    assert key not in ran.err
    assert KeyRing(path_of(openskills)).authenticate(f"Bearer {key}").name == "ci"
    assert path_of(openskills).stat().st_mode & 0o777 == 0o600


def test_what_a_key_may_do_is_kept_and_listed(openskills: Command) -> None:
    limits = ("--limit", "rate=2.5", "--limit", "burst=9", "--limit", "concurrency=2", "--expires", "30d")
    made = openskills("keys", "new", "partner", "--scope", "file_*", "--scope", "echo", *limits, "--json").json
    assert made["key"].startswith(made["begins"])
    (kept,) = read_keys(path_of(openskills))
    assert (kept.scopes, kept.rate_per_second, kept.burst, kept.concurrency) == (("file_*", "echo"), 2.5, 9, 2)
    (line,) = openskills("keys", "list").lines
    name, begins, scopes, said, created, expires, role = line.split("\t")
    assert (name, begins, scopes, role) == ("partner", kept.hint, "file_* echo", "run")
    assert said == "2.5/s, burst 9, 2 concurrent"
    assert (created, expires) == (kept.created, kept.expires)
    listed = openskills("keys", "list", "--json")
    assert listed.json["keys"] == [{key: value for key, value in made.items() if key != "key"}]
    assert made["key"] not in listed.out


def test_a_person_sees_which_keys_end(openskills: Command) -> None:
    openskills("keys", "new", "old", "--expires", "0s")
    openskills("keys", "new", "lasting")
    shown = openskills.on_terminal("keys", "list").lines
    assert [line.split()[-2] for line in shown[-2:]] == ["expired", "never"]


def test_a_revoked_key_is_gone(openskills: Command) -> None:
    key = openskills("keys", "new", "ci").out.strip()
    openskills("keys", "new", "other")
    assert openskills("keys", "revoke", "ci").out == "revoked ci\n"
    assert [line.split("\t")[0] for line in openskills("keys", "list").lines] == ["other"]
    assert key[8:] not in path_of(openskills).read_text()
    assert openskills("keys", "revoke", "other", "--json").json == {"revoked": ["other"]}
    again = openskills("keys", "revoke", "ci")
    assert (again.code, again.err) == (
        2,
        "error: name: unknown key 'ci'; `openskills keys list` shows all keys\n",
    )


def test_without_keys_there_is_a_hint(openskills: Command) -> None:
    ran = openskills("keys", "list")
    assert (ran.code, ran.out, ran.err) == (0, "", "no keys; `openskills keys new NAME` creates one\n")
    assert openskills("keys", "list", "--json").json == {"keys": []}


def test_wrong_values_are_named(openskills: Command) -> None:
    openskills("keys", "new", "ci")
    for arguments, said in (
        (("ci",), "a key named 'ci' exists"),
        (("two words",), "invalid key name"),
        (("a", "--limit", "rate=0"), "rate_per_second: 0.0 is out of range"),
        (("a", "--limit", "calls=1"), "unknown limit 'calls'; use NAME=N with one of rate_per_second, burst"),
        (("a", "--limit", "burst=1.5"), "'burst=1.5': expected a number after ="),
        (("a", "--scope", "x y"), "scope: invalid scope 'x y'"),
        (("a", "--expires", "soon"), "--expires: invalid duration 'soon'"),
    ):
        ran = openskills("keys", "new", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err


def test_the_file_can_be_elsewhere(openskills: Command, tmp_path: Path) -> None:
    openskills("keys", "new", "ci", OPENSKILL_HOST_KEYS=str(tmp_path / "mine.json"))
    assert [key.name for key in read_keys(tmp_path / "mine.json")] == ["ci"]


@pytest.fixture
def records(openskills: Command) -> list[RunRecord]:
    """Three invocations, the first more than an hour ago."""
    now = time.time()
    found = [
        record(succeeded("calculator"), began=now - 4_000),
        record(refused("echo"), began=now - 100)._replace(message="bad\x1b[2J\ttext"),
        record(succeeded("echo"), began=now - 10)._replace(input=b'{"input": {}}', output=b"{}"),
    ]

    async def write() -> None:
        history = History(openskills.home / ".local" / "state" / "openskills" / "host.db")
        for one in found:
            history.record(one)
        await history.close()

    run(write())
    return found


def ids(lines: list[str]) -> list[str]:
    return [line.split("\t")[0] for line in lines]


def test_the_latest_come_first(openskills: Command, records: list[RunRecord]) -> None:
    lines = openskills("runs", "list").lines
    assert ids(lines) == [one.id for one in records[::-1]]
    assert lines[1].split("\t")[2:] == [
        "echo",
        "cli:python",
        "ci",
        "400",
        "1.0",
        "trace-2",
        "bad\\x1b[2J text",
    ]


def test_some_can_be_chosen(openskills: Command, records: list[RunRecord]) -> None:
    old, failed, last = (one.id for one in records)
    assert ids(openskills("runs", "list", "--skill", "calculator").lines) == [old]
    assert ids(openskills("runs", "list", "--failed").lines) == [failed]
    assert ids(openskills("runs", "list", "--since", "1h").lines) == [last, failed]
    assert ids(openskills("runs", "list", "--limit", "1").lines) == [last]
    nothing = openskills("runs", "list", "--skill", "calculator", "--failed")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no runs found\n")


def test_programs_get_json(openskills: Command, records: list[RunRecord]) -> None:
    listed = openskills("runs", "list", "--json", "--limit", "2").json["runs"]
    assert [one["id"] for one in listed] == [records[2].id, records[1].id]
    assert listed[1]["message"] == "bad\x1b[2J\ttext"
    assert "input" not in listed[0]
    shown = openskills("runs", "show", records[2].id, "--json").json
    assert shown == records[2].to_dict()
    assert (shown["input"], shown["output"]) == ('{"input": {}}', "{}")


def test_one_is_shown_by_how_its_id_begins(openskills: Command, records: list[RunRecord]) -> None:
    lines = openskills("runs", "show", records[1].id[:-3]).lines
    assert f"id: {records[1].id}" in lines
    assert "message: bad\\x1b[2J text" in lines
    several = openskills("runs", "show", "run_")
    assert (several.code, "several runs start with" in several.err) == (2, True)
    missing = openskills("runs", "show", "run_x")
    assert (missing.code, "unknown run 'run_x'" in missing.err) == (1, True)


def test_a_person_sees_a_table(openskills: Command, records: list[RunRecord]) -> None:
    heading, *lines = openskills.on_terminal("runs", "list", columns=160).lines
    assert heading.split() == ["run", "began", "skill", "runner", "who", "code", "ms", "message"]
    assert len(lines) == len(records)


def test_a_disabled_history_is_reported(openskills: Command, tmp_path: Path) -> None:
    ran = openskills("runs", "list", OPENSKILL_HOST_HISTORY="off")
    assert (ran.code, "OPENSKILL_HOST_HISTORY: is `off`" in ran.err) == (2, True)
    elsewhere = openskills("runs", "list", OPENSKILL_HOST_HISTORY=str(tmp_path / "none.db"))
    assert (elsewhere.code, elsewhere.out) == (0, "")
    assert not (tmp_path / "none.db").exists()


def test_wrong_times_are_named(openskills: Command) -> None:
    ran = openskills("runs", "list", "--since", "yesterday")
    assert (ran.code, "--since: invalid duration 'yesterday'" in ran.err) == (2, True)


PROBE = """\
import json, os, sys, urllib.request
url = json.load(sys.stdin)["input"].get("url")
try:
    page = url and urllib.request.urlopen(url, timeout=20).read().decode()
except OSError as error:
    page = type(error).__name__
names = ("COLOUR", "SHAPE", "OPENSKILL_TIMEOUT_MS")
data = {**{name: os.environ.get(name) for name in names}, "token": len(os.environ.get("TOKEN", "")), "page": page}
print(json.dumps({"success": True, "data": data}))
"""


@pytest.mark.parametrize("runner", ["python", "exec"])
def test_scripts_get_what_options_and_the_project_file_grant(
    tmp_path: Path, require_program: RequireProgram, runner: str
) -> None:
    require_program("bwrap")
    tmp_path.chmod(0o755)
    skills = tmp_path / "skills_cli"
    skills.mkdir()
    for name in ("probe", "other"):
        (skills / f"{name}.py").write_text(f"#!{sys.executable}\n{PROBE}")
        (skills / f"{name}.py").chmod(0o755)
        kind = f"type: cli\nruntime: {runner}\nentry: ./skills_cli/{name}.py\n"
        (skills / f"{name}.yaml").write_text(
            f"id: {name}\n{kind}timeout_ms: 60000\nenv: {{COLOUR: green, SHAPE: round}}\n"
        )
    with serving() as web:
        web.pages["/"] = Page(b"reached")
        (tmp_path / "openskills.toml").write_text(
            f'[skills.probe]\nnetwork = ["{web.url.removeprefix("http://")}"]\nsecrets = ["TOKEN"]\ntimeout = 40\n'
            '[skills."*"]\nenvironment = { COLOUR = "red" }\n'
        )
        with host_process(
            tmp_path, "--trust", "--env", "SHAPE=square", "--executor", "sandbox", TOKEN="hunter2"
        ) as host:
            found = {name: host.invoke(name, {"url": web.url}).json() for name in ("probe", "other")}
    assert found["probe"]["data"] == {
        "COLOUR": "red",
        "SHAPE": "square",
        "OPENSKILL_TIMEOUT_MS": "40000",
        "token": 7,
        "page": "reached",
    }
    assert found["other"]["data"] == {
        **found["probe"]["data"],
        "OPENSKILL_TIMEOUT_MS": "60000",
        "token": 0,
        "page": "URLError",
    }
    assert "hunter2" not in host.output.read_text() + host.errors.read_text()


def test_the_timeout_of_the_command_line_limits_every_manifest(tmp_path: Path) -> None:
    write_skills(tmp_path)
    folder = tmp_path / "folders" / "own"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: own\ndescription: Waits. Use when asked.\n---\n")
    (folder / "manifest.yaml").write_text("type: cli\nruntime: python\nentry: scripts/own.py\ntimeout_ms: 600000\n")
    (folder / "scripts" / "own.py").write_text(PROBE)
    (tmp_path / "skills_cli" / "short.yaml").write_text(
        "id: short\ntype: cli\nruntime: python\nentry: ./skills_cli/short.py\ntimeout_ms: 1000\n"
    )
    (tmp_path / "skills_cli" / "short.py").write_text(PROBE)
    (tmp_path / "openskills.toml").write_text('[skills.own]\ntimeout = "1h"\n')
    with host_process(tmp_path, "folders", "--timeout", "20", "--trust") as host:
        found = {name: host.invoke(name, {}).json()["data"]["OPENSKILL_TIMEOUT_MS"] for name in ("own", "short")}
        said = host.errors.read_text()
    assert found == {"own": "20000", "short": "1000"}
    assert "600,000 is above the limit of the host and lowered to 20,000" in said


def test_runs_of_a_host_are_followed_cancelled_repeated_compared_and_counted(openskills: Command) -> None:
    with host_process(openskills.home) as host:
        invoke = {"input": {"text": "one"}}
        first = host.client.post("/skills/echo:invoke?mode=async", json=invoke).json()["data"]["id"]
        followed = openskills("runs", "events", first, "--json")
        assert followed.code == 0
        events = [json.loads(line) for line in followed.lines]
        assert [event["id"] for event in events] == list(range(1, len(events) + 1))
        assert events[-1]["data"]["data"] == {"echoed": "one"}
        second = openskills("runs", "again", first, "--url", host.url).out.strip()
        assert openskills("runs", "events", second).code == 0
        compared = openskills("runs", "compare", first, second, "--json").json
        assert "result" not in {one["field"] for one in compared["differences"] if one["a"] == one["b"]}
        slow = {"input": {"folder": str(host.folder)}}
        waiting = host.client.post("/skills/slow:invoke?mode=async", json=slow).json()["data"]["id"]
        eventually(lambda: waiting in ids(openskills("runs", "list", "--state", "unfinished").lines))
        assert openskills("runs", "cancel", waiting).out == f"cancelling {waiting}\n"
        assert openskills("runs", "events", waiting).code == 1
        assert openskills("runs", "cancel", waiting).out == f"{waiting} has ended: cancelled\n"
        eventually(lambda: len(openskills("runs", "list").lines) == 3)
        series = openskills("runs", "stats", "--since", "1h", "--buckets", "2", "--json").json["series"]
        assert [one["calls"] for one in series] == [0, 3]
        assert [one["errors"] for one in series] == [0, 1]
        assert series[1]["p50_ms"] <= series[1]["p95_ms"]
        assert len(openskills("runs", "stats", "--buckets", "3").lines) == 3
        unknown = openskills("runs", "events", "run_nothing")
        assert (unknown.code, "unknown run" in unknown.err) == (1, True)
        assert openskills("runs", "list", "--state", "odd").code == 2
        missing = openskills("runs", "again", "run_nothing", "--url", host.url)
        assert (missing.code, "unknown run" in missing.err) == (1, True)
