import pytest

from openskills.tools.contents import UTF_16, is_binary, kind_of, text_of
from openskills.tools.lines import Page

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
def test_what_is_no_text_is_known_by_its_first_bytes(head: bytes) -> None:
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
    assert kind_of(name, head) == kind


def text(data: bytes, *, is_beginning: bool = True) -> tuple[str, tuple[str, ...]]:
    found = text_of(Page(data, 1, 1), is_beginning=is_beginning)
    return found.text, found.notes


def test_plain_text_is_shown_as_it_is() -> None:
    assert text("naïve\n\tx\u2028\n".encode()) == ("naïve\n\tx\u2028\n", ())


def test_a_byte_order_mark_is_taken_away_and_said() -> None:
    assert text(b"\xef\xbb\xbfa") == ("a", ("a byte order mark at the beginning is not shown",))
    assert text(b"\xef\xbb\xbfa", is_beginning=False) == ("\ufeffa", ())


def test_windows_line_ends_become_ordinary_ones_and_are_said() -> None:
    assert text(b"a\r\nb\rc\r\n") == ("a\nb\rc\n", ("lines end with CRLF",))


@pytest.mark.parametrize("data", [b"a\xffb", b"a\0b"])
def test_what_is_no_text_in_a_text_is_replaced_and_said(data: bytes) -> None:
    assert text(data) == ("a\ufffdb", ("bytes that are not UTF-8 are shown as \ufffd",))
