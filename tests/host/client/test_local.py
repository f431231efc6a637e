"""The skills of a directory without a server: the same results as over HTTP."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.host.client.local import LocalHost, open_local_host
from openskills.host.client.transport import unwrap
from tests.host.hosting import ECHO_MANIFEST, FunctionTable, chatty, echo, manifest, settings_in


@asynccontextmanager
async def open_host(directory: Path, table: FunctionTable | None = None) -> AsyncGenerator[LocalHost]:
    manifest(directory, "echo", ECHO_MANIFEST)
    manifest(directory, "chatty")
    (directory / "data").mkdir(exist_ok=True)
    table = table or FunctionTable({"echo": echo, "chatty": chatty})
    async with open_local_host(settings_in(directory), runners=lambda _: table) as host:
        yield host


async def test_a_skill_is_invoked_and_everything_is_closed(tmp_path: Path) -> None:
    table = FunctionTable({"echo": echo})
    async with open_host(tmp_path, table) as host:
        result = await host.invoke("echo", {"text": "hi"}, trace_id="t-1")
    assert (unwrap(result), result.trace_id) == ({"echoed": "hi"}, "t-1")
    assert table.closed


async def test_the_schema_counts_here_too(tmp_path: Path) -> None:
    async with open_host(tmp_path) as host:
        result = await host.invoke("echo", {"text": 3})
    assert result.status == 400
    async with open_host(tmp_path) as host:
        result = await host.invoke("ecko", {})
    assert result.status == 404


async def test_events_are_those_of_a_host(tmp_path: Path) -> None:
    async with open_host(tmp_path) as host:
        events = [(event.kind, event.result is not None) async for event in host.stream("chatty", {})]
    assert events == [("start", False), ("stdout", False), ("progress", False), ("result", True)]


async def test_the_skills_are_told(tmp_path: Path) -> None:
    (tmp_path / "skills_cli").mkdir()
    (tmp_path / "skills_cli" / "broken.yaml").write_text("id: [")
    async with open_host(tmp_path) as host:
        skills = await host.skills()
    assert {skill.id: skill.is_ready for skill in skills} == {"broken": False, "chatty": True, "echo": True}
    assert next(skill for skill in skills if skill.id == "echo").required_fields == ("text",)


async def test_a_key_that_nobody_would_remember_is_refused(tmp_path: Path) -> None:
    async with open_host(tmp_path) as host:
        with pytest.raises(InvalidArgument, match="idempotency_key"):
            await host.invoke("echo", {}, idempotency_key="k")


async def test_what_could_not_be_sent_is_refused_here_too(tmp_path: Path) -> None:
    async with open_host(tmp_path) as host:
        with pytest.raises(InvalidArgument, match="input"):
            await host.invoke("echo", {"text": float("nan")})
