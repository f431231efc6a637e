"""Who may ask again, and when."""

import pytest

from openskills.agent.retrying import Retries
from openskills.host.calling.retries import again_answered, again_unanswered, again_unsent, is_json

RETRIES = Retries(attempts=3, pause=1.0, longest_pause=8.0, longest_retry_after=30.0)
HTML = {"content-type": "text/html"}
JSON = {"content-type": "application/json; charset=utf-8"}


def after(status: int, headers: dict[str, str], *, tried: int = 1, repeatable: bool = False) -> float | None:
    return again_answered(RETRIES, tried, 0.0, status, headers, repeatable=repeatable)


def test_what_never_left_is_sent_again_with_growing_pauses_made_shorter_by_chance() -> None:
    assert [again_unsent(RETRIES, tried, 0.0) for tried in (1, 2, 3)] == [1.0, 2.0, None]
    assert again_unsent(RETRIES, 1, 1.0) == 0.5


def test_what_may_have_arrived_is_sent_again_only_if_that_does_no_harm() -> None:
    assert again_unanswered(RETRIES, 1, 0.0, repeatable=False) is None
    assert again_unanswered(RETRIES, 1, 0.0, repeatable=True) == 1.0


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_host_is_asked_again_when_it_said_when(status: int) -> None:
    assert after(status, {**JSON, "retry-after": "2"}) == 3.0
    assert after(status, JSON) is None
    assert after(status, {**JSON, "retry-after": "soon"}) is None


def test_a_host_that_wants_us_to_stay_away_for_long_is_not_asked_again() -> None:
    assert after(429, {"retry-after": "31"}) is None


def test_a_date_counts_only_beside_the_clock_of_the_server() -> None:
    date = {"retry-after": "Sun, 15 Nov 2026 10:00:05 GMT"}
    assert after(503, date) is None
    assert after(503, {**date, "date": "Sun, 15 Nov 2026 10:00:00 GMT"}) == 6.0


@pytest.mark.parametrize("status", [502, 504])
def test_a_gateway_is_asked_again_only_with_an_idempotency_key(status: int) -> None:
    assert after(status, HTML) is None
    assert after(status, HTML, repeatable=True) == 1.0
    assert after(status, {**HTML, "retry-after": "4"}, repeatable=True) == 5.0


@pytest.mark.parametrize("status", [502, 504])
def test_a_result_of_the_skill_is_no_gateway(status: int) -> None:
    assert after(status, JSON, repeatable=True) is None


def test_a_run_of_the_same_key_that_goes_on_is_waited_for() -> None:
    assert after(409, {**JSON, "retry-after": "1"}, repeatable=True) == 2.0
    assert after(409, {**JSON, "retry-after": "1"}) is None
    assert after(409, JSON, repeatable=True) is None


@pytest.mark.parametrize("status", [200, 400, 401, 404, 413, 422, 500, 501])
def test_every_other_answer_counts(status: int) -> None:
    assert after(status, {**HTML, "retry-after": "1"}, repeatable=True) is None


def test_there_is_an_end_to_it() -> None:
    assert after(429, {"retry-after": "1"}, tried=3) is None


def test_json_is_known_by_its_type() -> None:
    assert is_json(JSON)
    assert not is_json(HTML)
    assert not is_json({})
