"""The application: every address, every refusal, as a caller sees them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.routing import Route

from openskills.host.app import app, create_app
from openskills.host.auth import Principal
from openskills.host.http import Receive, Scope, Send
from openskills.host.model import Call, Outcome, success_outcome
from openskills.host.parts import HostOptions
from tests.host.hosting import eventually, key_in, manifest, revoke_key, served, settings_in


def check_normalised(answer: httpx2.Response) -> dict[str, Any]:
    """What is true of every answer in JSON."""
    result = answer.json()
    assert set(result) == {"success", "skill_id", "trace_id", "data", "error", "meta"}
    assert result["trace_id"] == answer.headers["x-trace-id"]
    assert (result["error"] is None) == result["success"]
    assert result["success"] == (answer.status_code < 400)
    if not result["success"]:
        assert result["data"] is None
        assert result["error"]["code"] == answer.status_code
        assert result["error"]["message"]
        assert result["error"]["details"]["reason"]
    return result


def test_importing_the_application_reads_nothing_and_starts_nothing() -> None:
    assert not hasattr(app.state, "parts")


def test_the_curl_command_of_the_document_works_as_it_stands(tmp_path: Path) -> None:
    command = """curl -sS -X POST "http://127.0.0.1:8000/skills/echo:invoke" -H "Content-Type: application/json" \
-H "X-Trace-Id: demo-123" -d '{ "input": { "text": "hello" } }'"""
    with served(tmp_path) as host:
        here = command.replace("http://127.0.0.1:8000", host.url)
        done = subprocess.run(["bash", "-c", here], capture_output=True, timeout=30, check=True)
    result = json.loads(done.stdout)
    for name in ("latency_ms", "waited_ms", "ran_ms"):
        assert result["meta"].pop(name) >= 0
    assert result == {
        "success": True,
        "skill_id": "echo",
        "trace_id": "demo-123",
        "data": {"echoed": "hello"},
        "error": None,
        "meta": {"version": "0.1.0"},
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404),
        ("GET", "/nowhere", 404),
        ("GET", "/skills/", 404),
        ("GET", "/skills/nope", 404),
        ("GET", "/skills/echo/more", 404),
        ("GET", "/skills/a%2Fb", 404),
        ("POST", "/skills/nope:invoke", 415),
        ("POST", "/skills/echo:nope", 404),
        ("GET", "/skills/echo:nope", 404),
        ("GET", "/skills/echo:invoke", 405),
        ("PUT", "/skills/echo:invoke", 405),
        ("POST", "/skills", 405),
        ("DELETE", "/skills/echo", 405),
        ("PATCH", "/healthz", 405),
        ("PUT", "/runs/x", 405),
        ("GET", "/runs/x:cancel", 405),
        ("POST", "/runs/x:nope", 404),
        ("GET", "/runs/x", 404),
        ("GET", "/runs/x/events", 404),
        ("POST", "/runs/x:cancel", 404),
        ("GET", "/tools?format=nope", 400),
    ],
)
def test_whatever_is_not_there_is_refused_with_a_result(tmp_path: Path, method: str, path: str, status: int) -> None:
    with served(tmp_path) as host:
        answer = host.client.request(method, path)
        assert answer.status_code == status
        check_normalised(answer)
        if status == 405:
            assert method not in answer.headers["allow"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/skills", "/skills/echo", "/tools"])
def test_documents_are_results_too_and_can_be_asked_for_without_their_body(tmp_path: Path, path: str) -> None:
    with served(tmp_path) as host:
        assert check_normalised(host.client.get(path))["success"]
        head = host.client.head(path)
        assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/skills", "GET, HEAD, OPTIONS"), ("/skills/echo:invoke", "POST, OPTIONS"), ("/runs/x:cancel", "POST, OPTIONS")],
)
def test_the_methods_of_an_address_can_be_asked_for(tmp_path: Path, path: str, methods: str) -> None:
    with served(tmp_path) as host:
        answer = host.client.options(path)
        assert (answer.status_code, answer.headers["allow"]) == (204, methods)


def test_a_hostile_trace_id_is_refused_everywhere_with_a_new_one(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        for path in ("/healthz", "/skills", "/nope"):
            result = check_normalised(host.client.get(path, headers={"X-Trace-Id": "x" * 129}))
            assert result["trace_id"] != "x" * 129
        answer = host.invoke("echo", {"text": "a"}, headers={"X-Trace-Id": b"\xff\xfe"})
        assert answer.status_code == 400
        check_normalised(answer)


def test_traceparent_comes_back_with_the_same_trace_and_another_span(tmp_path: Path) -> None:
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with served(tmp_path) as host:
        answer = host.invoke("echo", {"text": "a"}, headers={"traceparent": parent})
        assert check_normalised(answer)["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
        assert answer.headers["traceparent"][:36] == parent[:36]
        assert answer.headers["traceparent"] != parent


def test_a_colon_may_be_escaped_in_the_address(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        answer = host.client.post("/skills/echo%3Ainvoke", json={"input": {"text": "a"}})
        assert check_normalised(answer)["data"] == {"echoed": "a"}


def test_dashes_and_underscores_find_each_other_and_the_result_has_the_real_id(tmp_path: Path) -> None:
    async def search(call: Call) -> Outcome:
        return success_outcome({})

    with served(tmp_path, {"file_search": search}) as host:
        assert check_normalised(host.invoke("file-search", {}))["skill_id"] == "file_search"


async def test_before_the_server_has_started_requests_are_asked_to_come_back(tmp_path: Path) -> None:
    transport = httpx2.ASGITransport(create_app(settings_in(tmp_path)))

    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answers = [
            await client.post("/skills/echo:invoke", json={"input": {}}),
            await client.get("/skills"),
            await client.get("/readyz"),
            await client.get("/healthz"),
        ]

    assert [answer.status_code for answer in answers] == [503, 503, 503, 200]
    assert answers[0].headers["retry-after"] == "1"


def test_a_fault_of_ours_is_a_result_without_its_secrets(tmp_path: Path) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("the password is hunter22")

    with served(tmp_path) as host:
        host.app.router.routes.append(Route("/broken", _Asgi(broken)))
        answer = host.client.get("/broken", headers={"X-Trace-Id": "t-1"})
        assert answer.status_code == 500
        assert check_normalised(answer)["trace_id"] == "t-1"
        assert "hunter22" not in answer.text


class _Asgi:
    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)


def test_a_skill_that_fails_through_a_fault_of_the_runner_is_an_internal_error(tmp_path: Path) -> None:
    async def broken(call: Call) -> Outcome:
        raise ZeroDivisionError("the password is hunter22")

    with served(tmp_path, {"broken": broken}) as host:
        answer = host.invoke("broken", {})
        assert answer.status_code == 500
        assert "hunter22" not in answer.text
        check_normalised(answer)


def test_other_routes_can_be_added_to_the_application(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        host.app.add_api_route("/mine", lambda: {"hello": "there"})
        assert host.client.get("/mine").json() == {"hello": "there"}


def test_the_host_serves_below_a_root_path(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        host.server.config.root_path = "/api"
        with httpx2.Client(verify=False, base_url=host.url) as client:
            assert client.get("/healthz").status_code == 200
            assert client.post("/skills/echo:invoke", json={"input": {"text": "a"}}).status_code == 200
            assert client.get("/openapi.json").json()["servers"] == [{"url": f"{host.url}/api"}]


def test_an_error_while_something_of_a_revoked_key_is_ended_leaves_nothing_else_running(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key_in(tmp_path, "bob")
    ended: list[bool] = []
    with served(tmp_path) as host:

        async def fail(is_over: Callable[[object], bool]) -> None:
            raise RuntimeError("a bug of the host")

        async def end(is_over: Callable[[object], bool]) -> None:
            ended.append(is_over(caller))

        stored = revoke_key(settings_in(tmp_path).host_keys, "bob")
        caller = Principal("bob", digest=stored.digest)
        host.parts.on_revoke.insert(0, fail)
        host.parts.on_revoke.append(end)
        # The first error has not ended the loop.
        eventually(lambda: ended.count(True) >= 2)
    assert any(one.exc_info and "a bug of the host" in str(one.exc_info[1]) for one in caplog.records)


def test_after_an_error_changes_of_skills_are_still_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    failed: list[str] = []

    def fail() -> None:
        if not failed:
            failed.append("once")
            raise RuntimeError("a bug of the host")

    with served(tmp_path, options=HostOptions(watch=True)) as host:
        host.parts.on_reload.append(fail)
        manifest(tmp_path, "late")
        eventually(lambda: bool(failed))
        manifest(tmp_path, "later")
        eventually(lambda: host.client.get("/skills/later").status_code == 200)
    assert any(one.exc_info and "a bug of the host" in str(one.exc_info[1]) for one in caplog.records)
