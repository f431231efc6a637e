"""What is remembered about a workspace comes back, or counts as not there."""

import json
import os
from pathlib import Path

import pytest

from openskills.executors.records.records import Record, WorkspaceInfo, read_record, write_record

RECORD = Record(key="app/user/s\n\udcff", executor="sandbox", created=1.5, ttl=60.0, uid=61000)


def test_a_record_comes_back_and_is_for_us_only(tmp_path: Path) -> None:
    for record in (RECORD, Record("k", "local", 0.0, 0.0)):
        write_record(tmp_path, record)
        assert read_record(tmp_path) == record
    assert os.stat(tmp_path / "record.json").st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "\ufffe", "{}", json.dumps({"key": "k", "executor": "e", "created": "?", "ttl": 1})]
)
def test_a_record_that_cannot_be_understood_counts_as_not_there(text: str, tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text(text)
    assert read_record(tmp_path) is None


def test_a_link_in_the_place_of_a_record_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    write_record(tmp_path / "other", RECORD)
    (tmp_path / "record.json").symlink_to("other/record.json")
    assert read_record(tmp_path) is None


@pytest.mark.parametrize(
    ("idle", "in_use", "expired"), [(61.0, False, True), (59.0, False, False), (61.0, True, False)]
)
def test_a_workspace_expires_when_nobody_uses_it(idle: float, in_use: bool, expired: bool) -> None:
    info = WorkspaceInfo("id", "k", "local", 0, 0, age=100.0, idle=idle, ttl=60.0, in_use=in_use)
    assert info.expired is expired
