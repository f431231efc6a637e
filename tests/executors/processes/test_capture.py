from hypothesis import given
from hypothesis import strategies as st

from openskills.executors.processes.capture import Capture, Ring

PIECES = st.lists(st.binary(max_size=40), max_size=30)


@given(PIECES, st.integers(0, 64))
def test_a_capture_keeps_the_head_and_the_tail_and_counts_the_rest(pieces: list[bytes], limit: int) -> None:
    capture = Capture(limit)
    for piece in pieces:
        capture.add(piece)
    whole, kept = b"".join(pieces), capture.captured()
    assert len(kept.head) + len(kept.tail) <= limit
    assert kept.total == len(whole)
    assert whole.startswith(kept.head)
    assert whole.endswith(kept.tail)
    if len(whole) <= limit:
        assert kept.head + kept.tail == whole
        assert kept.cut == 0


def test_a_full_capture_uses_all_of_its_room() -> None:
    capture = Capture(10)
    for _ in range(1000):
        capture.add(b"abc")
    kept = capture.captured()
    assert len(kept.head) == len(kept.tail) == 5
    assert capture.full


@given(PIECES, st.integers(1, 32))
def test_a_ring_gives_every_byte_once_to_who_reads_in_time(pieces: list[bytes], limit: int) -> None:
    ring = Ring(1000)
    seen, offset = b"", 0
    for piece in pieces:
        ring.add(piece)
        output = ring.read(offset, limit, ended=False)
        seen, offset = seen + output.data, output.next_offset
    while (output := ring.read(offset, limit, ended=True)).data:
        seen, offset = seen + output.data, output.next_offset
    assert output.ended
    assert seen == b"".join(pieces)


def test_a_ring_says_how_much_a_late_reader_has_missed() -> None:
    ring = Ring(4)
    for _ in range(10):
        ring.add(b"0123456789")
    output = ring.read(0, 100, ended=False)
    assert output.missed == output.offset
    assert output.offset + len(output.data) == output.next_offset == 100
    assert 4 <= len(output.data) <= 18


def test_an_offset_beyond_the_end_reads_nothing() -> None:
    ring = Ring(10)
    ring.add(b"abc")
    output = ring.read(99, 10, ended=False)
    assert (output.data, output.next_offset, output.missed) == (b"", 3, 0)
