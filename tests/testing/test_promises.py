"""A broken promise is said in a sentence; other errors say what was being checked."""

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.sync import run
from openskills.testing.promises import expect, expect_refusal, kept


async def _sky() -> None:
    """The sky is blue."""
    expect(1 > 2, "it is grey")


async def _sea() -> None:
    """The sea is blue."""
    raise ConnectionError("no sea here")


async def refused(error: Exception | None) -> None:
    if error is not None:
        raise error


def test_a_broken_promise_is_said_with_what_is_the_case() -> None:
    with pytest.raises(AssertionError, match=r"^broken promise: The sky is blue\. it is grey$"):
        run(kept(_sky, _sky()))


def test_another_error_passes_with_a_note() -> None:
    with pytest.raises(ConnectionError, match="no sea here") as raised:
        run(kept(_sea, _sea()))
    assert raised.value.__notes__ == ["while checking the promise: The sea is blue."]


def test_a_refusal_that_is_expected_is_fine() -> None:
    run(expect_refusal(refused(InvalidArgument("a", "b")), "it is taken"))
    run(expect_refusal(refused(ForbiddenPath("x")), "it is taken", (ForbiddenPath, InvalidArgument)))


def test_what_is_not_refused_is_said_with_the_error_that_was_expected() -> None:
    with pytest.raises(AssertionError, match=r"^it is taken; ForbiddenPath or InvalidArgument was expected$"):
        run(expect_refusal(refused(None), "it is taken", (ForbiddenPath, InvalidArgument)))


def test_another_refusal_than_the_expected_one_passes() -> None:
    with pytest.raises(ForbiddenPath):
        run(expect_refusal(refused(ForbiddenPath("x")), "it is taken"))
