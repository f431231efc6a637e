"""Who sees and may change uploaded skills: private and shared ones, scopes, quotas, MCP."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from openskills.host.mcp import McpRoute
from openskills.host.parts import HostOptions
from openskills.host.routes import define_route
from tests.host.hosting import Served
from tests.host.vendors.uploading import (
    PUBLISHER,
    WRITER,
    bearer,
    form_of,
    key_in,
    skill_files,
    uploading_host,
)
from tests.skill_writer import skill_writer


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Served]:
    with uploading_host(tmp_path) as one:
        yield one


def keys_in(directory: Path) -> tuple[dict[str, str], dict[str, str], dict[str, str], dict[str, str]]:
    """Headers of two writers, a publisher, and a key that may only read."""
    return (
        bearer(key_in(directory, "ada", scopes=WRITER)),
        bearer(key_in(directory, "bob", scopes=WRITER)),
        bearer(key_in(directory, "editor", scopes=PUBLISHER)),
        bearer(key_in(directory, "reader", scopes=("*",))),
    )


def push(host: Served, headers: dict[str, str], **about: str) -> httpx2.Response:
    return host.client.post("/v1/skills", files=form_of(skill_files(**about)), headers=headers)


def names(host: Served, headers: dict[str, str]) -> list[str]:
    return sorted(one["name"] for one in host.client.get("/v1/skills", headers=headers).json()["data"])


def test_private_skills_do_not_exist_for_other_keys(tmp_path: Path, host: Served) -> None:
    ada, bob, _, reader = keys_in(tmp_path)
    made = push(host, ada).json()
    for stranger in (bob, reader):
        assert names(host, stranger) == []
        for path in ("", "/content", "/versions", "/versions/1", "/versions/1/content"):
            assert host.client.get(f"/v1/skills/{made['id']}{path}", headers=stranger).status_code == 404
        assert host.client.get("/skills", headers=stranger).json()["data"]["skills"] == []
        for skill_id in ("greeter", "greeter~ada"):
            refused = host.invoke(skill_id, {"name": "x"}, headers=stranger)
            assert refused.status_code == 404
            assert "near" not in refused.text or refused.json()["error"]["details"]["near"] == []
            assert host.client.get(f"/skills/{skill_id}", headers=stranger).status_code == 404
        assert "greeter" not in host.client.get("/tools", headers=stranger).text
        assert "greeter" not in host.client.get("/openapi.json", headers=stranger).text
        assert 'skill="greeter' not in host.client.get("/metrics", headers=stranger).text
    assert host.client.delete(f"/v1/skills/{made['id']}", headers=bob).status_code == 404
    versions = f"/v1/skills/{made['id']}/versions"
    assert host.client.post(versions, files=form_of(skill_files()), headers=bob).status_code == 404
    assert host.client.post(f"/v1/skills/{made['id']}", json={"default_version": "1"}, headers=bob).status_code == 404
    assert names(host, ada) == ["greeter"]


def test_two_keys_can_have_a_skill_of_the_same_name(tmp_path: Path, host: Served) -> None:
    ada, bob, _, _ = keys_in(tmp_path)
    push(host, ada, word="Hello")
    push(host, bob, word="Moin")
    assert host.invoke("greeter", {"name": "A"}, headers=ada).json()["data"] == {"greeting": "Hello A"}
    assert host.invoke("greeter", {"name": "B"}, headers=bob).json()["data"] == {"greeting": "Moin B"}
    (tool,) = host.client.get("/tools?format=mcp", headers=bob).json()["data"]["tools"]
    assert tool["name"] == "greeter"
    assert "Moin" in tool["description"]


def test_shared_skills_are_for_everybody_but_only_publishers_change_them(tmp_path: Path, host: Served) -> None:
    ada, _, editor, reader = keys_in(tmp_path)
    made = push(host, editor, word="Ahoy").json()
    assert names(host, reader) == names(host, ada) == ["greeter"]
    assert host.invoke("greeter", {"name": "R"}, headers=reader).json()["data"] == {"greeting": "Ahoy R"}
    for headers in (ada, reader):
        assert host.client.delete(f"/v1/skills/{made['id']}", headers=headers).status_code == 403
    push(host, ada, word="Mine")
    assert host.invoke("greeter", {"name": "A"}, headers=ada).json()["data"] == {"greeting": "Mine A"}
    assert host.invoke("greeter", {"name": "R"}, headers=reader).json()["data"] == {"greeting": "Ahoy R"}
    assert host.client.delete(f"/v1/skills/{made['id']}", headers=editor).status_code == 200


def test_a_key_without_the_scope_may_not_upload(tmp_path: Path, host: Served) -> None:
    reader = keys_in(tmp_path)[3]
    refused = push(host, reader)
    assert refused.status_code == 403
    assert "skills:write" in refused.json()["error"]["message"]
    assert host.client.post("/v1/files", files={"file": ("a", b"x")}, headers=reader).status_code == 403


def test_an_upload_does_not_replace_a_skill_of_the_operator(tmp_path: Path) -> None:
    folder = skill_writer(tmp_path, "skills")("greeter", "Is of the operator. Use it when in doubt.")
    (folder / "scripts").mkdir()
    (folder / "scripts/invoke.py").write_bytes(skill_files(word="Operator")["scripts/invoke.py"])
    editor = bearer(key_in(tmp_path, "editor", scopes=PUBLISHER))
    with uploading_host(tmp_path, options=HostOptions(watch=False, skills=(tmp_path / "skills",))) as host:
        push(host, editor, word="Fake")
        assert host.invoke("greeter", {"name": "E"}, headers=editor).json()["data"] == {"greeting": "Operator E"}


def test_grants_and_directories_of_the_operator_are_not_for_uploads(tmp_path: Path, host: Served) -> None:
    ada = keys_in(tmp_path)[0]
    files = {**skill_files(), "manifest.yaml": b"entry: scripts/invoke.py\nsecrets: [HOME]\n"}
    host.client.post("/v1/skills", files=form_of(files), headers=ada)
    (shown,) = host.client.get("/skills", headers=ada).json()["data"]["skills"]
    assert shown["status"] == "broken"
    assert "only the operator" in str(shown["problems"])
    assert str(tmp_path) not in str(shown)


def test_quotas_count_versions_and_bytes(tmp_path: Path) -> None:
    ada, bob = (bearer(key_in(tmp_path, name, scopes=WRITER)) for name in ("ada", "bob"))
    with uploading_host(tmp_path, host_quota_uploads=2, host_quota_bytes=2000) as host:
        made = push(host, ada).json()
        versions = f"/v1/skills/{made['id']}/versions"
        big = {**skill_files(), "notes.txt": b"x" * 3000}
        refused = host.client.post(versions, files=form_of(big), headers=ada)
        assert refused.status_code == 403
        assert "bytes are used" in refused.json()["error"]["message"]
        assert host.client.post(versions, files=form_of(skill_files(word="A")), headers=ada).status_code == 200
        refused = host.client.post(versions, files=form_of(skill_files(word="B")), headers=ada)
        assert (refused.status_code, "2 of 2" in refused.text) == (403, True)
        assert push(host, bob).status_code == 200
        assert host.client.delete(f"{versions}/1", headers=ada).status_code == 200
        assert host.client.post(versions, files=form_of(skill_files(word="B")), headers=ada).status_code == 200
        # Three contents were accepted, one of them for both; nothing is left of those that were refused.
        assert len(list((tmp_path / ".local/state/openskills/uploads/blobs").glob("[0-9a-f]*"))) == 3


def test_a_rate_limit_is_an_error_of_the_dialect(tmp_path: Path) -> None:
    slow = bearer(key_in(tmp_path, "slow", scopes=WRITER, rate_per_second=0.01, burst=1))
    with uploading_host(tmp_path) as host:
        assert push(host, slow).status_code == 200
        refused = host.client.post("/v1/skills", files=form_of(skill_files("b")), headers=slow)
        assert refused.status_code == 429
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert refused.headers["retry-after"]
        headers = {**slow, "anthropic-version": "2023-06-01"}
        refused = host.client.post("/v1/skills", files=form_of(skill_files("b")), headers=headers)
        assert refused.json()["error"]["type"] == "rate_limit_error"


def test_without_keys_uploads_are_shared_and_only_for_this_machine(host: Served) -> None:
    assert push(host, {}).json()["name"] == "greeter"
    assert host.invoke("greeter", {"name": "A"}).json()["skill_id"] == "greeter"
    assert push(host, {"X-Forwarded-For": "192.0.2.1"}).status_code == 401


def test_on_an_open_host_strangers_may_not_upload(tmp_path: Path) -> None:
    with uploading_host(tmp_path, host_auth="off") as host:
        refused = push(host, {"X-Forwarded-For": "192.0.2.1"})
        assert refused.status_code == 403


def test_a_page_of_another_site_may_not_upload(host: Served) -> None:
    for origin in ("https://evil.example", "http://localhost:5173", "http://127.0.0.1:1", "http://[", "null"):
        assert push(host, {"Origin": origin}).status_code == 403, origin
    assert host.client.get("/v1/skills", headers={"Origin": "http://localhost:5173"}).json()["data"] == []
    assert push(host, {"Origin": host.url}).status_code == 200


@asynccontextmanager
async def connected(host: Served, headers: dict[str, str]) -> AsyncGenerator[Any]:
    async with (
        httpx2.AsyncClient(verify=False, headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{host.url}/mcp", http_client=http), mode=cast("Any", "auto")) as client,
    ):
        yield client


async def seen_by(host: Served, headers: dict[str, str]) -> tuple[set[str], set[str]]:
    """The resources and tools for a new connection; clients keep lists for a minute."""
    async with connected(host, headers) as client:
        found = {str(one.uri) for one in (await client.list_resources()).resources}
        return found, {tool.name for tool in (await client.list_tools()).tools}


async def test_mcp_clients_see_an_upload_at_once_if_they_may(tmp_path: Path, host: Served) -> None:
    ada, bob, editor, _ = keys_in(tmp_path)
    assert await seen_by(host, ada) == await seen_by(host, bob) == (set(), set())
    push(host, ada)
    found, tools = await seen_by(host, ada)
    assert "skill://greeter/SKILL.md" in found
    assert {"greeter", "skill_load"} <= tools
    assert await seen_by(host, bob) == (set(), set())
    async with connected(host, ada) as client:
        called = await client.call_tool("greeter", {"name": "Ada"})
        assert called.structured_content == {"greeting": "Hello Ada"}
    push(host, editor, name="shared-one")
    assert "skill://shared-one/SKILL.md" in (await seen_by(host, bob))[0]
    async with connected(host, bob) as client:
        loaded = await client.call_tool("skill_load", {"skill": "shared-one"})
        assert "Say Hello" in str(loaded.content)


def test_the_number_of_mcp_endpoints_is_limited(tmp_path: Path, host: Served) -> None:
    host.app.router.routes.append(define_route("/few", McpRoute(max_endpoints=2).handle))
    keys = [key_in(tmp_path, f"writer{number}", scopes=WRITER) for number in range(3)]
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Accept": "application/json, text/event-stream"}
    for key in (*keys, keys[0]):
        answer = host.client.post("/few", json=body, headers={**headers, "Mcp-Method": "tools/list", **bearer(key)})
        assert answer.json()["result"]["tools"] == []
    assert len(host.parts.on_reload) == 2
