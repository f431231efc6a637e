"""Skills that come, go and change while the host runs."""

from pathlib import Path

from openskills.errors import ExecutorUnavailable
from openskills.host.options import HostOptions
from openskills.host.registration import Registration
from tests.host.hosting import FunctionTable, chatty, echo, eventually, manifest, served


def test_what_changes_on_disk_is_served_and_what_is_gone_is_not(tmp_path: Path) -> None:
    with served(tmp_path, {"echo": echo, "late": chatty}, options=HostOptions(watch=True)) as host:
        assert host.invoke("late", {}).status_code == 200
        manifest(tmp_path, "late", "description: changed\n")
        eventually(lambda: host.client.get("/skills/late").json()["data"]["description"] == "changed")
        (tmp_path / "skills_cli" / "late.yaml").unlink()
        eventually(lambda: host.invoke("late", {}).status_code == 404)
        manifest(tmp_path, "late", "timeout_ms: never\n")
        eventually(lambda: host.invoke("late", {}).status_code == 422)
        assert host.invoke("echo", {"text": "a"}).status_code == 200
        eventually(lambda: host.table.forgotten.count("late") >= 2)


def test_a_new_schema_counts_for_the_next_call(tmp_path: Path) -> None:
    with served(tmp_path, {"chatty": chatty}, options=HostOptions(watch=True)) as host:
        assert host.invoke("chatty", {}).status_code == 200
        manifest(tmp_path, "chatty", "input_schema: {type: object, required: [x]}\n")
        eventually(lambda: host.invoke("chatty", {}).status_code == 400)


def test_a_directory_that_comes_later_is_found(tmp_path: Path) -> None:
    manifest(tmp_path, "echo")
    hidden = (tmp_path / "skills_cli").rename(tmp_path / "hidden")
    with served(tmp_path, {}, options=HostOptions(watch=True)) as host:
        host.table.functions = {"echo": echo}
        hidden.rename(tmp_path / "skills_cli")
        eventually(lambda: host.invoke("echo", {"text": "a"}).status_code == 200)


class Unwilling(FunctionTable):
    """Cannot prepare what is called `bad`."""

    async def prepare(self, registration: Registration) -> None:
        if registration.id == "bad":
            raise ExecutorUnavailable("there is no Docker here; start it")


def test_what_cannot_be_prepared_is_unavailable_with_the_reason_and_harms_no_other(tmp_path: Path) -> None:
    table = Unwilling({"echo": echo, "bad": echo})
    with served(tmp_path, {"echo": echo, "bad": echo}, table=table) as host:
        found = host.client.get("/skills/bad").json()["data"]
        assert found["status"] == "unavailable"
        assert found["problems"][0]["message"] == "there is no Docker here; start it"
        assert host.client.get("/readyz").json()["data"]["skills"] == {"ready": 1, "broken": 0, "unavailable": 1}


def test_an_address_that_can_never_be_dialled_is_a_fault_of_the_manifest_and_not_of_the_caller(tmp_path: Path) -> None:
    manifest(tmp_path, "dialled").write_text("id: dialled\ntype: http\nentry: http://0177.0.0.1/\n")
    with served(tmp_path, {"dialled": echo}) as host:
        answer = host.invoke("dialled", {})
        assert (answer.status_code, answer.json()["error"]["details"]["reason"]) == (422, "INVALID_SKILL")
        assert host.client.get("/skills/dialled").json()["data"]["status"] == "broken"
