"""What the host and the processes of calls say to each other."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.host.running.fork_protocol import Ended, Frames, encoded_call


def answer(stdout: bytes, stderr: bytes, *, status: int = 0, flags: int = 0, names: bytes = b"") -> bytes:
    """An answer as the other side writes it."""
    frames = [struct.pack("!cI", kind, len(data)) + data for kind, data in ((b"o", stdout), (b"e", stderr)) if data]
    end = struct.pack("!iQQQQB", status, 1500, 9000, len(stdout), len(stderr), flags) + names
    return b"".join(frames) + struct.pack("!cI", b"x", len(end)) + end


@given(st.binary(max_size=300), st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=30))
def test_an_answer_arrives_whole_in_pieces_of_any_size(stdout: bytes, stderr: bytes, sizes: list[int]) -> None:
    data, frames, ended = answer(stdout, stderr), Frames(), None
    for size in (*sizes, len(data)):
        if ended is None and data:
            ended = frames.feed(data[:size])
            data = data[size:]
    assert ended == Ended(0, stdout, stderr, len(stdout), len(stderr), False, False, True, 1.5, 9000)
    assert b"".join(part for stream, part in frames.fresh if stream == "stdout") == stdout


@pytest.mark.parametrize(("status", "returncode"), [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, -9), (6 | 0x80, -6)])
def test_the_status_of_the_kernel_becomes_an_exit_status_or_a_signal(status: int, returncode: int) -> None:
    ended = Frames().feed(answer(b"", b"", status=status))
    assert ended is not None
    assert ended.returncode == returncode


def test_flags_and_names_are_read() -> None:
    ended = Frames().feed(answer(b"", b"", flags=1 | 2 | 4, names=b"a,b.c"))
    assert ended is not None
    assert (ended.stale, ended.cut, ended.clean, ended.imported) == (True, True, False, ("a", "b.c"))


@given(st.binary(max_size=100))
def test_other_bytes_are_refused_or_waited_for(data: bytes) -> None:
    try:
        Frames().feed(data)
    except ValueError:
        return


def test_a_call_has_its_length_variables_and_input() -> None:
    message = encoded_call(b"{}", {"A": "1", "B": "ä"}, live=True)
    assert message == struct.pack("!IBI", 9 + 4 + 5 + 2, 1, 9) + "A=1\0B=ä\0".encode() + b"{}"


@pytest.mark.parametrize(("name", "value"), [("A", "x\0y"), ("A=B", "x"), ("", "x")])
def test_what_cannot_be_a_variable_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}$"):
        encoded_call(b"", {name: value}, live=False)
