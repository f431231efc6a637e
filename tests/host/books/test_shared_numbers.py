"""Numbers of several workers in files."""

import time
from pathlib import Path
from typing import Any

from openskills.host.books.shared_numbers import SharedNumbers


def numbers(value: int) -> dict[str, Any]:
    return {"value": value}


def until_parts(shared: SharedNumbers, expected: list[int]) -> None:
    deadline = time.monotonic() + 30
    while sorted(part["value"] for part in shared.parts()) != expected:
        assert time.monotonic() < deadline, shared.parts()
        time.sleep(0.01)


def test_each_sees_what_the_others_wrote_and_its_own_at_once(tmp_path: Path) -> None:
    first = SharedNumbers(tmp_path / "numbers", lambda: numbers(1))
    second = SharedNumbers(tmp_path / "numbers", lambda: numbers(2))
    assert first.parts()[0] == {"value": 1}
    # Written by a thread, without anybody asking for it.
    until_parts(first, [1, 2])
    until_parts(second, [1, 2])
    first.close()
    second.close()


def test_what_was_there_at_the_end_stays(tmp_path: Path) -> None:
    SharedNumbers(tmp_path, lambda: numbers(1)).close()
    second = SharedNumbers(tmp_path, lambda: numbers(2))
    assert second.parts() == [{"value": 2}, {"value": 1}]
    second.close()


def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "worker-1-a.json").write_text("{")
    (tmp_path / "worker-2-b.json").mkdir()
    shared = SharedNumbers(tmp_path, lambda: numbers(1))
    assert shared.parts() == [{"value": 1}]
    shared.close()


def test_a_directory_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    shared = SharedNumbers(tmp_path / "numbers", lambda: numbers(1))
    (tmp_path / "numbers").rename(tmp_path / "away")
    shared.close()
    assert shared.parts() == [{"value": 1}]
