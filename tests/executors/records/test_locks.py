"""A lock counts as long as its file has its name, and can be looked at without being in the way."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from openskills.executors.records import locks


def test_one_at_a_time_has_it(tmp_path: Path) -> None:
    first = locks.take(tmp_path)
    assert first is not None
    assert locks.take(tmp_path) is None
    locks.give_back(first)
    second = locks.take(tmp_path)
    assert second is not None
    locks.give_back(second)


def test_without_a_directory_there_is_nothing_to_lock(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        locks.take(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        locks.look(tmp_path / "gone")


def test_who_has_it_can_be_seen(tmp_path: Path) -> None:
    assert not locks.look(tmp_path).held
    held = locks.take(tmp_path)
    assert held is not None
    assert (locks.look(tmp_path).held, locks.look(tmp_path).holder) == (True, None)
    locks.sign(held)
    assert locks.look(tmp_path).holder == os.getpid()
    locks.give_back(held)
    assert (locks.look(tmp_path).held, locks.look(tmp_path).holder) == (False, None)


def test_a_directory_that_was_made_anew_has_a_lock_of_its_own(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    old = locks.take(place)
    assert old is not None
    shutil.move(place, tmp_path / "elsewhere")
    place.mkdir()
    new = locks.take(place)
    assert new is not None
    locks.give_back(old)
    assert locks.take(place) is None
    locks.give_back(new)


def test_those_who_look_do_not_keep_others_from_taking_it(tmp_path: Path) -> None:
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            locks.look(tmp_path)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(300):
            held = locks.take(tmp_path)
            assert held is not None
            locks.give_back(held)
    finally:
        done.set()
        for looker in lookers:
            looker.join()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / locks.NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        locks.take(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
