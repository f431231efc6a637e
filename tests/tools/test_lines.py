""""""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import InvalidArgument
from openskills.tools.lines import (
    MAX_LINE_CHARS,
    UTF_16,
    LineMatch,
    LineSplitter,
    Page,
    Pager,
    SearchWindow,
    decode_page,
    detect_text_type,
    excerpt,
    find_utf8_boundary,
    is_binary,
)

DATA = st.text(alphabet="ab\n\r€😀", max_size=60).map(str.encode)
SIZES = st.integers(1, 7)


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def page(
    data: bytes, *, size: int = 3, start: int = 1, byte: int = 0, lines: int | None = None, limit: int = 8
) -> Page:
    pager = Pager(start, byte, lines, limit)
    for piece in pieces(data, size):
        pager.feed(piece)
    return pager.build_page()


@given(DATA, SIZES, st.integers(4, 20))
def test_reading_on_from_page_to_page_gives_the_whole_file(data: bytes, size: int, limit: int) -> None:
    found = b""
    line, byte = 1, 0
    while True:
        one = page(data, size=size, start=line, byte=byte, limit=limit)
        assert len(one.data) <= limit + 1
        found += one.data
        if one.next_line is None:
            break
        assert one.data
        assert one.cut
        line, byte = one.next_line, one.next_byte
    assert found == data


@given(DATA, SIZES, st.integers(1, 8), st.integers(1, 8))
def test_the_lines_that_are_asked_for_are_those_of_the_file(data: bytes, size: int, start: int, count: int) -> None:
    known = [line + b"\n" for line in data.split(b"\n")]
    known[-1] = known[-1][:-1]
    known = known if known[-1] else known[:-1]
    if start > max(len(known), 1):
        with pytest.raises(InvalidArgument, match=f"the file has {len(known)} line"):
            page(data, size=size, start=start, lines=count, limit=1000)
        return
    found = page(data, size=size, start=start, lines=count, limit=1000)
    wanted = known[start - 1 : start - 1 + count]
    assert found.data == b"".join(wanted)
    assert found.end_line == start + len(wanted) - 1
    assert found.next_line == (start + count if start - 1 + count < len(known) else None)
    assert not found.cut


@given(DATA, SIZES)
def test_all_lines_are_counted_however_the_file_comes(data: bytes, size: int) -> None:
    pager = Pager(limit=4)
    for piece in pieces(data, size):
        pager.feed(piece)
    assert pager.lines == data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


@given(st.text(alphabet="aé€😀", min_size=1, max_size=40).map(str.encode), st.integers(4, 9))
def test_no_page_cuts_a_character(data: bytes, limit: int) -> None:
    one = page(data, limit=limit)
    one.data.decode("utf-8")
    if one.next_line is not None:
        assert one.next_byte == len(one.data)
        data[one.next_byte :].decode("utf-8")


def test_a_page_ends_with_a_whole_line_if_it_has_one() -> None:
    assert page(b"ab\ncd\nefghij\n") == Page(b"ab\ncd\n", 1, 2, 3, 0, cut=True)


def test_a_line_longer_than_a_page_is_read_on_within() -> None:
    assert page(b"a\n" + b"x" * 20 + b"\n", start=2) == Page(b"x" * 8, 2, 2, 2, 8, cut=True)
    assert page(b"a\n" + b"x" * 20 + b"\nb", start=2, byte=16) == Page(b"xxxx\nb", 2, 3)


def test_a_line_that_just_fits_is_whole() -> None:
    assert page(b"x" * 8 + b"\nab") == Page(b"x" * 8 + b"\n", 1, 1, 2, cut=True)
    assert page(b"x" * 8 + b"\n") == Page(b"x" * 8 + b"\n", 1, 1)
    assert page(b"x" * 8) == Page(b"x" * 8, 1, 1)


def test_an_empty_file_has_a_page_without_lines() -> None:
    assert page(b"") == Page(b"", 1, 0)


def test_a_page_that_is_full_before_the_end_of_the_file_is_not_the_last_one() -> None:
    pager = Pager(limit=3)
    pager.feed(b"abc\n")
    assert pager.is_full
    assert pager.build_page(complete=False).next_line == 2
    assert pager.build_page().next_line is None


@pytest.mark.parametrize("data", [b"abc\ndef", b"abc"])
def test_a_byte_behind_the_end_of_its_line_is_refused_with_the_length(data: bytes) -> None:
    with pytest.raises(InvalidArgument, match="line 1 has 3 bytes"):
        page(data, byte=5)


@given(DATA, SIZES)
def test_blocks_are_whole_lines_and_together_the_file(data: bytes, size: int) -> None:
    blocks = LineSplitter()
    found = [*(blocks.feed(piece) for piece in pieces(data, size)), blocks.flush()]
    assert all(block.endswith(b"\n") for block in found if block)
    assert b"".join(found) == (data if not data or data.endswith(b"\n") else data + b"\n")
    assert blocks.shortened == 0


def test_of_a_long_line_the_beginning_is_kept_and_it_is_counted() -> None:
    blocks = LineSplitter(max_bytes=4)
    found = [*(blocks.feed(piece) for piece in pieces(b"ab\nabcdefghij\nabcd\n12345", 3)), blocks.flush()]
    assert b"".join(found) == b"ab\nabcd\nabcd\n1234\n"
    assert blocks.shortened == 2


@pytest.mark.parametrize(
    ("data", "whole"),
    [(b"abc", 3), ("aé".encode(), 3), ("aé".encode()[:-1], 1), ("😀".encode()[:3], 0), (b"\xff\xff\xff", 3), (b"", 0)],
)
def test_a_character_that_is_cut_is_not_counted(data: bytes, whole: int) -> None:
    assert find_utf8_boundary(data) == whole


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"plain\n",
        "naïve 😀".encode(),
        "Grüße aus Köln, die Straße".encode("latin-1"),
        b"\x1b[31mred\x1b[0m\n",
        b"BM",
    ],
)
def test_text_is_text_in_whatever_encoding(head: bytes) -> None:
    assert not is_binary(head)


@pytest.mark.parametrize(
    "head",
    [PNG, b"text with\0NUL", b"%PDF-1.7\n", b"\x1f\x8b\x08", "a,b\n".encode("utf-16"), bytes(range(128, 256)) * 9],
)
def test_what_is_not_text_is_known_by_its_first_bytes(head: bytes) -> None:
    assert is_binary(head)


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("a.csv", b"a,b\n", "text/csv"),
        ("a.csv", "Köln".encode("latin-1"), "text/plain"),
        ("a.txt", PNG, "image/png"),
        ("a.csv", "a,b\n".encode("utf-16"), UTF_16),
        ("a", b"\0\1\2", "application/octet-stream"),
    ],
)
def test_a_kind_tells_text_from_the_rest(name: str, head: bytes, kind: str) -> None:
    assert detect_text_type(name, head) == kind


def text(data: bytes, *, is_beginning: bool = True) -> tuple[str, tuple[str, ...]]:
    found = decode_page(Page(data, 1, 1), is_beginning=is_beginning)
    return found.text, found.notes


def test_plain_text_is_shown_as_it_is() -> None:
    assert text("naïve\n\tx\u2028\n".encode()) == ("naïve\n\tx\u2028\n", ())


def test_a_byte_order_mark_is_taken_away_and_said() -> None:
    assert text(b"\xef\xbb\xbfa") == ("a", ("byte order mark not shown",))
    assert text(b"\xef\xbb\xbfa", is_beginning=False) == ("\ufeffa", ())


def test_windows_line_ends_become_ordinary_ones_and_are_said() -> None:
    assert text(b"a\r\nb\rc\r\n") == ("a\nb\rc\n", ("lines end with CRLF",))


@pytest.mark.parametrize("data", [b"a\xffb", b"a\0b"])
def test_what_is_not_text_in_a_text_is_replaced_and_said(data: bytes) -> None:
    assert text(data) == ("a\ufffdb", ("bytes that are not UTF-8 are shown as \ufffd",))


LINES = st.lists(st.sampled_from(["x", "a", "b"]), max_size=12)


def hits(lines: Sequence[str], context: int, size: int) -> list[LineMatch]:
    window = SearchWindow(context)
    found: list[LineMatch] = []
    for start in range(0, len(lines), size):
        block = "".join(f"{line}\n" for line in lines[start : start + size])
        found += looked(window, window.add(block))
    return found + looked(window, window.add("", last=True))


def looked(window: SearchWindow, text: str) -> list[LineMatch]:
    return window.take([(place, 0) for place, line in enumerate(text.split("\n")) if line == "x"])


@given(LINES, st.integers(0, 4), st.integers(1, 5))
def test_every_match_has_the_lines_around_it_however_the_file_comes(lines: list[str], context: int, size: int) -> None:
    assert hits(lines, context, size) == [
        LineMatch(
            place + 1,
            "x",
            tuple(lines[max(0, place - context) : place]),
            tuple(lines[place + 1 : place + 1 + context]),
        )
        for place, line in enumerate(lines)
        if line == "x"
    ]


def test_a_long_line_is_cut_around_its_match() -> None:
    line = "a" * 5000 + "needle" + "b" * 5000
    shown = excerpt(line, line.index("needle"))
    assert "needle" in shown
    assert len(shown) == MAX_LINE_CHARS + 2
    assert shown[0] == shown[-1] == "…"


def test_a_cut_line_is_marked_only_where_it_was_cut() -> None:
    assert excerpt("a" * 1000) == "a" * MAX_LINE_CHARS + "…"
    assert excerpt("a" * 1000, 999) == "…" + "a" * MAX_LINE_CHARS
    assert excerpt("a" * MAX_LINE_CHARS) == "a" * MAX_LINE_CHARS
