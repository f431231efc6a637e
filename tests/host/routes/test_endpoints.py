"""What all routes share that are no invocation."""

from pathlib import Path

from tests.host.hosting import chatty, echo, key_in, served
from tests.host.test_app import check_normalised


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
