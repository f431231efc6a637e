"""`/mcp` of the host: keys, scopes, limits, sessions that belong to a key, and hostile clients."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
import uvicorn
from fastmcp import Client as FastClient
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from openskills.adapters.mcp.http import McpEndpoint
from openskills.adapters.mcp.server import McpServer
from openskills.catalog import Catalog
from openskills.host.model import Call, Outcome, success_outcome
from openskills.host.parts import HostOptions
from openskills.host.server import open_socket
from openskills.runtime import SkillRuntime
from openskills.runtime.session_pool import LocalCaller
from tests.host.hosting import Served, chatty, echo, eventually, key_in, manifest, revoke_key, served, settings_in
from tests.skill_writer import skill_writer

MODERN = {"MCP-Protocol-Version": "2026-07-28", "Accept": "application/json, text/event-stream"}
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    write = skill_writer(tmp_path, "skills")
    write("report", "Writes reports. Use when asked for one.")
    write("sorter", "Sorts lines. Use when lines are in no order.")
    return tmp_path / "skills"


def options(skills: Path, **more: Any) -> HostOptions:
    return HostOptions(watch=False, skills=(skills,), **more)


@pytest.fixture
def host(tmp_path: Path, skills: Path) -> Iterator[Served]:
    functions = {"echo": echo, "chatty": chatty}
    with served(tmp_path, functions, options=options(skills), executor="local", allow_local=True) as one:
        yield one


@asynccontextmanager
async def connected(host: Served, key: str = "", mode: str = "auto", query: str = "") -> AsyncGenerator[Any]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(verify=False, headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{host.url}/mcp{query}", http_client=http), mode=cast("Any", mode)) as client,
    ):
        yield client


async def say(text: str, _: Call) -> Outcome:
    return success_outcome({"said": text})


def post(host: Served, method: str, headers: dict[str, str] | None = None, **params: Any) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    name = {"Mcp-Name": str(params["name"])} if "name" in params else {}
    return host.client.post("/mcp", json=body, headers={**MODERN, "Mcp-Method": method, **name, **(headers or {})})


async def tool_names(client: Any) -> set[str]:
    return {str(tool.name) for tool in (await client.list_tools()).tools}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_gets_session_tools_and_hosted_skills(host: Served, mode: str) -> None:
    async with connected(host, mode=mode) as client:
        assert {"skill_load", "skill_run", "echo", "chatty"} <= await tool_names(client)
        assert (await client.call_tool("echo", {"text": "hi"})).structured_content == {"echoed": "hi"}
        await client.call_tool("skill_load", {"skill": "report"})
        done = await client.call_tool("skill_run", {"skill": "report", "command": "echo hello"})
        assert done.structured_content["stdout"] == "hello\n"


async def test_the_client_of_fastmcp_works_over_http(host: Served) -> None:
    opened: Any = FastClient(f"{host.url}/mcp")
    async with opened as client:
        result = await client.call_tool("echo", {"text": "hi"})
        assert result.structured_content == {"echoed": "hi"}
        assert "# Body" in (await client.call_tool("skill_load", {"skill": "report"})).content[0].text


async def test_wrong_input_of_a_hosted_skill_is_an_error_result_that_names_the_field(host: Served) -> None:
    async with connected(host) as client:
        failed = await client.call_tool("echo", {"text": 7})
        assert failed.is_error
        assert "input.text" in failed.content[0].text
        assert failed.structured_content["error"]["code"] == 400


async def test_a_tool_runs_the_skill_that_it_was_listed_for(tmp_path: Path, skills: Path) -> None:
    ids = ("beta.a-b", "beta.a_b", "beta__a_b", "be-ta.go", "be_ta.go")
    functions: dict[str, Any] = {one: partial(say, one) for one in ids}
    for one in ids:
        path = manifest(tmp_path, one, f"description: {one}\n")
        path.write_text(path.read_text().replace(f"hosting:{one}", "hosting:echo"))
    with served(tmp_path, functions, options=options(skills), executor="local", allow_local=True) as host:
        async with connected(host) as client:
            listed = {tool.description: tool.name for tool in (await client.list_tools()).tools}
            for one in ids:
                assert (await client.call_tool(listed[one], {})).structured_content == {"said": one}
                for name in (one, listed[one]):
                    answer = host.client.post(f"/skills/{name}:invoke", json={"input": {}}).json()
                    assert answer["data"] == {"said": one}
        refused = host.client.post("/skills/be-ta--go:invoke", json={"input": {}})
        assert refused.status_code == 404
        assert refused.json()["error"]["details"]["near"] == ["be-ta.go", "be_ta.go"]
        limited = {"Authorization": f"Bearer {key_in(tmp_path, scopes=('be_ta.go',))}"}
        eventually(lambda: host.client.post("/skills/be-ta--go:invoke", json={}).status_code == 401)
        hidden = host.client.post("/skills/be-ta--go:invoke", json={"input": {}}, headers=limited)
        assert "be-ta.go" not in hidden.text


async def test_only_hosted_skills_are_tools_if_the_operator_says_so(tmp_path: Path, skills: Path) -> None:
    with served(tmp_path, options=options(skills, mcp_tools="hosted"), executor="local", allow_local=True) as host:
        async with connected(host) as client:
            assert await tool_names(client) == {"echo"}
            assert (await client.read_resource("skill://report/SKILL.md")).contents


async def test_several_workers_have_no_sessions(tmp_path: Path, skills: Path) -> None:
    with served(tmp_path, options=options(skills, workers=2), executor="local", allow_local=True) as host:
        for mode in ("auto", "legacy"):
            async with connected(host, mode=mode) as client:
                assert await tool_names(client) == {"echo"}
                assert (await client.call_tool("echo", {"text": "hi"})).structured_content == {"echoed": "hi"}


def test_the_endpoint_can_be_switched_off(tmp_path: Path, skills: Path) -> None:
    with served(tmp_path, options=options(skills, mcp_tools="off")) as host:
        assert post(host, "tools/list").status_code == 404


def test_without_the_extra_the_adapter_names_it(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError(name='mcp')")
    code = """
from openskills.errors import MissingExtra
from openskills.host.mcp import load_adapter
try:
    load_adapter()
except MissingExtra as error:
    print(error.code, error.message)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("501 ")
    assert "pip install 'openskill-runtime[mcp]'" in done.stdout


def test_a_web_page_from_elsewhere_gets_nothing(host: Served) -> None:
    assert post(host, "tools/list").status_code == 200
    rebound = post(host, "tools/list", {"Host": "evil.example:80", "Origin": "http://evil.example:80"})
    assert rebound.status_code == 421
    for origin in (
        "http://evil.example",
        "null",
        "http://127.0.0.1.evil.example",
        "file://",
        "chrome-extension://x",
        "http://[",
        "app://localhost",
    ):
        refused = post(host, "tools/list", {"Origin": origin})
        assert refused.status_code == 403, origin
        assert "may not use this host" in refused.json()["error"]["message"]
    assert post(host, "tools/list", {"Origin": "http://localhost:6274"}).status_code == 200


def test_a_web_page_cannot_use_a_key_either(host: Served, tmp_path: Path) -> None:
    key = key_in(tmp_path)
    eventually(lambda: post(host, "tools/list").status_code == 401)
    headers = {"Authorization": f"Bearer {key}", "Host": "skills.example", "Origin": "http://evil.example"}
    assert post(host, "tools/list", headers).status_code == 403
    assert post(host, "tools/list", {**headers, "Origin": "https://skills.example"}).status_code == 200


def test_requests_need_a_key_as_everywhere(host: Served, tmp_path: Path) -> None:
    key = key_in(tmp_path)
    eventually(lambda: post(host, "tools/list").status_code == 401)
    refused = post(host, "tools/list")
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert post(host, "tools/list", {"Authorization": "Bearer osk_wrong"}).status_code == 401
    assert post(host, "tools/list", {"Authorization": f"Bearer {key}"}).status_code == 200


async def test_a_key_sees_and_uses_only_what_its_scopes_have(host: Served, tmp_path: Path) -> None:
    reports, echoes = key_in(tmp_path, "reports", scopes=("report",)), key_in(tmp_path, "echoes", scopes=("echo",))
    eventually(lambda: post(host, "tools/list").status_code == 401)
    async with connected(host, reports) as client:
        names = await tool_names(client)
        assert "skill_run" in names
        assert "echo" not in names
        assert client.instructions is not None
        assert "sorter" not in client.instructions
        assert [one.name for one in (await client.list_resources()).resources] == ["report"]
        assert [one.name for one in (await client.list_prompts()).prompts] == ["report"]
        assert (await client.call_tool("skill_load", {"skill": "sorter"})).is_error
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("echo", {"text": "hi"})
        for uri in ("skill://sorter/SKILL.md", "skill://sorter"):
            with pytest.raises(MCPError, match="unknown skill"):
                await client.read_resource(uri)
    async with connected(host, echoes) as client:
        assert await tool_names(client) == {"echo"}
        with pytest.raises(MCPError, match="unknown tool 'skill_run'"):
            await client.call_tool("skill_run", {"skill": "report", "command": "id"})


INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def start_command(host: Served, headers: dict[str, str], path: Path, query: str = "") -> dict[str, str]:
    """Open a connection that starts an interactive command, without `notifications/initialized`."""
    opened = host.client.post(f"/mcp{query}", json=INITIALIZE, headers={**ACCEPT, **headers})
    headers = {**ACCEPT, **headers, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
    command = f"echo $$ > {path}.new; mv {path}.new {path}; sleep 600"
    for name, arguments in (("skill_load", {}), ("skill_exec", {"command": command})):
        params = {"name": name, "arguments": {"skill": "report", **arguments}}
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        assert host.client.post(f"/mcp{query}", json=body, headers=headers).is_success
    eventually(path.exists)
    return headers


@pytest.mark.parametrize("query", ["", "?session=work"])
def test_a_client_that_ends_its_connection_ends_its_commands(host: Served, tmp_path: Path, query: str) -> None:
    headers = start_command(host, {}, tmp_path / "pid", query)
    assert host.client.delete("/mcp", headers=headers).is_success
    eventually(lambda: not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists())


def list_workspaces(directory: Path) -> list[Path]:
    try:
        return [path for path in settings_in(directory).state_dir.glob("workspaces/*/*") if path.is_dir()]
    except FileNotFoundError:  # one was removed meanwhile
        return list_workspaces(directory)


def test_the_workspace_of_a_connection_is_removed_with_it_and_that_of_a_named_session_stays(
    host: Served, tmp_path: Path
) -> None:
    temporary = start_command(host, {}, tmp_path / "first")
    named = start_command(host, {}, tmp_path / "second", "?session=work")
    both = len(list_workspaces(tmp_path))
    assert both
    host.client.delete("/mcp", headers=temporary)
    eventually(lambda: len(list_workspaces(tmp_path)) < both)
    left = len(list_workspaces(tmp_path))
    host.client.delete("/mcp", headers=named)
    eventually(lambda: not Path(f"/proc/{(tmp_path / 'second').read_text().strip()}").exists())
    assert len(list_workspaces(tmp_path)) == left > 0


def test_revoking_a_key_ends_the_commands_of_its_sessions(host: Served, tmp_path: Path) -> None:
    key = key_in(tmp_path, "partner")
    key_in(tmp_path, "other")
    eventually(lambda: post(host, "tools/list").status_code == 401)
    start_command(host, {"Authorization": f"Bearer {key}"}, tmp_path / "pid")
    revoke_key(settings_in(tmp_path).host_keys, "partner")
    eventually(lambda: not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists())


async def test_running_commands_count_against_the_concurrency_of_their_key(host: Served, tmp_path: Path) -> None:
    key = key_in(tmp_path, concurrency=1)
    eventually(lambda: post(host, "tools/list").status_code == 401)
    async with connected(host, key) as client:
        await client.call_tool("skill_load", {"skill": "report"})
        command = {"skill": "report", "command": "cat"}
        first = await client.call_tool("skill_exec", command)
        assert not first.is_error
        second = await client.call_tool("skill_exec", command)
        assert second.is_error
        assert "end one with skill_kill_session" in second.content[0].text
        running = {"session_id": first.structured_content["session_id"]}
        assert not (await client.call_tool("skill_write_stdin", {**running, "chars": "x"})).is_error
        assert not (await client.call_tool("skill_kill_session", running)).is_error
        assert not (await client.call_tool("skill_exec", command)).is_error


def test_requests_that_call_nothing_are_limited_too(host: Served, tmp_path: Path) -> None:
    key = key_in(tmp_path, rate_per_second=0.001, burst=1)
    eventually(lambda: post(host, "tools/list").status_code == 401)
    headers = {"Authorization": f"Bearer {key}"}
    answers = [post(host, "tools/list", headers).json() for _ in range(11)]
    assert [("error" in answer) for answer in answers] == [False] * 10 + [True]
    assert "rate limit" in answers[-1]["error"]["message"]
    assert host.client.post("/mcp", json=INITIALIZE, headers={**ACCEPT, **headers}).status_code == 429


def test_a_client_that_opens_ever_new_connections_loses_its_oldest(host: Served) -> None:
    names = [host.client.post("/mcp", json=INITIALIZE, headers=ACCEPT).headers["mcp-session-id"] for _ in range(65)]
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}

    def ask(name: str) -> int:
        return host.client.post("/mcp", json=ping, headers={**ACCEPT, "Mcp-Session-Id": name}).status_code

    eventually(lambda: ask(names[0]) == 404)
    assert [ask(name) for name in (names[1], names[64])] == [200, 200]


def test_a_handshake_keeps_no_large_body(host: Served) -> None:
    information = {"name": "x" * 100_000, "version": "1"}
    body = {**INITIALIZE, "params": {**INITIALIZE["params"], "clientInfo": information}}
    assert host.client.post("/mcp", json=body, headers=ACCEPT).status_code == 413


async def test_the_session_of_one_key_does_not_exist_for_another(host: Served, tmp_path: Path) -> None:
    mine, yours = key_in(tmp_path, "mine"), key_in(tmp_path, "yours")
    eventually(lambda: post(host, "tools/list").status_code == 401)
    opened = host.client.post("/mcp", json=INITIALIZE, headers={**ACCEPT, "Authorization": f"Bearer {mine}"})
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], **ACCEPT}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    stolen = host.client.post("/mcp", json=ping, headers={**session, "Authorization": f"Bearer {yours}"})
    assert stolen.status_code == 404
    assert host.client.post("/mcp", json=ping, headers={**session, "Authorization": f"Bearer {mine}"}).is_success
    ended = host.client.delete("/mcp", headers={**session, "Authorization": f"Bearer {yours}"})
    assert ended.status_code == 404


async def test_two_keys_have_two_workspaces_and_two_clients_of_one_key_share_one(host: Served, tmp_path: Path) -> None:
    mine, yours = key_in(tmp_path, "mine"), key_in(tmp_path, "yours")
    eventually(lambda: post(host, "tools/list").status_code == 401)
    async with connected(host, mine) as one, connected(host, mine) as two, connected(host, yours) as other:
        await one.call_tool("skill_load", {"skill": "report"})
        commands = [f"echo {number} > out/{number}.txt; cat out/{number}.txt" for number in range(8)]
        calls = (
            client.call_tool("skill_run", {"skill": "report", "command": command})
            for client, command in zip([one, two] * 4, commands, strict=True)
        )
        results = await asyncio.gather(*calls)
        assert [result.structured_content["stdout"] for result in results] == [f"{n}\n" for n in range(8)]
        assert not (await two.call_tool("read_file", {"file_name": "out/0.txt"})).is_error
        await other.call_tool("skill_load", {"skill": "report"})
        assert (await other.call_tool("read_file", {"file_name": "out/0.txt"})).is_error


async def test_a_named_session_is_apart_from_the_others_of_its_key(host: Served) -> None:
    async with connected(host, query="?session=a") as one, connected(host, query="?session=b") as two:
        await one.call_tool("skill_load", {"skill": "report"})
        await one.call_tool("write_file", {"file_name": "work/x", "content": "1"})
        assert (await two.call_tool("read_file", {"file_name": "work/x"})).is_error
    async with connected(host, query="?session=a") as again:
        assert not (await again.call_tool("read_file", {"file_name": "work/x"})).is_error
    refused = host.client.post("/mcp?session=../x", json={}, headers=MODERN)
    assert refused.status_code == 400
    assert "use up to 64 letters" in refused.json()["error"]["message"]


async def test_a_new_key_of_the_same_name_does_not_get_the_scopes_of_the_old_one(host: Served, tmp_path: Path) -> None:
    old = key_in(tmp_path, "partner", scopes=("report",))
    eventually(lambda: post(host, "tools/list").status_code == 401)
    async with connected(host, old, query="?session=s1") as client:
        assert not (await client.call_tool("skill_load", {"skill": "report"})).is_error
    revoke_key(settings_in(tmp_path).host_keys, "partner")
    new = key_in(tmp_path, "partner", scopes=("sorter",))
    eventually(lambda: post(host, "tools/list", {"Authorization": f"Bearer {new}"}).status_code == 200)
    async with connected(host, new, query="?session=s1") as client:
        for name, arguments in (("skill_load", {}), ("skill_run", {"command": "echo hi"})):
            assert (await client.call_tool(name, {"skill": "report", **arguments})).is_error
        assert not (await client.call_tool("skill_load", {"skill": "sorter"})).is_error


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_command_of_a_client_that_disappears_is_killed(host: Served, tmp_path: Path, mode: str) -> None:
    path = tmp_path / "pid"
    async with connected(host, mode=mode) as client:
        await client.call_tool("skill_load", {"skill": "report"})
        command = f"echo $$ > {path}.new; mv {path}.new {path}; sleep 600"
        running = asyncio.create_task(client.call_tool("skill_run", {"skill": "report", "command": command}))
        async with asyncio.timeout(30):
            while not path.exists():
                await asyncio.sleep(0.02)
        pid = path.read_text().strip()
        # The client is gone without a word: its connection breaks.
        running.cancel()
        await asyncio.wait([running])
        async with asyncio.timeout(30):
            while Path(f"/proc/{pid}").exists():
                await asyncio.sleep(0.02)


async def test_a_broken_connection_of_the_handshake_era_ends_its_command(host: Served, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    accept = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    information = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    async with httpx2.AsyncClient(verify=False, base_url=host.url, timeout=60) as client:
        first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": information}
        opened = await client.post("/mcp", json=first, headers=accept)
        headers = {**accept, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
        await client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        load = {"name": "skill_load", "arguments": {"skill": "report"}}
        await client.post(
            "/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": load}, headers=headers
        )
        command = f"echo $$ > {path}.new; mv {path}.new {path}; sleep 600"
        run = {"name": "skill_run", "arguments": {"skill": "report", "command": command}}
        body = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": run}
        async with client.stream("POST", "/mcp", json=body, headers=headers) as answer:
            assert answer.status_code == 200
            async with asyncio.timeout(30):
                while not path.exists():
                    await asyncio.sleep(0.02)
        pid = path.read_text().strip()
        async with asyncio.timeout(30):
            while Path(f"/proc/{pid}").exists():
                await asyncio.sleep(0.02)


async def test_calls_count_against_the_limits_of_their_key(host: Served, tmp_path: Path) -> None:
    key = key_in(tmp_path, rate_per_second=0.001, burst=2)
    eventually(lambda: post(host, "tools/list").status_code == 401)
    async with connected(host, key) as client:
        assert not (await client.call_tool("skill_load", {"skill": "report"})).is_error
        assert not (await client.call_tool("echo", {"text": "hi"})).is_error
        for name, arguments in (("skill_search", {"query": "x"}), ("echo", {"text": "hi"})):
            refused = await client.call_tool(name, arguments)
            assert refused.is_error
            assert "rate limit of the key" in refused.content[0].text


def test_bodies_that_are_too_large_or_no_requests_are_refused(tmp_path: Path, skills: Path) -> None:
    with served(tmp_path, options=options(skills), executor="local", allow_local=True, host_max_body=1000) as host:
        assert post(host, "tools/call", name="echo", arguments={"text": "x" * 2000}).status_code == 413
        for body in (b"", b"[]", b"{", b"null", b'{"jsonrpc": "2.0"}', b"[" * 500):
            answer = host.client.post("/mcp", content=body, headers={**MODERN, "Content-Type": "application/json"})
            assert answer.status_code == 400, body
        assert post(host, "tools/list").status_code == 200


async def test_clients_are_told_when_the_skills_of_the_host_change(tmp_path: Path, skills: Path) -> None:
    told = asyncio.Event()

    async def on_message(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            told.set()

    chosen = HostOptions(skills=(skills,))
    with served(tmp_path, options=chosen, executor="local", allow_local=True) as host:
        async with (
            httpx2.AsyncClient(verify=False, timeout=60) as http,
            Client(
                streamable_http_client(f"{host.url}/mcp", http_client=http), mode="legacy", message_handler=on_message
            ) as client,
        ):
            async with asyncio.timeout(60):
                number = 0
                # The stream for notifications is opened in the background, so the first one may come too early.
                while not told.is_set():
                    number += 1
                    manifest(tmp_path, "later", f"description: Comes later, {number}.\n")
                    with suppress(TimeoutError):
                        await asyncio.wait_for(told.wait(), 1)
            assert "later" in await tool_names(client)


async def test_a_host_that_stops_ends_the_commands_of_its_sessions(tmp_path: Path, skills: Path) -> None:
    path = tmp_path / "pid"
    with served(tmp_path, options=options(skills, grace=0.0), executor="local", allow_local=True) as host:
        async with connected(host) as client:
            await client.call_tool("skill_load", {"skill": "report"})
            command = {"skill": "report", "command": f"echo $$ > {path}.new; mv {path}.new {path}; sleep 600"}
            await client.call_tool("skill_exec", command)
            eventually(path.exists)
    eventually(lambda: not Path(f"/proc/{path.read_text().strip()}").exists())


async def test_a_client_whose_event_stream_ends_loses_its_session_unless_it_comes_back(
    tmp_path: Path, skills: Path
) -> None:
    settings = settings_in(tmp_path, allow_local=True)
    async with SkillRuntime(Catalog.from_paths(skills, settings=settings), "local", settings=settings) as runtime:
        server = McpServer(runtime, watch=False)
        endpoint = McpEndpoint(server, max_body=100_000, disconnect_grace=0.05)
        await endpoint.start()
        async with listening(endpoint) as url:
            async with httpx2.AsyncClient(verify=False, timeout=60) as http:
                transport = streamable_http_client(url, http_client=http, terminate_on_close=False)
                async with Client(transport, mode="legacy") as client:
                    await client.call_tool("skill_load", {"skill": "report"})
                    await client.call_tool("skill_exec", {"skill": "report", "command": "sleep 600"})
                    assert len(server.sessions) == 1
            async with asyncio.timeout(30):
                while len(server.sessions):
                    await asyncio.sleep(0.01)
        await endpoint.close()


@asynccontextmanager
async def listening(endpoint: McpEndpoint) -> AsyncGenerator[str]:
    """A server for an endpoint without a host, in this event loop."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await endpoint.handle(scope, receive, send, LocalCaller())

    with open_socket("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
        running = asyncio.create_task(server.serve([listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        server.should_exit = True
        await running


# FIX
