"""Secrets are in nothing that a skill says."""

from typing import Any

import pytest

from openskills.host.masking import masked_listener, masked_outcome
from openskills.host.result import Failure, failed, ok
from openskills.host.runner import Emitted

SECRETS = {"TOKEN": "hunter22"}


def test_text_is_masked_wherever_it_is() -> None:
    outcome = ok({"a": ["x hunter22", {"hunter22": 1}], "n": None}, version="hunter22", notes={"b": ("hunter22",)})
    found = masked_outcome(outcome, SECRETS)
    assert found.data == {"a": ["x [secret TOKEN]", {"[secret TOKEN]": 1}], "n": None}
    assert (found.version, found.notes) == ("[secret TOKEN]", {"b": ["[secret TOKEN]"]})


def test_a_failure_keeps_everything_else() -> None:
    outcome = failed(Failure(503, "hunter22 is wrong", {"reason": "X", "n": 5, "key": "hunter22"}, 2.0))
    wanted = Failure(503, "[secret TOKEN] is wrong", {"reason": "X", "n": 5, "key": "[secret TOKEN]"}, 2.0)
    assert masked_outcome(outcome, SECRETS).failure == wanted


@pytest.mark.parametrize("secrets", [{}, {"SHORT": "abc"}])
def test_where_there_is_nothing_to_hide_nothing_is_looked_at(secrets: dict[str, str]) -> None:
    outcome = ok({"a": "abc"})
    shown: list[Emitted] = []
    assert masked_outcome(outcome, secrets) is outcome
    assert masked_listener(shown.append, secrets) == shown.append


def test_what_is_nested_too_deeply_to_be_looked_through_is_not_shown() -> None:
    data: dict[str, Any] = {"key": "hunter22"}
    for _ in range(100_000):
        data = {"in": data}
    failure = masked_outcome(ok(data), SECRETS).failure
    assert failure is not None
    assert (failure.code, failure.details["reason"]) == (502, "BAD_SKILL_OUTPUT")


def test_a_listener_is_told_the_names() -> None:
    shown: list[Emitted] = []
    masked_listener(shown.append, SECRETS)(Emitted("progress", {"text": "hunter22"}))
    assert shown == [Emitted("progress", {"text": "[secret TOKEN]"})]
