"""What is remembered about folders."""

from pathlib import Path

import pytest

from openskills.executors.staging.snapshot_records import Record, Records
from openskills.executors.staging.survey import Item, Kind

ITEMS = [
    Item("a\udcff\n", Kind.FILE, (1, 2, 3, 4, 5)),
    Item("b", Kind.LEFT_OUT, (6,), "why"),
    Item("c", Kind.LINK, (7,), target="../d\udcff"),
]
RECORD = Record(ITEMS, "d", 1, 2, True)


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    records = Records(tmp_path / "records")
    assert records.get("/some/folder") is None
    records.put("/some/folder", RECORD)
    assert Records(tmp_path / "records").get("/some/folder") == RECORD
    assert records.get("/other") is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"{}", b'{"version": 1}', b"null", b"\xff\xfe"])
def test_a_damaged_record_is_no_record(tmp_path: Path, damage: bytes) -> None:
    records = Records(tmp_path)
    records.put("/some/folder", RECORD)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage)
    assert records.get("/some/folder") is None
    records.forget_all_but({"d"})
    assert list(tmp_path.iterdir()) == []


def test_records_of_snapshots_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.put("/some/folder", RECORD)
    records.forget_all_but({"d"})
    assert records.get("/some/folder")
    records.forget_all_but(set())
    assert records.get("/some/folder") is None
