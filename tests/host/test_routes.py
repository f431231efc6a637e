"""The host explained, to programs and to people.

What all routes except invocations share.

What those are told who watch the host.

Runs that go on without their caller.

What the host says it offers.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from openskills.host.client.transport import EventReader
from openskills.host.parts import HostOptions
from tests.host.hosting import Served, Waiting, chatty, echo, eventually, key_in, manifest, served
from tests.host.test_app import check_normalised


def test_the_document_names_the_address_that_it_was_asked_at(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        found = host.client.get("/openapi.json")
        assert found.headers["content-type"] == "application/json"
        assert found.json()["servers"] == [{"url": host.url}]
        assert "/skills/echo:invoke" in found.json()["paths"]


def test_the_page_loads_nothing_from_anywhere_else_and_writes_no_foreign_markup(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        page = host.client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page.text)
    assert "innerHTML" not in page.text


def test_where_keys_are_needed_nothing_is_told_without_one(tmp_path: Path) -> None:
    key = key_in(tmp_path)
    with served(tmp_path, host_auth="on") as host:
        for path in ("/skills", "/skills/echo", "/tools", "/metrics", "/openapi.json", "/runs/x", "/runs/x/events"):
            refused = host.client.get(path)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            check_normalised(refused)
            allowed = host.client.get(path, headers={"Authorization": f"Bearer {key}"})
            assert allowed.status_code == (404 if "/runs/" in path else 200)
        for path in ("/healthz", "/readyz", "/docs"):
            assert host.client.get(path).status_code == 200


def test_a_key_sees_the_skills_of_its_scopes_only(tmp_path: Path) -> None:
    key = {"Authorization": f"Bearer {key_in(tmp_path, scopes=('echo',))}"}
    with served(tmp_path, {"echo": echo, "chatty": chatty}, host_auth="on") as host:
        listed = host.client.get("/skills", headers=key).json()["data"]["skills"]
        assert [skill["id"] for skill in listed] == ["echo"]
        assert [tool["name"] for tool in host.client.get("/tools", headers=key).json()["data"]["tools"]] == ["echo"]
        assert "/skills/chatty:invoke" not in host.client.get("/openapi.json", headers=key).json()["paths"]
        assert host.client.get("/skills/chatty", headers=key).status_code == 403
        assert host.invoke("chatty", {}, headers=key).status_code == 403
        assert host.invoke("echo", {"text": "a"}, headers=key).status_code == 200
    assert [line["principal"] for line in host.lines()] == ["me", "me"]


def test_a_database_that_cannot_be_used_is_reported_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "secret-place").write_text("")
    with served(tmp_path, host_history=tmp_path / "secret-place" / "host.db") as host:
        keyed = host.invoke("echo", {"text": "a"}, headers={"Idempotency-Key": "k"})
        run = host.client.post("/skills/echo:invoke?mode=async", json={"input": {"text": "a"}})
        for answer in (keyed, run, host.client.get("/runs/run_1"), host.client.get("/runs/run_1/events")):
            assert (answer.status_code, answer.json()["error"]["details"]["reason"]) == (503, "STORE_UNAVAILABLE")
            assert "secret-place" not in answer.text
    assert "secret-place" not in host.log.read_text()


def test_a_key_learns_why_scripts_are_not_served_in_its_scopes_only(tmp_path: Path) -> None:
    key = {"Authorization": f"Bearer {key_in(tmp_path, scopes=('pdf.*',))}"}
    for name in ("pdf", "other"):
        (tmp_path / "skills" / name / "scripts").mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: Does {name}.\n---\nBody.\n"
        (tmp_path / "skills" / name / "SKILL.md").write_text(text)
        (tmp_path / "skills" / name / "scripts" / "run.sh").write_text("echo")
        (tmp_path / "skills" / name / "scripts" / "data").write_text("x")
    with served(tmp_path, options=HostOptions(watch=False, skills=(tmp_path / "skills",))) as host:
        listed = host.client.get("/skills", headers=key).json()["data"]
        tools = host.client.get("/tools", headers=key).json()["data"]["tools"]
        operations = host.client.get("/openapi.json", headers=key).json()["paths"]
    assert [(one["id"], one["derived"], one["kind"]) for one in listed["skills"]] == [
        ("pdf.run", "default", "cli:script")
    ]
    assert [(one["skill"], one["script"]) for one in listed["not_served"]] == [("pdf", "scripts/data")]
    assert [tool["name"] for tool in tools] == ["pdf--run"]
    assert "/skills/pdf.run:invoke" in operations


def test_a_key_does_not_learn_which_skills_exist_outside_its_scopes(tmp_path: Path) -> None:
    key = {"Authorization": f"Bearer {key_in(tmp_path, scopes=('echo*',))}"}
    with served(tmp_path, {"echo": echo, "chatty": chatty, "ecko": chatty}, host_auth="on") as host:
        for verb in (":invoke", ":stream", ":invoke?mode=async", ""):
            answers: list[str] = []
            for name in ("chatty", "nobody"):
                if verb:
                    answer = host.client.post(f"/skills/{name}{verb}", json={"input": {}}, headers=key)
                else:
                    answer = host.client.get(f"/skills/{name}", headers=key)
                assert answer.status_code == 403
                answers.append(str(answer.json()["error"]).replace(name, ""))
            assert answers[0] == answers[1]
        for unknown in (host.invoke("echox", {}, headers=key), host.client.get("/skills/echox", headers=key)):
            assert unknown.json()["error"]["details"]["near"] == ["echo"]
        assert "chatty" not in host.client.get("/metrics", headers=key).text
        key = {"Authorization": f"Bearer {key_in(tmp_path, 'all')}"}
        eventually(lambda: host.client.get("/metrics", headers=key).status_code == 200)
        assert 'skill="chatty"' in host.client.get("/metrics", headers=key).text


def test_the_runs_of_one_key_are_nobody_elses(tmp_path: Path) -> None:
    mine, yours = ({"Authorization": f"Bearer {key_in(tmp_path, name)}"} for name in ("me", "you"))
    with served(tmp_path, host_auth="on") as host:
        run = host.invoke("echo", {"text": "a"}, headers={**mine, "Prefer": "respond-async"}).headers["location"]
        assert host.client.get(run, headers=mine).status_code == 200
        assert host.client.get(run, headers=yours).status_code == 404
        assert host.client.get(f"{run}/events", headers=yours).status_code == 404
        assert host.client.post(f"{run}:cancel", headers=yours).status_code == 404


def test_a_rate_limit_says_when_to_come_back(tmp_path: Path) -> None:
    key = {"Authorization": f"Bearer {key_in(tmp_path, rate_per_second=0.01, burst=1)}"}
    with served(tmp_path, host_auth="on") as host:
        assert host.invoke("echo", {"text": "a"}, headers=key).status_code == 200
        refused = host.invoke("echo", {"text": "a"}, headers=key)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 10
        check_normalised(refused)


def test_readiness_tells_how_many_skills_can_be_called(tmp_path: Path) -> None:
    manifest(tmp_path, "broken", "timeout_ms: never\n")
    with served(tmp_path) as host:
        found = check_normalised(host.client.get("/readyz"))["data"]
    assert found == {"status": "ready", "skills": {"ready": 1, "broken": 1, "unavailable": 0}, "running": 0}


def test_a_host_that_is_about_to_end_is_alive_and_not_ready(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        host.parts.host.draining = True
        answer = host.client.get("/readyz")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        check_normalised(answer)
        assert host.client.get("/healthz").status_code == 200
        assert host.invoke("echo", {"text": "a"}).status_code == 503
        stream = host.client.post("/skills/echo:stream", json={"input": {"text": "a"}})
        assert stream.status_code == 503
        assert host.client.post("/skills/echo:invoke?mode=async", json={"input": {"text": "a"}}).status_code == 503


def test_metrics_count_what_was_done_and_what_is_under_way(tmp_path: Path) -> None:
    waiting = Waiting()
    with served(tmp_path, {"echo": echo, "waiting": waiting}) as host:
        host.invoke("echo", {"text": "a"})
        host.invoke("echo", {"text": 1})
        host.invoke("nope", {})
        host.client.post("/skills/waiting:invoke?mode=async", json={"input": {}})
        assert waiting.began.wait(20)
        answer = host.client.get("/metrics")
        waiting.may_end.set()
    assert answer.headers["content-type"].startswith("text/plain")
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["openskills_invocations_total", "200", "echo", "inproc"] == 1
    assert samples["openskills_invocations_total", "400", "echo", "inproc"] == 1
    assert samples["openskills_invocations_total", "404", "none", "unknown"] == 1
    assert [value for (name, *labels), value in samples.items() if "in_flight" in name and "waiting" in labels] == [1]


def started(host: Served, skill_id: str, **more: Any) -> str:
    """The address of a run that was begun."""
    answer = host.invoke(skill_id, {}, headers={"Prefer": "respond-async", "X-Trace-Id": "t-1"}, **more)
    assert answer.status_code == 202
    result = check_normalised(answer)
    assert answer.headers["location"] == f"/runs/{result['data']['id']}"
    assert result["data"]["state"] == "queued"
    assert result["trace_id"] == "t-1"
    return answer.headers["location"]


def state(host: Served, run: str) -> str:
    return check_normalised(host.client.get(run))["data"]["state"]


def events_of(host: Served, run: str, after: str | None = None) -> list[tuple[str, str | None]]:
    reader = EventReader()
    headers = {"Last-Event-ID": after} if after is not None else {}
    with host.client.stream("GET", f"{run}/events", headers=headers) as answer:
        return [(event.kind, event.id) for part in answer.iter_raw() for event in reader.feed(part)]


def test_a_run_can_be_looked_at_until_it_has_its_result(tmp_path: Path) -> None:
    with served(tmp_path, {"chatty": chatty}) as host:
        run = started(host, "chatty")
        eventually(lambda: state(host, run) == "succeeded")
        found = check_normalised(host.client.get(run))
        assert found["data"]["result"]["data"] == {"done": True}
        assert found["data"]["result"]["trace_id"] == "t-1"
        assert found["skill_id"] == "chatty"


def test_its_events_can_be_read_later_and_from_where_one_left_off(tmp_path: Path) -> None:
    with served(tmp_path, {"chatty": chatty}) as host:
        run = started(host, "chatty")
        found = events_of(host, run)
        assert [kind for kind, _ in found] == ["start", "stdout", "progress", "result"]
        assert events_of(host, run, found[1][1]) == found[2:]
        assert host.client.head(f"{run}/events").status_code == 200


def test_a_run_can_be_cancelled(tmp_path: Path) -> None:
    waiting = Waiting()
    with served(tmp_path, {"waiting": waiting}) as host:
        run = started(host, "waiting")
        assert waiting.began.wait(20)
        assert host.client.post(f"{run}:cancel").status_code == 200
        assert waiting.cancelled.wait(20)
        eventually(lambda: state(host, run) == "cancelled")
        assert check_normalised(host.client.get(run))["data"]["result"]["error"]["code"] == 499


def test_the_mode_can_also_stand_in_the_address(tmp_path: Path) -> None:
    with served(tmp_path, {"echo": echo}) as host:
        assert host.client.post("/skills/echo:invoke?mode=async", json={"input": {"text": "a"}}).status_code == 202
        assert host.client.post("/skills/echo:invoke?mode=sync", json={"input": {"text": "a"}}).status_code == 200
        assert host.client.post("/skills/echo:invoke?mode=later", json={"input": {"text": "a"}}).status_code == 400


def test_what_cannot_begin_is_refused_at_once(tmp_path: Path) -> None:
    with served(tmp_path, {"echo": echo}) as host:
        answer = host.client.post("/skills/echo:invoke?mode=async", json={"input": {}})
        assert answer.status_code == 400
        check_normalised(answer)


@pytest.mark.parametrize("after", ["x", "-1", "1" * 30, "١"])
def test_an_id_that_no_event_has_is_refused(tmp_path: Path, after: str) -> None:
    with served(tmp_path, {"chatty": chatty}) as host:
        run = started(host, "chatty")
        answer = host.client.get(f"{run}/events", headers={b"Last-Event-ID": after.encode()})
        assert answer.status_code == 400
        check_normalised(answer)


def test_the_list_has_manifests_schemas_and_what_is_wrong(tmp_path: Path) -> None:
    manifest(tmp_path, "broken", "timeout_ms: never\n")
    with served(tmp_path) as host:
        skills = check_normalised(host.client.get("/skills"))["data"]["skills"]
    broken, echo = skills
    assert (broken["id"], broken["status"]) == ("broken", "broken")
    assert "timeout_ms" in broken["problems"][0]["message"]
    assert broken["problems"][0]["line"] == 4
    assert (echo["id"], echo["status"], echo["kind"], echo["problems"]) == ("echo", "ready", "inproc", [])
    assert echo["input_schema"]["required"] == ["text"]
    assert str(tmp_path) not in str(skills)


def test_a_broken_skill_can_be_looked_at_and_not_called(tmp_path: Path) -> None:
    manifest(tmp_path, "broken", "timeout_ms: never\n")
    with served(tmp_path) as host:
        assert check_normalised(host.client.get("/skills/broken"))["data"]["status"] == "broken"
        answer = host.invoke("broken", {})
        assert answer.status_code == 422
        assert "timeout_ms" in check_normalised(answer)["error"]["message"]


def test_one_skill_is_told_by_either_spelling(tmp_path: Path) -> None:
    manifest(tmp_path, "file_search")
    with served(tmp_path) as host:
        assert check_normalised(host.client.get("/skills/file-search"))["data"]["id"] == "file_search"


def test_tools_leave_out_what_cannot_be_called(tmp_path: Path) -> None:
    manifest(tmp_path, "broken", "timeout_ms: never\n")
    manifest(tmp_path, "secretive", "secrets: [NOT_THERE]\n")
    with served(tmp_path) as host:
        found = check_normalised(host.client.get("/tools?format=anthropic"))["data"]
    assert found["format"] == "anthropic"
    assert [tool["name"] for tool in found["tools"]] == ["echo"]
