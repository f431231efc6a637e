"""Skills that come, go and change while the host runs."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.host.model import Registration
from openskills.host.parts import HostOptions, HostParts, open_parts
from openskills.host.registry.reload import prepare_all, prepare_unavailable, reload, watch
from tests.host.hosting import FunctionTable, chatty, echo, eventually, manifest, served, settings_in


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


class Slow(FunctionTable):
    """Prepares what is called `wrong` for as long as the test wants, and fails then with what the test wants."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__({"late": echo})
        self.error = error
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()

    async def prepare(self, registration: Registration) -> None:
        if registration.description == "wrong":
            self.began.set()
            await self.go_on.wait()
            if self.error is not None:
                raise self.error


@asynccontextmanager
async def opened(directory: Path, table: FunctionTable, **changes: Any) -> AsyncGenerator[HostParts]:
    """A host without HTTP, with one skill."""
    manifest(directory, "late", "description: first\n")
    parts = await open_parts(settings_in(directory, **changes), HostOptions(watch=False), table)
    try:
        yield parts
    finally:
        await parts.close()


@asynccontextmanager
async def watched(parts: HostParts) -> AsyncGenerator[None]:
    watching = asyncio.create_task(watch(parts))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait((watching,))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def shown(parts: HostParts, description: str) -> None:
    await until(lambda: getattr(parts.registry.find("late"), "description", "") == description)


async def test_what_is_saved_while_skills_are_prepared_is_seen(tmp_path: Path) -> None:
    table = Slow()
    async with opened(tmp_path, table) as parts, watched(parts):
        manifest(tmp_path, "late", "description: wrong\n")
        await asyncio.wait_for(table.began.wait(), 20)
        manifest(tmp_path, "late", "description: mended\n")
        table.go_on.set()
        await shown(parts, "mended")


async def test_a_directory_that_was_replaced_is_followed_on(tmp_path: Path) -> None:
    async with opened(tmp_path, FunctionTable({"late": echo})) as parts, watched(parts):
        for version in ("second", "third"):
            (tmp_path / "skills_cli").rename(tmp_path / f"before-{version}")
            manifest(tmp_path, "late", f"description: {version}\n")
            await shown(parts, version)
        manifest(tmp_path, "late", "description: last\n")
        await shown(parts, "last")


async def test_a_fault_of_a_runner_is_logged_and_changes_are_seen_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = Slow(ZeroDivisionError("not what a runner may raise"))
    table.go_on.set()
    async with opened(tmp_path, table) as parts, watched(parts):
        manifest(tmp_path, "late", "description: wrong\n")
        await until(lambda: "its runner failed to prepare it" in caplog.text)
        manifest(tmp_path, "late", "description: mended\n")
        await shown(parts, "mended")

    assert "not what a runner may raise" in caplog.text


async def test_what_is_found_out_about_an_old_registration_says_nothing_of_the_new_one(tmp_path: Path) -> None:
    table = Slow(ExecutorUnavailable("there is no such interpreter"))
    async with opened(tmp_path, table) as parts:
        manifest(tmp_path, "late", "description: wrong\n")
        await asyncio.to_thread(parts.registry.reload)
        trying = asyncio.create_task(prepare_all(parts))
        await table.began.wait()
        manifest(tmp_path, "late", "description: mended\n")
        assert (await reload(parts)).changed == ("late",)
        table.go_on.set()
        await trying
        assert (parts.registry.get_entry("late").status, parts.prepared) == ("ready", True)


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


class Recovering(Unwilling):
    """Can prepare it as soon as `is_repaired`."""

    is_repaired = False

    async def prepare(self, registration: Registration) -> None:
        if not self.is_repaired:
            await super().prepare(registration)


async def test_what_was_unavailable_is_prepared_again_when_somebody_asks(tmp_path: Path) -> None:
    table = Recovering({"bad": echo})
    manifest(tmp_path, "bad")
    async with opened(tmp_path, table) as parts:
        await prepare_all(parts)
        assert await prepare_unavailable(parts) == ()
        assert parts.registry.get_entry("bad").status == "unavailable"
        table.is_repaired = True
        assert await prepare_unavailable(parts) == ("bad",)
        assert parts.registry.get_entry("bad").status == "ready"


def test_an_address_that_can_never_be_dialled_is_a_fault_of_the_manifest_and_not_of_the_caller(tmp_path: Path) -> None:
    manifest(tmp_path, "dialled").write_text("id: dialled\ntype: http\nentry: http://0177.0.0.1/\n")
    with served(tmp_path, {"dialled": echo}) as host:
        answer = host.invoke("dialled", {})
        assert (answer.status_code, answer.json()["error"]["details"]["reason"]) == (422, "INVALID_SKILL")
        assert host.client.get("/skills/dialled").json()["data"]["status"] == "broken"
