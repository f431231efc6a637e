"""A bucket of tokens, with a time that the test brings."""

import pytest

from openskills.host.books.rate_limit import Bucket, RateState, burst_of


def test_a_full_bucket_gives_its_burst_and_then_says_how_long_to_wait() -> None:
    bucket = Bucket(rate=2.0, burst=3, now=100.0)
    assert [bucket.take(100.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 0.5]


def test_it_fills_with_time_and_never_beyond_its_burst() -> None:
    bucket = Bucket(rate=2.0, burst=3, now=0.0)
    for _ in range(3):
        bucket.take(0.0)
    assert bucket.take(0.25) == pytest.approx(0.25)
    assert bucket.take(0.5) == 0.0
    assert [bucket.take(1_000.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_time_that_goes_back_fills_nothing() -> None:
    bucket = Bucket(rate=1.0, burst=1, now=100.0)
    assert bucket.take(100.0) == 0.0
    assert bucket.take(50.0) == 1.0
    assert bucket.take(100.0) == 1.0
    assert bucket.take(101.0) == 0.0


def test_over_a_long_time_the_rate_is_kept() -> None:
    bucket = Bucket(rate=10.0, burst=5, now=0.0)
    taken = sum(bucket.take(step / 1000.0) == 0.0 for step in range(10_000))
    assert taken == 5 + 99


def test_the_header_fields_say_how_it_stands() -> None:
    bucket = Bucket(rate=2.0, burst=10, now=0.0)
    for _ in range(3):
        bucket.take(0.0)
    state = bucket.state(0.0)
    assert state == RateState(limit=10, remaining=7, reset=1.5, window=5.0)
    assert dict(state.headers()) == {
        "RateLimit-Policy": '"key";q=10;w=5',
        "RateLimit": '"key";r=7;t=2',
        "X-RateLimit-Limit": "10",
        "X-RateLimit-Remaining": "7",
        "X-RateLimit-Reset": "2",
    }


@pytest.mark.parametrize(
    ("rate", "burst", "share", "expected"),
    [(10.0, None, 1.0, 10), (10.0, 30, 1.0, 30), (10.0, 30, 0.25, 8), (0.1, None, 1.0, 1), (1.0, 1, 0.125, 1)],
)
def test_a_burst_is_at_least_one(rate: float, burst: int | None, share: float, expected: int) -> None:
    assert burst_of(rate, burst, share) == expected
