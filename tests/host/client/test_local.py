"""The skills of a directory without a server: the same results as over HTTP."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from openskills.errors import InvalidArgument
from openskills.host.client.local import LocalHost, open_local_host
from openskills.host.client.transport import unwrap
from openskills.sync import run
from tests.host.hosting import ECHO_MANIFEST, FunctionTable, chatty, echo, manifest, settings_in

T = TypeVar("T")


def locally(directory: Path, work: Callable[[LocalHost], Awaitable[T]]) -> tuple[T, FunctionTable]:
    manifest(directory, "echo", ECHO_MANIFEST)
    manifest(directory, "chatty")
    (directory / "data").mkdir(exist_ok=True)
    table = FunctionTable({"echo": echo, "chatty": chatty})

    async def whole() -> T:
        async with open_local_host(settings_in(directory), runners=lambda _: table) as host:
            return await work(host)

    return run(whole()), table


def test_a_skill_is_invoked_and_everything_is_closed(tmp_path: Path) -> None:
    result, table = locally(tmp_path, lambda host: host.invoke("echo", {"text": "hi"}, trace_id="t-1"))
    assert (unwrap(result), result.trace_id) == ({"echoed": "hi"}, "t-1")
    assert table.closed


def test_the_schema_counts_here_too(tmp_path: Path) -> None:
    result, _ = locally(tmp_path, lambda host: host.invoke("echo", {"text": 3}))
    assert result.status == 400
    result, _ = locally(tmp_path, lambda host: host.invoke("ecko", {}))
    assert result.status == 404


def test_events_are_those_of_a_host(tmp_path: Path) -> None:
    async def kinds(host: LocalHost) -> list[tuple[str, bool]]:
        return [(event.kind, event.result is not None) async for event in host.stream("chatty", {})]

    events, _ = locally(tmp_path, kinds)
    assert events == [("start", False), ("stdout", False), ("progress", False), ("result", True)]


def test_the_skills_are_told(tmp_path: Path) -> None:
    (tmp_path / "skills_cli").mkdir()
    (tmp_path / "skills_cli" / "broken.yaml").write_text("id: [")
    skills, _ = locally(tmp_path, lambda host: host.skills())
    assert {skill.id: skill.is_ready for skill in skills} == {"broken": False, "chatty": True, "echo": True}
    assert next(skill for skill in skills if skill.id == "echo").required_fields == ("text",)


def test_a_key_that_nobody_would_remember_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="idempotency_key"):
        locally(tmp_path, lambda host: host.invoke("echo", {}, idempotency_key="k"))


def test_what_could_not_be_sent_is_refused_here_too(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="input"):
        locally(tmp_path, lambda host: host.invoke("echo", {"text": float("nan")}))
