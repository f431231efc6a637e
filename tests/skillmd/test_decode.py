import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.skillmd.decode import decode, too_large
from openskills.skillmd.limits import MAX_FILE_BYTES
from openskills.skillmd.problem import Problem
from tests.skillmd.strategies import relaxed


def refused(data: bytes) -> Problem:
    text, problem = decode(data)
    assert text == ""
    assert problem is not None
    return problem


@relaxed
@given(st.binary())
def test_bytes_become_their_text_or_a_problem(data: bytes) -> None:
    text, problem = decode(data)
    assert (text.encode() == data) != (problem is not None) or (not data and problem is None)


def test_utf8_text_is_given_unchanged_with_its_byte_order_mark() -> None:
    assert decode("\ufeffnäme\r\n".encode()) == ("\ufeffnäme\r\n", None)


def test_a_byte_that_is_not_utf8_is_named_with_line_and_column() -> None:
    problem = refused("first\r\nça\rcaf".encode() + b"\xe9\n")
    assert (problem.rule, problem.line, problem.column) == ("text-encoding", 3, 4)
    assert "0xe9" in problem.message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_utf16_is_refused(encoding: str) -> None:
    assert refused("\ufeff---\nname: ü\n".encode(encoding)).rule in ("text-encoding", "text-nul")


def test_utf16_with_a_mark_is_called_by_its_name() -> None:
    assert "UTF-16" in refused("---\n".encode("utf-16")).message


def test_a_nul_is_refused_with_its_place() -> None:
    problem = refused(b"one\ntwo\0three")
    assert (problem.rule, problem.line, problem.column) == ("text-nul", 2, 4)


def test_a_file_of_exactly_the_limit_is_read_and_one_byte_more_is_not() -> None:
    assert decode(b"a" * MAX_FILE_BYTES)[1] is None
    problem = refused(b"a" * (MAX_FILE_BYTES + 1))
    assert problem == too_large(MAX_FILE_BYTES + 1)
    assert "1,048,577" in problem.message
