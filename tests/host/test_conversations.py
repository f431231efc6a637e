"""Conversations over HTTP: real servers, real sandboxed commands, the model `rule` and a scripted model over HTTP."""

import base64
import json
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from openskills.agent import ModelResponse, ToolCall, Usage
from openskills.errors import InvalidArgument
from openskills.host.bodies import MAX_UPLOAD
from openskills.host.openapi import MAX_MESSAGE_CHARS, MAX_MESSAGE_FILES
from openskills.host.parts import HostOptions
from openskills.host.runs import EventPosition
from openskills.testing.model_server import ErrorReply, ModelReply, ModelServer, ModelServerRequest
from tests.host.host_process import host_process
from tests.host.hosting import Served, eventually, key_in, served, settings_in

SKILL = """\
---
name: shout
description: Shouts a text. Use when the user wants to shout.
---
# Shout

    python3 scripts/shout.py hello
"""
SCRIPT = """\
import pathlib, sys
text = " ".join(sys.argv[1:]).upper()
pathlib.Path("out").mkdir(exist_ok=True)
pathlib.Path("out/shout.txt").write_text(text)
print(text)
"""
MODEL = "openai/scripted"


def write_shout(directory: Path) -> Path:
    folder = directory / "skills" / "shout"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (folder / "scripts" / "shout.py").write_text(SCRIPT)
    return directory / "skills"


def calls(name: str, **arguments: Any) -> ModelResponse:
    return ModelResponse("", (ToolCall("call_1Ab", name, json.dumps(arguments)),), Usage(1_000, 20, 800), "tool_calls")


def runs_shout(word: str = "hello") -> ModelResponse:
    return runs(f"python3 scripts/shout.py {word}")


def runs(command: str) -> ModelResponse:
    """Load the skill and run a command of it in one answer."""
    load = ToolCall("call_1Ab", "skill_load", json.dumps({"skill": "shout"}))
    run = {"skill": "shout", "command": command, "output_files": ["out/*"]}
    return ModelResponse(
        "", (load, ToolCall("call_2Ab", "skill_run", json.dumps(run))), Usage(1_000, 20, 800), "tool_calls"
    )


def result_of(shown: dict[str, Any]) -> str:
    """The result of the command."""
    return next(item["result"] for item in shown["items"] if item.get("tool") == "skill_run")


def fine(_: ModelServerRequest) -> str:
    return "fine"


def slow(_: ModelServerRequest) -> ModelReply:
    return ModelReply(ModelResponse("fine"), first_after=0.3)


class ScriptedHost:
    """A host whose model is a server that follows a script."""

    def __init__(self, host: Served, server: ModelServer) -> None:
        self.host, self.client, self.server = host, host.client, server

    def create(self, **fields: Any) -> str:
        answer = self.client.post("/conversations", json=fields)
        assert answer.status_code == 201, answer.text
        return answer.json()["data"]["id"]

    def send(self, identity: str, text: str, **fields: Any) -> str:
        answer = self.client.post(f"/conversations/{identity}/messages", json={"text": text, **fields})
        assert answer.status_code == 202, answer.text
        return answer.json()["data"]["run"]["id"]

    def show(self, identity: str) -> dict[str, Any]:
        answer = self.client.get(f"/conversations/{identity}")
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def wait(self, identity: str, status: str = "idle") -> dict[str, Any]:
        eventually(lambda: self.show(identity)["status"] == status, 60)
        return self.show(identity)

    def wait_for_approval(self, identity: str) -> dict[str, Any]:
        eventually(lambda: bool(self.show(identity)["approvals"]), 60)
        return self.show(identity)["approvals"][0]


@contextmanager
def talking(directory: Path, script: Any, **changes: Any) -> Generator[ScriptedHost]:
    with ModelServer(script) as server:
        settings = settings_in(directory)
        environment = {**settings.environment, **server.environment}
        options = HostOptions(skills=(write_shout(directory),), watch=False)
        given: dict[str, Any] = {"model": MODEL, "environment": environment, **changes}
        with served(directory, {}, options=options, **given) as host:
            yield ScriptedHost(host, server)


def read_events(client: httpx2.Client, path: str, until: str, after: str | None = None) -> Iterator[dict[str, Any]]:
    """The events of a stream up to one of this kind."""
    headers = {"last-event-id": after} if after else {}
    with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        event: dict[str, Any] = {}
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if not line and event:
                yield event
                if event["event"] == until:
                    return
                event = {}
            elif name in ("id", "event"):
                event[name] = value
            elif name == "data":
                event[name] = json.loads(value)


def test_a_turn_runs_a_skill_in_the_sandbox_and_saves_what_it_made(tmp_path: Path) -> None:
    script = [
        runs_shout(),
        ModelResponse("Done: **HELLO**", (), Usage(1_200, 8, 900)),
    ]
    with talking(tmp_path, script) as talk:
        identity = talk.create()
        run = talk.send(identity, "Shout hello")
        shown = talk.wait(identity)
        kinds = [(item["kind"], item.get("role") or item.get("tool")) for item in shown["items"]]
        assert kinds == [("message", "user"), ("tool", "skill_load"), ("tool", "skill_run"), ("message", "assistant")]
        ran = shown["items"][2]
        assert (ran["failed"], json.loads(ran["result"])["stdout"]) == (False, "HELLO\n")
        assert json.loads(ran["result"])["isolation"] != "none"
        assert [file["name"] for file in shown["files"]] == ["out/shout.txt"]
        assert (shown["title"], shown["model"], shown["loaded"]) == ("Shout hello", MODEL, ["shout"])
        layers = shown["tokens"]["layers"]
        assert all(layers[name] > 0 for name in ("overview", "loaded", "tools", "history"))
        assert shown["tokens"]["usage"] == {"input": 2_200, "output": 28, "cached": 1_700}
        assert shown["tokens"]["cached_share"] == round(1_700 / 2_200, 4)
        assert (shown["requests"], shown["run"]) == (2, {"id": run, "state": "succeeded"})
        file = talk.client.get(f"/conversations/{identity}/files/out/shout.txt")
        assert (file.content, file.headers["content-type"]) == (b"HELLO", "application/octet-stream")
        assert file.headers["content-disposition"] == "attachment; filename*=UTF-8''shout.txt"
        assert file.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in file.headers["content-security-policy"]


def test_the_shown_requests_are_the_bytes_that_the_server_received(tmp_path: Path) -> None:
    with talking(tmp_path, [calls("skill_load", skill="shout"), "one", "two"]) as talk:
        identity = talk.create()
        talk.send(identity, "你好 </script>")
        talk.wait(identity)
        talk.send(identity, "again")
        eventually(lambda: talk.show(identity)["requests"] == 3 and talk.show(identity)["status"] == "idle")
        path = f"/conversations/{identity}/requests"
        listed = talk.client.get(path).json()["data"]["requests"]
        raw = [talk.client.get(f"{path}/{one['number']}?raw=1").content for one in listed]
        assert raw == [one.content for one in talk.server.requests]
        second = talk.client.get(f"{path}/2").json()["data"]
        assert second["body"].encode() == talk.server.requests[1].content
        assert second["compared_with"] == 1
        states = [(one["state"], one["section"], one["title"]) for one in second["changes"]]
        assert ("same", "messages", "system") in states
        assert ("added", "messages", "tool") in states
        answered = [item["request"] for item in talk.show(identity)["items"] if item.get("role") == "assistant"]
        assert answered == [2, 3]
        missing = talk.client.get(f"{path}/9")
        assert (missing.status_code, missing.json()["error"]["message"]) == (
            404,
            "unknown request '9'; 3 were recorded",
        )


def test_events_resume_without_gaps_and_go_on_with_the_next_turn(tmp_path: Path) -> None:
    script = [calls("skill_load", skill="shout"), ModelReply(ModelResponse("abcdefgh" * 40), between=0.005), "second"]
    with talking(tmp_path, script) as talk:
        identity = talk.create()
        talk.send(identity, "hello")
        path = f"/conversations/{identity}/events"
        first = list(read_events(talk.client, path, "tool.response"))
        rest = list(read_events(talk.client, path, "result", first[-1]["id"]))
        whole = list(read_events(talk.client, path, "result", f"{first[0]['data']['run']}:0"))
        assert [one["id"] for one in first + rest] == [one["id"] for one in whole]
        assert "".join(one["data"]["text"] for one in whole if one["event"] == "delta") == "abcdefgh" * 40
        assert whole[-1]["data"]["data"]["text"] == "abcdefgh" * 40
        talk.wait(identity)
        talk.send(identity, "next")
        following = list(read_events(talk.client, path, "result", whole[-1]["id"]))
        assert following[0]["event"] == "start"
        assert following[0]["data"]["run"] != whole[0]["data"]["run"]
        bad = talk.client.get(path, headers={"last-event-id": "x"})
        assert bad.status_code == 400


@pytest.mark.parametrize("decision", ["allow_once", "deny"])
def test_a_command_waits_until_it_is_approved_over_http(decision: str, tmp_path: Path) -> None:
    with talking(tmp_path, [runs_shout("now"), "fine"]) as talk:
        identity = talk.create(ask=True)
        talk.send(identity, "Shout")
        waiting = talk.wait_for_approval(identity)
        assert (waiting["skill"], waiting["command"]) == ("shout", "python3 scripts/shout.py now")
        path = f"/conversations/{identity}/approvals/{waiting['id']}"
        assert talk.client.post(path, json={"decision": "perhaps"}).status_code == 400
        assert talk.client.post(path, json={"decision": decision, "reason": "not today"}).status_code == 200
        again = talk.client.post(path, json={"decision": decision})
        assert (again.status_code, again.json()["error"]["details"]["reason"]) == (404, "NOT_FOUND")
        shown = talk.wait(identity)
        result = result_of(shown)
        assert ("NOW" in result) is (decision == "allow_once")
        assert ("not today" in result) is (decision == "deny")
        assert shown["approvals"] == []


def test_a_turn_can_be_cancelled_while_it_waits_for_approval(tmp_path: Path) -> None:
    with talking(tmp_path, [runs_shout(), "fine"]) as talk:
        identity = talk.create(ask=True)
        talk.send(identity, "Shout")
        talk.wait_for_approval(identity)
        busy = talk.client.post(f"/conversations/{identity}/messages", json={"text": "more"})
        assert (busy.status_code, busy.json()["error"]["details"]["reason"]) == (409, "REQUEST_IN_FLIGHT")
        assert talk.client.delete(f"/conversations/{identity}").status_code == 409
        assert talk.client.post(f"/conversations/{identity}:cancel").status_code == 200
        talk.wait(identity, "cancelled")
        talk.send(identity, "never mind")
        assert talk.wait(identity)["items"][-1]["text"] == "fine"


def test_of_two_messages_at_once_one_is_refused(tmp_path: Path) -> None:
    with talking(tmp_path, slow) as talk:
        identity = talk.create()
        found: list[int] = []

        def send() -> None:
            with httpx2.Client(verify=False, base_url=talk.host.url, timeout=30) as client:
                answer = client.post(f"/conversations/{identity}/messages", json={"text": "hello"})
                found.append(answer.status_code)

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [202, 409, 409, 409]
        talk.wait(identity)
        assert len(talk.server.requests) == 1


def test_attachments_reach_the_commands_and_can_be_downloaded(tmp_path: Path) -> None:
    script = [runs("cat $WORK_DIR/inputs/sales.csv"), "fine", "fine"]
    with talking(tmp_path, script) as talk:
        identity = talk.create()
        data = base64.b64encode(b"a,b\n1,2\n").decode()
        talk.send(identity, "Look", files=[{"name": "sales.csv", "data": data}])
        shown = talk.wait(identity)
        assert json.loads(result_of(shown))["stdout"] == "a,b\n1,2\n"
        assert (shown["items"][0]["text"], shown["items"][0]["files"][0]["name"]) == ("Look", "sales.csv")
        assert talk.client.get(f"/conversations/{identity}/files/uploads/sales.csv").content == b"a,b\n1,2\n"
        form = {"text": (None, "A form")}
        answer = talk.client.post(
            f"/conversations/{identity}/messages", files={**form, "files": ("../../x<y>.txt", b"hi", "text/html")}
        )
        assert answer.status_code == 202, answer.text
        shown = talk.wait(identity)
        assert shown["items"][-2]["files"][0]["path"].startswith("work/inputs/")
        assert ".." not in shown["items"][-2]["files"][0]["path"]


def test_conversations_of_others_do_not_exist(tmp_path: Path) -> None:
    mine, other = key_in(tmp_path, "me"), key_in(tmp_path, "other")
    with talking(tmp_path, fine) as talk:
        talk.client.headers["authorization"] = f"Bearer {mine}"
        identity = talk.create(title="Private")
        talk.client.headers["authorization"] = f"Bearer {other}"
        assert talk.client.get("/conversations").json()["data"]["conversations"] == []
        path = f"/conversations/{identity}"
        answers = [
            talk.client.get(path),
            talk.client.delete(path),
            talk.client.post(f"{path}:cancel"),
            talk.client.post(f"{path}/messages", json={"text": "hello"}),
            talk.client.get(f"{path}/events"),
            talk.client.get(f"{path}/requests"),
            talk.client.get(f"{path}/requests/1"),
            talk.client.get(f"{path}/files/x"),
            talk.client.post(f"{path}/approvals/x", json={"decision": "deny"}),
            talk.client.get("/conversations/cli~one"),
        ]
        assert {answer.status_code for answer in answers} == {404}
        assert {answer.json()["error"]["details"]["reason"] for answer in answers} == {"UNKNOWN_SESSION"}


def test_the_events_of_another_conversation_cannot_be_asked_for(tmp_path: Path) -> None:
    mine, other = key_in(tmp_path, "me"), key_in(tmp_path, "other")
    with talking(tmp_path, fine) as talk:
        talk.client.headers["authorization"] = f"Bearer {mine}"
        identity = talk.create()
        run = talk.send(identity, "a secret")
        talk.wait(identity)
        talk.client.headers["authorization"] = f"Bearer {other}"
        own = talk.create()
        answer = talk.client.get(f"/conversations/{own}/events", headers={"last-event-id": f"{run}:0"})
        assert (answer.status_code, answer.json()["error"]["details"]["field"]) == (400, "Last-Event-ID")
        assert talk.client.get(f"/runs/{run}").status_code == 404


def test_turns_count_against_the_limit_of_their_key(tmp_path: Path) -> None:
    key = key_in(tmp_path, "me", concurrency=1)
    with talking(tmp_path, [runs_shout(), "first", "second"]) as talk:
        talk.client.headers["authorization"] = f"Bearer {key}"
        first, second = talk.create(ask=True), talk.create()
        talk.send(first, "Shout")
        waiting = talk.wait_for_approval(first)
        talk.send(second, "hello")
        assert talk.show(second)["status"] == "running"
        assert len(talk.server.requests) == 1
        talk.client.post(f"/conversations/{first}/approvals/{waiting['id']}", json={"decision": "deny"})
        assert talk.wait(first)["items"][-1]["text"] == "first"
        assert talk.wait(second)["items"][-1]["text"] == "second"


def test_a_key_that_may_only_read_cannot_send(tmp_path: Path) -> None:
    reader = key_in(tmp_path, "reader", role="read")
    with talking(tmp_path, fine) as talk:
        talk.client.headers["authorization"] = f"Bearer {reader}"
        assert talk.client.get("/conversations").status_code == 200
        assert talk.client.post("/conversations", json={}).status_code == 403
        assert talk.client.post("/conversations/x/messages", json={"text": "hello"}).status_code == 403


def test_conversations_of_the_command_line_are_shown_to_an_admin(tmp_path: Path) -> None:
    admin, plain = key_in(tmp_path, "admin", role="admin"), key_in(tmp_path, "plain")
    with talking(tmp_path, fine) as talk:
        write_cli_session(talk)
        talk.client.headers["authorization"] = f"Bearer {plain}"
        assert talk.client.get("/conversations").json()["data"]["conversations"] == []
        talk.client.headers["authorization"] = f"Bearer {admin}"
        (found,) = talk.client.get("/conversations?search=SALES").json()["data"]["conversations"]
        assert (found["app"], found["session"], found["title"]) == ("cli", "my chat/1", "about sales")
        talk.send(found["id"], "go on")
        shown = talk.wait(found["id"])
        assert [item["text"] for item in shown["items"]] == ["about sales", "go on", "fine"]


def write_cli_session(talk: ScriptedHost) -> None:
    import asyncio
    import os

    from openskills.session import SessionKey, SqliteSessionStore
    from openskills.session.events import new_event

    async def write() -> None:
        store = SqliteSessionStore(talk.host.parts.settings.state_dir / "sessions.db")
        message = {"to": "assistant", "message": {"role": "user", "content": "about sales"}}
        key = SessionKey("cli", f"user-{os.getuid()}", "my chat/1")
        await store.append(key, new_event("user", "message", message))
        await store.close()

    asyncio.run(write())


def test_a_failed_turn_says_why_and_the_next_one_works(tmp_path: Path) -> None:
    with talking(tmp_path, [ErrorReply(400, "the context is too long"), "fine"]) as talk:
        identity = talk.create()
        talk.send(identity, "hello")
        shown = talk.wait(identity, "failed")
        assert shown["items"][-1]["kind"] == "error"
        assert "the context is too long" in shown["items"][-1]["text"]
        talk.send(identity, "again")
        assert talk.wait(identity)["items"][-1]["text"] == "fine"


def test_a_model_that_is_not_configured_is_refused(tmp_path: Path) -> None:
    with talking(tmp_path, fine, host_models=("openai/other",)) as talk:
        listed = talk.client.get("/models").json()["data"]
        assert listed == {"models": [MODEL, "openai/other", "rule"], "default": MODEL}
        for name in ("openai/gpt-5", "os:system", "../x"):
            answer = talk.client.post("/conversations", json={"model": name})
            assert (answer.status_code, answer.json()["error"]["details"]["field"]) == (400, "model")
        identity = talk.create(model="rule")
        talk.send(identity, "hello")
        assert talk.wait(identity)["model"] == "rule"
        talk.send(identity, "hello", model="openai/other")
        assert talk.wait(identity)["model"] == "openai/other"
        assert talk.server.requests[-1].body["model"] == "other"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "text"),
        ({"text": 5}, "text"),
        ({"text": " "}, "text"),
        ({"text": "x", "files": "x"}, "files"),
        ({"text": "x", "files": [{"name": "a", "data": "%"}]}, "files[0].data"),
        ({"text": "x", "files": [{"name": "", "data": ""}]}, "files[0].name"),
        ({"text": "x", "more": 1}, "more"),
    ],
)
def test_a_wrong_message_is_named(body: dict[str, Any], field: str, tmp_path: Path) -> None:
    with served(tmp_path, {}) as host:
        identity = host.client.post("/conversations", json={}).json()["data"]["id"]
        answer = host.client.post(f"/conversations/{identity}/messages", json=body)
        assert (answer.status_code, answer.json()["error"]["details"]["field"]) == (400, field)


def test_a_conversation_is_deleted_with_its_requests_and_files(tmp_path: Path) -> None:
    with talking(tmp_path, [runs_shout(), "fine"]) as talk:
        identity = talk.create()
        talk.send(identity, "Shout")
        talk.wait(identity)
        assert talk.client.delete(f"/conversations/{identity}").status_code == 200
        assert talk.client.get(f"/conversations/{identity}").status_code == 404
        assert talk.client.get("/conversations").json()["data"]["conversations"] == []


def test_an_unanswered_approval_is_denied_at_its_deadline(tmp_path: Path) -> None:
    def reply(asked: ModelServerRequest) -> Any:
        return "fine" if len(asked.body["messages"]) > 2 else runs_shout()

    with talking(tmp_path, reply) as talk:
        talk.host.parts.conversations.approval_timeout = 0.2
        identity = talk.create(ask=True)
        talk.send(identity, "Shout")
        shown = talk.wait(identity)
        assert "no answer within 0.2 seconds" in result_of(shown)


def test_a_killed_host_leaves_an_interrupted_turn_that_can_go_on(tmp_path: Path) -> None:
    def reply(asked: ModelServerRequest) -> ModelReply:
        is_first = len(asked.body["messages"]) == 2
        return ModelReply(ModelResponse("never " * 1000 if is_first else "done"), between=0.05 if is_first else 0)

    with ModelServer(reply) as server:
        environment = {**server.environment, "OPENSKILL_MODEL": MODEL}
        with host_process(tmp_path, **environment) as host:
            identity = host.client.post("/conversations", json={}).json()["data"]["id"]
            host.client.post(f"/conversations/{identity}/messages", json={"text": "talk"})
            eventually(lambda: "never" in host.client.get(f"/conversations/{identity}").json()["data"]["partial"])
            host.end(signal.SIGKILL)
        (tmp_path / "data" / "slow" / "go").unlink()
        (tmp_path / "data" / "slow").rmdir()
        with host_process(tmp_path, **environment) as host:
            shown = host.client.get(f"/conversations/{identity}").json()["data"]
            assert (shown["status"], [item["text"] for item in shown["items"]]) == ("interrupted", ["talk"])
            host.client.post(f"/conversations/{identity}/messages", json={"text": "go on"})
            eventually(lambda: host.client.get(f"/conversations/{identity}").json()["data"]["status"] == "idle")
            shown = host.client.get(f"/conversations/{identity}").json()["data"]
            assert [item["text"] for item in shown["items"]] == ["talk", "go on", "done"]


def test_an_event_position_is_read_strictly() -> None:
    assert EventPosition.parse("run_0ab:7") == EventPosition("run_0ab", 7)
    for text in (":", "x:", ":1", "a:b", "a:1\n", "a" * 70 + ":1", "A:1"):
        with pytest.raises(InvalidArgument, match="Last-Event-ID"):
            EventPosition.parse(text)


def test_a_key_has_a_limited_number_of_conversations(tmp_path: Path) -> None:
    keys = {role: {"Authorization": f"Bearer {key_in(tmp_path, role, role=role)}"} for role in ("run", "admin")}
    with served(tmp_path, {}, host_quota_conversations=2) as host:

        def create(role: str) -> httpx2.Response:
            return host.client.post("/conversations", headers=keys[role])

        assert [create("run").status_code for _ in range(3)] == [201, 201, 403]
        refused = create("run").json()["error"]
        assert refused["message"] == "quota exceeded: 'run' has 2 of 2 conversations; delete some of them"
        assert refused["details"]["quota"] == "conversations"
        page = host.client.post("/console/conversations", headers={**keys["run"], "Origin": host.url})
        assert page.status_code == 403
        assert "2 of 2 conversations; delete some of them" in page.text
        assert [create("admin").status_code for _ in range(3)] == [201, 201, 201]
        one = host.client.get("/conversations", headers=keys["run"]).json()["data"]["conversations"][0]["id"]
        host.client.delete(f"/conversations/{one}", headers=keys["run"]).raise_for_status()
        assert create("run").status_code == 201


TEXT_FILE = {"name": "a.txt", "data": "YQ=="}


@pytest.mark.parametrize(
    ("message", "status", "field", "why"),
    [
        ({"text": " "}, 400, "text", "must not be empty without files"),
        ({"text": "x" * (MAX_MESSAGE_CHARS + 1)}, 400, "text", "send it as a file"),
        ({"text": 1}, 400, "text", "expected text"),
        ({"text": "x", "colour": 1}, 400, "colour", "unknown field; use text, model, files"),
        ({"text": "x", "files": "a.txt"}, 400, "files", "expected a list such as"),
        ({"text": "x", "files": [TEXT_FILE] * (MAX_MESSAGE_FILES + 1)}, 400, "files", "at most"),
        ({"text": "x", "files": ["a.txt"]}, 400, "files[0]", "expected an object such as"),
        ({"text": "x", "files": [TEXT_FILE, {"name": "b", "data": "?"}]}, 400, "files[1].data", "expected base64"),
        ({"text": "x", "files": [{"name": "", "data": ""}]}, 400, "files[0].name", "expected 1 to 512 characters"),
        ({"text": "x", "files": [{"name": "a", "data": "A" * MAX_UPLOAD}]}, 413, None, "the body is too large"),
    ],
)
def test_a_message_that_cannot_be_used_is_refused_with_its_field_and_starts_nothing(
    tmp_path: Path, message: dict[str, Any], status: int, field: str | None, why: str
) -> None:
    with served(tmp_path, options=HostOptions(skills=(write_shout(tmp_path),))) as host:
        identity = host.client.post("/conversations", json={}).json()["data"]["id"]
        answer = host.client.post(f"/conversations/{identity}/messages", json=message)
        error = answer.json()["error"]
        assert (answer.status_code, error["details"].get("field")) == (status, field), error
        assert why in error["message"]
        assert host.client.get(f"/conversations/{identity}").json()["data"]["status"] == "idle"
