"""The exception tree: one table of codes and reasons, sentences for people."""

import inspect
import re

import pytest

from openskills import errors
from openskills.errors import InvalidArgument, InvalidSkill, MissingExtra, SkillError, UnknownSkill


def all_errors() -> list[type[SkillError]]:
    return [
        value
        for _, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, SkillError) and value.__module__ == errors.__name__
    ]


def test_the_drawing_at_the_head_of_the_module_is_the_tree() -> None:
    drawn = {
        name: (int(code), reason)
        for name, code, reason in re.findall(r"^ +(\w+) +(\d{3}) ([A-Z_]+)", errors.__doc__ or "", re.MULTILINE)
    }
    assert drawn == {error.__name__: (error.code, error.reason) for error in all_errors()}


def test_what_is_drawn_as_retryable_is_retryable() -> None:
    drawn = set(re.findall(r"^ +(\w+) +\d{3} [A-Z_]+ +retryable", errors.__doc__ or "", re.MULTILINE))
    assert drawn == {error.__name__ for error in all_errors() if error.retryable}


def test_every_reason_is_used_once() -> None:
    reasons = [error.reason for error in all_errors()]
    assert len(reasons) == len(set(reasons))


@pytest.mark.parametrize("error", all_errors(), ids=lambda error: error.__name__)
def test_every_error_says_what_it_means(error: type[SkillError]) -> None:
    assert error.__doc__
    assert 400 <= error.code < 600


def test_an_error_carries_its_sentence_and_its_details() -> None:
    error = errors.LimitExceeded("the file has 12 bytes too many", limit=100, size=112)
    assert str(error) == error.message == "the file has 12 bytes too many"
    assert error.details == {"limit": 100, "size": 112}


def test_an_unknown_skill_names_the_nearest() -> None:
    assert str(UnknownSkill("pfd")) == "unknown skill 'pfd'"
    error = UnknownSkill("pfd", near=["pdf", "pdf-tools"])
    assert str(error) == "unknown skill 'pfd'; did you mean 'pdf' or 'pdf-tools'?"
    assert (error.name, error.near) == ("pfd", ("pdf", "pdf-tools"))
    assert error.details == {"name": "pfd", "near": ["pdf", "pdf-tools"]}


def test_a_name_of_any_length_makes_a_short_sentence() -> None:
    error = UnknownSkill("x" * 2_000_000, near=["pdf"])
    assert str(error) == f"unknown skill '{'x' * 100}…'; did you mean 'pdf'?"
    assert len(str(error.details)) < 200


def test_an_invalid_argument_names_its_field() -> None:
    error = InvalidArgument("limit", "must be positive")
    assert str(error) == "limit: must be positive"
    assert error.field == error.details["field"] == "limit"


def test_an_invalid_skill_carries_its_problems() -> None:
    assert InvalidSkill("2 problems", ["a", "b"]).problems == ("a", "b")
    assert InvalidSkill("unreadable").problems == ()


def test_a_missing_extra_has_the_line_that_installs_it() -> None:
    error = MissingExtra("tokens", "exact token counting")
    assert "pip install 'openskill-runtime[tokens]'" in str(error)
    assert error.extra == error.details["extra"] == "tokens"
