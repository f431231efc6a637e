import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.executors.spec import Captured, Command


def test_text_that_was_cut_says_how_much_is_missing() -> None:
    captured = Captured(b"begin", b"end", cut=1000)
    assert captured.text() == "begin\n[... 1,000 bytes not kept ...]\nend"
    assert captured.bytes() == b"begin\n[... 1000 bytes not kept ...]\nend"
    assert captured.total == 1008


@pytest.mark.parametrize("cut_at", range(1, 12))
def test_a_cut_never_leaves_half_a_character(cut_at: int) -> None:
    whole = "é漢😀ß".encode()
    captured = Captured(whole[:cut_at], whole[cut_at:], cut=5)
    assert "\ufffd" not in captured.text()


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_invalid_utf8_survives_as_bytes_and_is_readable_as_text(head: bytes, tail: bytes) -> None:
    captured = Captured(head, tail)
    assert captured.bytes() == head + tail
    assert captured.text() == (head + tail).decode("utf-8", "replace")


def test_a_command_does_not_show_its_secrets_or_its_input() -> None:
    shown = repr(Command(("true",), secrets={"KEY": "hunter2"}, stdin=b"password"))
    assert "hunter2" not in shown
    assert "password" not in shown
