"""What the host says it offers."""

from pathlib import Path

from tests.host.hosting import manifest, served
from tests.host.test_app import check_normalised


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
