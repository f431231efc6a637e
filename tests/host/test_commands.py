"""Commands of skills in the workspaces of callers, over HTTP, in a real sandbox."""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from openskills.cli.ui import create_link
from openskills.errors import TooManyRequests
from openskills.host.auth import Principal
from openskills.host.client.client import Client
from openskills.host.commands import HostCommands
from openskills.host.http import new_trace
from openskills.host.parts import HostOptions, open_parts
from openskills.host.runs import AsyncRunLimits, Runs
from openskills.project import SkillGrants
from openskills.settings import Settings
from tests.conftest import RequireProgram
from tests.host.host_process import host_process, variables
from tests.host.hosting import FunctionTable, Served, eventually, key_in, revoke_key, served, settings_in

SCRIPT = """\
import sys, time
print("\\x1b[32mreading\\x1b[0m", flush=True)
print("careful", file=sys.stderr, flush=True)
name = input("name? ")
print(f"hello {name}")
open("out/report.md", "w").write(f"# {name}\\n")
"""
MENU = """\
import sys
sys.stdout.write("\\x1b[?1049h\\x1b[2J\\x1b[3;5Hchoose one\\x1b[4;5H> ")
sys.stdout.flush()
answer = sys.stdin.readline().strip()
sys.stdout.write(f"\\x1b[5;5Hyou chose {answer}")
sys.stdout.flush()
sys.stdin.readline()
"""


def add_skill(folder: Path, name: str, **scripts: str) -> None:
    skill = folder / name
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Greets people.\n---\nRun scripts/greet.py.\n")
    for script, text in scripts.items():
        (skill / "scripts" / f"{script}.py").write_text(text)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("commands")
    add_skill(directory / "skills", "greeter", greet=SCRIPT, menu=MENU)
    with served(directory, {}, options=HostOptions(skills=(directory / "skills",), watch=False)) as found:
        yield found


def start(host: Served, command: str, *, workspace: str = "one", skill: str = "greeter", **more: Any) -> str:
    answer = host.client.post(f"/workspaces/{workspace}/commands", json={"skill": skill, "command": command, **more})
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/runs/{answer.json()['data']['id']}"
    return answer.json()["data"]["id"]


def show(host: Served, run_id: str) -> dict[str, Any]:
    return host.client.get(f"/runs/{run_id}").json()["data"]


def finish(host: Served, run_id: str) -> dict[str, Any]:
    eventually(lambda: show(host, run_id)["ended"] is not None and "phases" in show(host, run_id))
    return show(host, run_id)


def read_events(host: Served, run_id: str, after: int = 0) -> list[tuple[int, str, dict[str, Any]]]:
    """All events until the result."""
    found: list[tuple[int, str, dict[str, Any]]] = []
    with host.client.stream("GET", f"/runs/{run_id}/events", params={"after": after}) as answer:
        identity, kind = 0, ""
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                identity = int(value)
            elif name == "event":
                kind = value
            elif name == "data":
                found.append((identity, kind, json.loads(value)))
    return found


def text_of(events: list[tuple[int, str, dict[str, Any]]], kind: str) -> str:
    return "".join(data["text"] for _, found, data in events if found == kind)


def test_a_command_streams_its_output_takes_input_and_leaves_files(host: Served) -> None:
    run_id = start(host, "python scripts/greet.py", interactive=True)
    eventually(lambda: "name? " in text_of(read_written(host, run_id), "stdout"))
    answer = host.client.post(f"/runs/{run_id}:input", json={"text": "Ada\n"})
    assert answer.json()["data"] == {"taken_bytes": 4, "given_bytes": 4}
    ended = finish(host, run_id)
    assert ended["state"] == "succeeded"
    assert ended["isolation"] == "bubblewrap"
    assert list(ended["phases"]) == ["queue", "start", "sandbox", "script", "collect"]
    assert ended["memory_bytes"] is None or ended["memory_bytes"] > 1_000_000
    assert ended["request"] == {
        "skill": "greeter",
        "command": "python scripts/greet.py",
        "interactive": True,
        "workspace": "one",
    }
    assert [one["name"] for one in ended["result"]["data"]["output_files"]] == ["out/report.md"]
    events = read_events(host, run_id)
    assert text_of(events, "stdout") == "\x1b[32mreading\x1b[0m\nname? hello Ada\n"
    assert text_of(events, "stderr") == "careful\n"
    assert events[-1][1] == "result"
    assert [event[0] for event in events] == list(range(1, len(events) + 1))


def read_written(host: Served, run_id: str) -> list[tuple[int, str, dict[str, Any]]]:
    """The events so far, as another reader of the same host finds them."""
    found: list[tuple[int, str, dict[str, Any]]] = []
    with host.client.stream("GET", f"/runs/{run_id}/events", timeout=0.2) as answer:
        kind = ""
        try:
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                kind = value if name == "event" else kind
                if name == "data":
                    found.append((0, kind, json.loads(value)))
        except httpx2.ReadTimeout:
            pass
    return found


def test_a_reader_that_comes_back_gets_what_it_has_missed_and_nothing_twice(host: Served) -> None:
    run_id = start(host, "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done")
    finish(host, run_id)
    everything = read_events(host, run_id)
    assert len(everything) > 3
    later = host.client.get(f"/runs/{run_id}/events", headers={"Last-Event-ID": "2"})
    assert later.text.startswith("id: 3\n")
    assert read_events(host, run_id, after=2) == everything[2:]


def test_a_program_with_a_terminal_shows_its_screen_and_keeps_the_last_one(host: Served) -> None:
    run_id = start(host, "python scripts/menu.py", tty=True, rows=10, columns=40)

    def lines() -> list[str]:
        return (host.client.get(f"/runs/{run_id}/screen").json()["data"]["screen"] or {"lines": [""] * 10})["lines"]

    eventually(lambda: "    choose one" in lines())
    assert len(lines()) == 10
    host.client.post(f"/runs/{run_id}:resize", json={"rows": 12, "columns": 50}).raise_for_status()
    host.client.post(f"/runs/{run_id}:input", json={"text": "two\r"}).raise_for_status()
    eventually(lambda: "    you chose two" in lines())
    assert len(lines()) == 12
    host.client.post(f"/runs/{run_id}:input", json={"text": "\r"}).raise_for_status()
    finish(host, run_id)
    assert "    you chose two" in lines()


def test_a_failed_command_is_a_failed_run_with_its_status_and_output(host: Served) -> None:
    ended = finish(host, start(host, "echo before; exit 3"))
    assert ended["state"] == "failed"
    error = ended["result"]["error"]
    assert (error["message"], error["details"]["exit_code"]) == ("the command exited with status 3", 3)
    assert error["details"]["stdout"] == "before\n"


def test_a_cancelled_command_ends_with_everything_it_has_started(host: Served) -> None:
    run_id = start(host, "echo started; sleep 1000 & sleep 1000")
    eventually(lambda: show(host, run_id)["state"] == "running")
    host.client.post(f"/runs/{run_id}:cancel").raise_for_status()
    ended = finish(host, run_id)
    assert ended["state"] == "cancelled"
    assert host.client.post(f"/runs/{run_id}:input", json={"text": "x"}).status_code == 400


def test_a_command_can_be_run_again_in_the_same_workspace(host: Served) -> None:
    first = start(host, "echo once >> out/log.txt; cat out/log.txt", workspace="again")
    finish(host, first)
    answer = host.client.post(f"/runs/{first}:again")
    assert answer.status_code == 202
    second = answer.json()["data"]["id"]
    assert finish(host, second)["result"]["data"]["stdout"] == "once\nonce\n"
    compared = host.client.get("/runs/compare", params={"a": first, "b": second}).json()["data"]
    assert "result" in {one["field"] for one in compared["differences"]}
    assert "+once" in compared["log"]


def test_files_are_uploaded_listed_used_downloaded_and_removed(host: Served) -> None:
    path = "/workspaces/files/files/work/inputs/naïve name.csv"
    assert host.client.put(path, content=b"a,b\n1,2\n").status_code == 201
    listed = host.client.get("/workspaces/files/files").json()["data"]["files"]
    assert listed == [{"path": "work/inputs/naïve name.csv", "size_bytes": 8}]
    run = finish(host, start(host, "wc -l < 'inputs/naïve name.csv'", workspace="files"))
    assert run["result"]["data"]["stdout"].strip() == "2"
    got = host.client.get(path)
    assert got.content == b"a,b\n1,2\n"
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''na%C3%AFve%20name.csv"
    assert got.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in got.headers["content-security-policy"]
    assert host.client.delete(path).json()["data"] == {"removed": True}
    assert host.client.delete(path).json()["data"] == {"removed": False}


def read_peak_memory(pid: int) -> int:
    """The largest resident size that a process has had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def test_the_memory_of_the_host_does_not_grow_with_the_size_of_a_file(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    add_skill(tmp_path / "skills", "greeter")
    uploaded, sparse = 60 << 20, 400 << 20
    with host_process(tmp_path, "skills", OPENSKILL_EXECUTOR="sandbox") as host:
        host.client.headers["Origin"] = host.url
        link = create_link(Settings.from_env(variables(tmp_path)))
        assert host.client.get("/", params={"token": link}).status_code == 303
        # Everything is imported and opened before the first look.
        host.client.put("/workspaces/one/files/work/small", content=b"x").raise_for_status()
        small = host.client.get("/console/workspaces/one/files/work/small?as=download")
        assert (small.content, small.headers["content-length"]) == (b"x", "1")
        before = read_peak_memory(host.process.pid)
        pieces = (bytes([number]) * (1 << 20) for number in range(60))
        host.client.put("/workspaces/one/files/work/large", content=pieces).raise_for_status()
        body = {"skill": "greeter", "command": f"truncate -s {sparse} out/sparse.bin"}
        run = host.client.post("/workspaces/one/commands", json=body).json()["data"]["id"]
        eventually(lambda: host.client.get(f"/runs/{run}").json()["data"]["ended"] is not None)
        for path, size in {
            "/workspaces/one/files/work/large": uploaded,
            "/console/workspaces/one/files/out/sparse.bin?as=download": sparse,
        }.items():
            with host.client.stream("GET", path) as answer:
                assert answer.headers["content-length"] == str(size)
                assert "attachment" in answer.headers["content-disposition"]
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert sum(map(len, answer.iter_bytes())) == size
            # A reader that goes away in the middle.
            with host.client.stream("GET", path) as answer:
                next(answer.iter_bytes())
        grown = read_peak_memory(host.process.pid) - before
        assert grown < 40 << 20, f"{grown >> 20} MB more for {(uploaded + sparse) >> 20} MB"
        assert host.client.head("/workspaces/one/files/work/large").headers["content-length"] == str(uploaded)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/workspaces/bad/files/work/%2e%2e/%2e%2e/escape", 403),
        ("PUT", "/workspaces/bad/files/skills/greeter/SKILL.md", 400),
        ("PUT", "/workspaces/bad/files/work", 400),
        ("PUT", "/workspaces/bad/files/work/%00", 400),
        ("PUT", "/workspaces/.hidden/files/work/a", 400),
        ("PUT", "/workspaces/bad/files//etc/passwd", 403),
        ("GET", "/workspaces/bad/files/work/missing", 400),
        ("DELETE", "/workspaces/bad/files/out", 400),
    ],
)
def test_names_that_leave_a_workspace_are_refused(host: Served, method: str, path: str, status: int) -> None:
    connection = httpx2.Client(verify=False, base_url=host.url)
    with connection:
        request = connection.build_request(method, "/")
        request.url = request.url.copy_with(raw_path=path.encode())
        assert connection.send(request).status_code == status


def test_a_link_that_leaves_the_workspace_cannot_be_downloaded(host: Served) -> None:
    finish(host, start(host, "ln -s /etc/passwd out/link", workspace="links"))
    assert host.client.get("/workspaces/links/files/out/link").status_code in (400, 403)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"command": "ls"}, "skill"),
        ({"skill": "greeter"}, "command"),
        ({"skill": "greeter", "command": " "}, "command"),
        ({"skill": "greeter", "command": "ls", "inputs": ["host:///etc/passwd"]}, "unknown field"),
        ({"skill": "greeter", "command": "ls", "tty": True, "rows": 100_000}, "rows"),
        ({"skill": "greeter", "command": "ls", "interactive": "yes"}, "interactive"),
        ({"skill": "greeter", "command": "ls", "timeout": 1e9}, "timeout"),
        ([], "JSON object"),
    ],
)
def test_a_bad_command_is_refused_with_its_field(host: Served, body: Any, said: str) -> None:
    answer = host.client.post("/workspaces/one/commands", json=body)
    if answer.status_code == 202:
        # What only the session knows is in the result of the run.
        error = finish(host, answer.json()["data"]["id"])["result"]["error"]
    else:
        assert answer.status_code == 400
        error = answer.json()["error"]
    assert said in error["message"]


def test_an_unknown_skill_is_refused_with_the_nearest_name(host: Served) -> None:
    answer = host.client.post("/workspaces/one/commands", json={"skill": "greter", "command": "ls"})
    assert answer.status_code == 404
    assert "greeter" in answer.json()["error"]["message"]


def test_runs_workspaces_and_skills_of_other_keys_do_not_exist(tmp_path: Path, require_program: RequireProgram) -> None:
    require_program("bwrap")
    add_skill(tmp_path / "skills", "greeter", greet=SCRIPT)
    key, other = key_in(tmp_path, "me"), key_in(tmp_path, "other", scopes=("nothing",))
    with served(tmp_path, {}, options=HostOptions(skills=(tmp_path / "skills",), watch=False)) as host:
        host.client.headers["authorization"] = f"Bearer {key}"
        host.client.put("/workspaces/one/files/work/secret.txt", content=b"secret").raise_for_status()
        run_id = start(host, "cat work/secret.txt")
        finish(host, run_id)
        assert [one["id"] for one in host.client.get("/runs").json()["data"]["runs"]] == [run_id]
        host.client.headers["authorization"] = f"Bearer {other}"
        assert host.client.get("/runs").json()["data"]["runs"] == []
        for path in (f"/runs/{run_id}", f"/runs/{run_id}/events", f"/runs/{run_id}/screen"):
            assert host.client.get(path).status_code == 404
        for verb in ("cancel", "again", "input"):
            assert host.client.post(f"/runs/{run_id}:{verb}", json={}).status_code == 404
        assert host.client.get("/runs/compare", params={"a": run_id, "b": run_id}).status_code == 404
        assert host.client.get("/workspaces/one/files").json()["data"]["files"] == []
        answer = host.client.post("/workspaces/one/commands", json={"skill": "greeter", "command": "ls"})
        assert answer.status_code == 403


def test_two_commands_run_at_the_same_time_in_two_workspaces(host: Served) -> None:
    ids = [start(host, "cat; echo done", workspace=f"w{number}", interactive=True) for number in range(2)]
    eventually(lambda: {show(host, one)["state"] for one in ids} == {"running"})
    listed = host.client.get("/runs", params={"state": "unfinished"}).json()["data"]["runs"]
    assert {one["id"] for one in listed} == set(ids)

    def end(run_id: str) -> None:
        with httpx2.Client(verify=False, base_url=host.url) as client:
            client.post(f"/runs/{run_id}:input", json={"text": "text", "close": True}).raise_for_status()

    threads = [threading.Thread(target=end, args=(one,)) for one in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [finish(host, one)["result"]["data"]["stdout"] for one in ids] == ["textdone\n"] * 2


def test_every_line_of_a_long_output_arrives_in_order(host: Served) -> None:
    run_id = start(host, "seq 1 10000", workspace="long")
    finish(host, run_id)
    assert text_of(read_events(host, run_id), "stdout").split() == [str(number) for number in range(1, 10_001)]


def test_a_host_with_several_workers_refuses_commands_with_the_reason(tmp_path: Path) -> None:
    with served(tmp_path, {}, options=HostOptions(workers=2, watch=False)) as host:
        answer = host.client.post("/workspaces/one/commands", json={"skill": "a", "command": "ls"})
        assert answer.status_code == 503
        assert "--workers 1" in answer.json()["error"]["message"]


def test_the_memory_of_a_sandboxed_command_is_that_of_its_processes_or_unknown(host: Served) -> None:
    command = """python -c "data = bytearray(150 * 1024 * 1024); print(len(data))"; sleep 0.5"""
    found = [finish(host, start(host, command, workspace="memory"))["memory_bytes"] for _ in range(3)]
    known = [one for one in found if one is not None]
    assert known
    assert all(150 * 1024 * 1024 < one < 300 * 1024 * 1024 for one in known)


def ask(host: Served, key: str, command: str, workspace: str = "one") -> httpx2.Response:
    headers = {"Authorization": f"Bearer {key}"}
    body = {"skill": "greeter", "command": command}
    return host.client.post(f"/workspaces/{workspace}/commands", json=body, headers=headers)


def read_output(host: Served, key: str, answer: httpx2.Response) -> str:
    headers = {"Authorization": f"Bearer {key}"}
    address = answer.headers["location"]
    eventually(lambda: host.client.get(address, headers=headers).json()["data"]["ended"] is not None)
    result = host.client.get(address, headers=headers).json()["data"]["result"]
    return json.dumps(result)


def test_only_admins_get_what_skills_are_granted(tmp_path: Path, require_program: RequireProgram) -> None:
    require_program("bwrap")
    add_skill(tmp_path / "skills", "greeter", greet=SCRIPT)
    bob, ops = key_in(tmp_path, "bob"), key_in(tmp_path, "ops", role="admin")
    options = HostOptions(skills=(tmp_path / "skills",), watch=False, grants={"*": SkillGrants(secrets=("TOKEN",))})
    with served(tmp_path, {}, options=options, environment={**os.environ, "TOKEN": "abc-secret"}) as host:
        command = "printenv TOKEN | rev"
        assert "terces-cba" not in read_output(host, bob, ask(host, bob, command))
        assert "terces-cba" in read_output(host, ops, ask(host, ops, command))


def test_without_isolation_only_admins_run_commands(tmp_path: Path) -> None:
    add_skill(tmp_path / "skills", "greeter", greet=SCRIPT)
    bob, ops = key_in(tmp_path, "bob"), key_in(tmp_path, "ops", role="admin")
    options = HostOptions(skills=(tmp_path / "skills",), watch=False)
    with served(tmp_path, {}, options=options, executor="local", allow_local=True) as host:
        assert ask(host, bob, "id").status_code == 403
        files = host.client.get("/workspaces/one/files", headers={"Authorization": f"Bearer {bob}"})
        assert files.status_code == 403
        assert ask(host, ops, "id").status_code == 202


def test_one_key_cannot_take_all_slots_and_loses_its_commands_when_it_is_revoked(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    add_skill(tmp_path / "skills", "greeter", greet=SCRIPT)
    bob = key_in(tmp_path, "bob")
    ops = key_in(tmp_path, "ops", role="admin")
    options = HostOptions(skills=(tmp_path / "skills",), watch=False)
    with served(tmp_path, {}, options=options, host_concurrency=4) as host:
        started = [ask(host, bob, "sleep 600", workspace=f"w{number}") for number in range(3)]
        assert [one.status_code for one in started] == [202, 202, 429]
        revoke_key(settings_in(tmp_path).host_keys, "bob")
        headers = {"Authorization": f"Bearer {ops}"}
        for one in started[:2]:
            address = one.headers["location"]
            eventually(lambda address=address: host.client.get(address, headers=headers).json()["data"]["ended"])


def test_a_key_that_only_reads_opens_no_workspace(tmp_path: Path) -> None:
    add_skill(tmp_path / "skills", "greeter", greet=SCRIPT)
    reader = {"Authorization": f"Bearer {key_in(tmp_path, 'reader', role='read')}"}
    options = HostOptions(skills=(tmp_path / "skills",), watch=False)
    with served(tmp_path, {}, options=options) as host:
        assert host.client.get("/workspaces/one/files", headers=reader).status_code == 403
        assert host.client.get("/workspaces/one/files/out/x", headers=reader).status_code == 403


def test_a_key_has_a_limited_number_of_workspaces_and_can_delete_them(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    add_skill(tmp_path / "skills", "greeter")
    keys = {role: {"Authorization": f"Bearer {key_in(tmp_path, role, role=role)}"} for role in ("run", "admin")}
    options = HostOptions(skills=(tmp_path / "skills",), watch=False)
    with served(tmp_path, {}, options=options, host_quota_workspaces=2) as host:

        def put(role: str, workspace: str) -> httpx2.Response:
            return host.client.put(f"/workspaces/{workspace}/files/work/a", content=b"abc", headers=keys[role])

        # Looking at a workspace does not create it.
        assert host.client.get("/workspaces/none/files", headers=keys["run"]).json()["data"] == {"files": []}
        assert host.client.get("/workspaces/none/files/work/a", headers=keys["run"]).status_code == 400
        assert [put("run", name).status_code for name in ("a", "b", "a", "c")] == [201, 201, 201, 403]
        error = put("run", "c").json()["error"]
        assert error["message"].startswith("quota exceeded: 'run' has 2 of 2 workspaces; delete one")
        assert error["details"]["quota"] == "workspaces"
        body = {"skill": "greeter", "command": "sleep 1000"}
        assert host.client.post("/workspaces/c/commands", json=body, headers=keys["run"]).status_code == 403
        form = {"command": "ls", "workspace": "c"}
        page = host.client.post("/console/try/skill/greeter", data=form, headers={**keys["run"], "Origin": host.url})
        assert page.status_code == 403
        assert "2 of 2 workspaces; delete one on the page Try it" in page.text
        listed = host.client.get("/workspaces", headers=keys["run"]).json()["data"]
        assert sorted((one["name"], one["size_bytes"] > 0) for one in listed["workspaces"]) == [
            ("a", True),
            ("b", True),
        ]
        assert listed["max_workspaces"] == 2
        # A workspace in use stays; others are removed with their files.
        run = host.client.post("/workspaces/a/commands", json=body, headers=keys["run"]).json()["data"]["id"]
        assert host.client.delete("/workspaces/a", headers=keys["run"]).status_code == 409
        host.client.post(f"/runs/{run}:cancel", headers=keys["run"]).raise_for_status()
        assert host.client.delete("/workspaces/b", headers=keys["run"]).json()["data"] == {"removed": True}
        assert host.client.delete("/workspaces/b", headers=keys["run"]).json()["data"] == {"removed": False}
        assert put("run", "c").status_code == 201
        assert host.client.get("/workspaces/b/files", headers=keys["run"]).json()["data"] == {"files": []}
        assert [put("admin", name).status_code for name in ("a", "b", "c")] == [201] * 3


def test_the_values_of_variables_are_stored_nowhere(tmp_path: Path, require_program: RequireProgram) -> None:
    require_program("bwrap")
    add_skill(tmp_path / "skills", "greeter")
    options = HostOptions(skills=(tmp_path / "skills",), watch=False)
    with served(tmp_path, {}, options=options, host_history_content=True) as host:
        run_id = start(host, "test $TOKEN = hunter22", env={"TOKEN": "hunter22", "MODE": "fast"})
        run = finish(host, run_id)
        assert run["state"] == "succeeded"
        assert run["request"]["env"] == ["MODE", "TOKEN"]
        again = host.client.post(f"/runs/{run_id}:again")
        assert again.status_code == 400
        assert again.json()["error"]["message"].startswith("env: the values of MODE, TOKEN were not stored; send them")

        async def run_again() -> str:
            async with Client(host.url, settings=settings_in(tmp_path)) as client:
                return (await client.run_again(run_id, env={"TOKEN": "hunter22", "MODE": "slow"})).id

        repeated = asyncio.run(run_again())
        assert finish(host, repeated)["state"] == "succeeded"
        everything = [host.client.get(f"/runs/{one}").text for one in (run_id, repeated)]
        everything += [json.dumps(read_events(host, one)) for one in (run_id, repeated)]
        assert all("TOKEN" in text for text in everything[:2])
        assert not any("hunter22" in text.replace("$TOKEN = hunter22", "") for text in everything)
    stored = [path for path in tmp_path.rglob("*") if path.is_file() and "skills" not in path.parts]
    assert any(path.name.startswith("host.db") for path in stored)
    for path in stored:
        assert b"hunter22" not in path.read_bytes().replace(b"$TOKEN = hunter22", b""), path


async def test_a_command_that_could_not_be_started_does_not_occupy_its_workspace(tmp_path: Path) -> None:
    add_skill(tmp_path / "skills", "greeter", greet=SCRIPT)
    settings = settings_in(tmp_path, executor="local", allow_local=True)
    options = HostOptions(skills=(tmp_path / "skills",), json_log="", watch=False)
    parts = await open_parts(settings, options, FunctionTable({}))
    full = Runs(parts.database, AsyncRunLimits(max_live=0))
    commands = HostCommands(settings, parts.commands.options, parts.host, full)
    ada = Principal("ada", role="admin")
    try:
        with pytest.raises(TooManyRequests, match="too many asynchronous runs"):
            await commands.start(ada, "one", {"skill": "greeter", "command": "true"}, new_trace())
        assert not await commands.remove_workspace(ada, "one")
    finally:
        await commands.close()
        await full.close()
        await parts.close()
