"""Logs are read back as they were written; what a crash cut short is not there, other damage is noticed."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.artifacts.records import LONGEST, DamagedLog, Entry, ending_of, mark_of, record_of, versions_in
from openskills.artifacts.ref import MAX_NAME
from openskills.artifacts.store import MAX_ID, Artifact

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
OWNER = ("app", "user", "session")


def version(number: int, name: str = "out/a b.txt") -> Artifact:
    return Artifact(name, number, 3, "text/plain", f"{number:064x}", NOW)


def log_of(count: int, first: int = 0) -> bytes:
    mark = mark_of(first) if first else b""
    return mark + b"".join(record_of(version(number), OWNER) for number in range(first, first + count))


def test_versions_come_back_in_order() -> None:
    assert versions_in(log_of(3)) == (version(0), version(1), version(2))
    assert versions_in(b"") == ()


def test_after_a_mark_numbers_go_on() -> None:
    assert versions_in(log_of(2, first=5)) == (version(5), version(6))
    assert versions_in(mark_of(5)) == ()
    assert ending_of(mark_of(5)) is not None


def test_a_mark_forgets_what_is_before_it() -> None:
    assert versions_in(log_of(2) + mark_of(2)) == ()
    assert versions_in(log_of(2) + mark_of(2) + record_of(version(2), OWNER)) == (version(2),)
    last = ending_of(log_of(2) + mark_of(2))
    assert last
    assert last.entry == Entry(2)


def test_the_end_of_a_log_says_the_next_number_and_where_whole_lines_end() -> None:
    log = log_of(2)
    for tail in (b"", b"\0\0\0", b"deadbeef {", b"12345678 {}\n", b"\n\n"):
        last = ending_of(log + tail)
        assert last
        assert (last.entry, last.position) == (Entry(2, version(1)), len(log))
    assert ending_of(b"") is None
    assert ending_of(b"half a line") is None
    assert ending_of(b"not whole\n") is None


def test_the_end_can_be_read_from_the_last_bytes_only() -> None:
    log = log_of(5)
    line = record_of(version(4), OWNER)
    assert ending_of(log[-len(line) :], offset=len(log) - len(line)) == ending_of(log)
    assert ending_of(log[-len(line) - 7 :], offset=len(log) - len(line) - 7) == ending_of(log)
    assert ending_of(log[-len(line) + 1 :], offset=len(log) - len(line) + 1) is None


def test_a_line_that_was_cut_short_anywhere_is_not_there() -> None:
    whole, line = log_of(2), record_of(version(2), OWNER)
    for length in range(len(line)):
        cut = whole + line[:length]
        assert len(versions_in(cut)) == 2
        last = ending_of(cut)
        assert last
        assert last.position == len(whole)


@pytest.mark.parametrize(
    "log",
    [
        log_of(1) + b"garbage\n" + record_of(version(1), OWNER),
        record_of(version(1), OWNER),
        log_of(2) + record_of(version(3), OWNER),
        log_of(2) + record_of(version(1), OWNER),
        log_of(2) + mark_of(1),
        log_of(2) + mark_of(3),
        b"00000000 \n",
    ],
    ids=["hole", "begins late", "gap", "twice", "mark too early", "mark too late", "no record"],
)
def test_damage_that_no_crash_leaves_is_noticed(log: bytes) -> None:
    with pytest.raises(DamagedLog, match="a record"):
        versions_in(log)


def test_a_changed_byte_in_an_older_record_is_noticed() -> None:
    log = bytearray(log_of(3))
    for place in range(0, len(log_of(1)) - 1, 7):
        damaged = bytes(log[:place]) + bytes([log[place] ^ 1]) + bytes(log[place + 1 :])
        with pytest.raises(DamagedLog):
            versions_in(damaged)


def test_the_longest_names_and_ids_make_no_longer_lines_than_said() -> None:
    owner = ("\0" * MAX_ID,) * 3
    widest = Artifact("𝔸" * MAX_NAME, 10**17, 10**15, "a/" + '"' * 253, "f" * 64, NOW)
    assert len(record_of(widest, owner)) < LONGEST


names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)


@given(names, st.lists(st.sampled_from("abc"), max_size=5), st.binary(max_size=60))
def test_any_name_survives_and_no_tail_adds_a_version(name: str, owner: list[str], tail: bytes) -> None:
    log = record_of(version(0, name), tuple(owner)) + record_of(version(1, name), tuple(owner))
    expected = (version(0, name), version(1, name))
    assert versions_in(log) == expected
    assert versions_in(log + tail) == expected
