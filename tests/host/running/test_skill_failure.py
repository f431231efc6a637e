"""What a skill says went wrong."""

from openskills.errors import BadSkillOutput, DeadlineExceeded, InvalidArgument
from openskills.host.running.skill_failure import NUMBERS, skill_failure


def test_every_word_of_our_errors_has_its_number() -> None:
    for error in (BadSkillOutput, DeadlineExceeded, InvalidArgument):
        assert NUMBERS[error.reason] == error.code


def test_a_word_of_the_skill_in_the_details_is_kept_beside_a_number() -> None:
    failure = skill_failure({"code": 409, "message": "m", "details": {"reason": "ALREADY_THERE"}})
    assert (failure.code, failure.details["reason"]) == (409, "ALREADY_THERE")


def test_the_word_that_is_the_code_counts_more_than_the_one_in_the_details() -> None:
    failure = skill_failure({"code": "NOT_FOUND", "message": "m", "details": {"reason": "ELSE"}})
    assert (failure.code, failure.details["reason"]) == (404, "NOT_FOUND")


def test_details_that_are_no_object_become_one() -> None:
    assert skill_failure({"code": 400, "message": "m", "details": [1]}).details["value"] == [1]


def test_an_endless_message_is_cut() -> None:
    assert len(skill_failure({"code": 400, "message": "m" * 100_000}).message) == 4000
