"""What goes wrong before a skill is reached."""

import inspect
from collections.abc import Callable

import pytest

from openskills.host.result import Failure
from openskills.host.wire import faults

MADE: list[Callable[[], Failure]] = [
    lambda: faults.unknown_address("/" + "x" * 1000),
    lambda: faults.unknown_verb(":" + "x" * 1000, [":invoke"]),
    lambda: faults.wrong_method("X" * 1000, ["GET"]),
    lambda: faults.body_too_large(None, 10),
    lambda: faults.body_too_large(11, 10),
    lambda: faults.body_too_slow(1.5),
    lambda: faults.bad_length("x" * 1000),
    lambda: faults.no_http("x"),
    lambda: faults.head_too_large(10),
    lambda: faults.head_too_slow(20.0),
    faults.draining,
    faults.starting,
    lambda: faults.misdirected("x" * 1000),
    lambda: faults.internal("t-1"),
    lambda: faults.other(418, "x" * 1000),
]


@pytest.mark.parametrize("make", MADE)
def test_every_fault_has_a_status_a_word_and_a_sentence_of_bounded_length(make: Callable[[], Failure]) -> None:
    failure = make()
    assert 400 <= failure.code <= 599
    assert failure.details["reason"]
    assert 10 < len(failure.message) < 400
    assert isinstance(failure.details["retryable"], bool)


def test_no_fault_is_left_out_here() -> None:
    made = {name for name, _ in inspect.getmembers(faults, inspect.isfunction) if not name.startswith("_")}
    assert {make().details["reason"] for make in MADE}
    assert len(MADE) == len(made) + 1


def test_a_refusal_says_what_its_failure_says() -> None:
    refused = faults.Refused(faults.starting(), close=True)
    assert str(refused) == refused.failure.message
