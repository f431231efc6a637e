"""The parts of a running host, opened and closed together."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from openskills import host
from openskills.errors import InvalidArgument
from openskills.host.parts import HostOptions, open_parts
from openskills.host.runners.kinds import RUNNER_KINDS, find_installed_kinds
from openskills.host.tables import STEPS
from tests.host.hosting import FunctionTable, manifest, settings_in


async def test_what_was_opened_is_closed(tmp_path: Path) -> None:
    manifest(tmp_path, "echo")
    table = FunctionTable({})

    parts = await open_parts(settings_in(tmp_path), HostOptions(json_log=str(tmp_path / "log")), table)
    assert [each.id for each in parts.registry.list_registrations()] == ["echo"]
    assert not table.closed
    await parts.close()

    assert table.closed
    assert (tmp_path / "log").read_bytes() == b""


async def test_a_directory_that_is_none_is_reported(tmp_path: Path) -> None:
    options = HostOptions(manifests=(tmp_path / "nowhere",), json_log="")
    with pytest.raises(InvalidArgument, match="--manifests"):
        await open_parts(settings_in(tmp_path), options, FunctionTable({}))


def test_every_kind_that_some_runner_takes_may_stand_in_a_manifest() -> None:
    assert {"cli:python", "cli:exec", "http", "docker", "inproc"} <= {*RUNNER_KINDS, *find_installed_kinds()}


def test_every_public_name_is_there() -> None:
    assert {getattr(host, name).__name__ for name in host.__all__} == set(host.__all__)


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        getattr(host, "Clinet")  # noqa: B009 - a name that a type checker would refuse


def test_importing_the_package_loads_nothing_heavy_and_its_client_needs_no_extra() -> None:
    program = (
        "import sys, openskills.host\n"
        "assert 'asyncio' not in sys.modules\n"
        "openskills.host.Client\n"
        "assert not {'fastapi', 'orjson', 'jsonschema_rs', 'uvicorn', 'prometheus_client'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-I", "-c", program], check=True, timeout=60)


def test_the_steps_make_every_table_from_nothing() -> None:
    connection = sqlite3.connect(":memory:")
    for step in STEPS:
        for sql in step:
            connection.execute(sql)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    console = {"console_links", "console_sessions"}
    shared = {"workers", "api_keys", "rate_buckets", "host_changes", "history_starts"}
    assert names == {"history", "history_content", "answers", "runs", "run_events"} | console | shared
