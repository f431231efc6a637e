"""The parts of a running host, opened and closed together."""

from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.host.parts import HostOptions, list_kinds, open_parts
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


async def test_a_directory_that_is_none_is_told(tmp_path: Path) -> None:
    options = HostOptions(manifests=(tmp_path / "nowhere",), json_log="")
    with pytest.raises(InvalidArgument, match="--manifests"):
        await open_parts(settings_in(tmp_path), options, FunctionTable({}))


def test_every_kind_that_some_runner_takes_may_stand_in_a_manifest() -> None:
    assert {"cli:python", "cli:exec", "http", "docker", "inproc"} <= set(list_kinds())
