"""What calls took, and what follows for those that wait."""

import pytest

from openskills.host.books.service_times import ServiceTimes, waiting_time


def test_nothing_is_known_before_the_first_call() -> None:
    assert ServiceTimes().mean() == ServiceTimes().mean("echo") == 0.0


def test_the_mean_follows_what_is_measured() -> None:
    times = ServiceTimes()
    for _ in range(100):
        times.measured("slow", 2.0)
    assert times.mean("slow") == pytest.approx(2.0)
    for _ in range(100):
        times.measured("quick", 0.01)
    assert times.mean("slow") == pytest.approx(2.0)
    assert times.mean("quick") == pytest.approx(0.01)
    assert times.mean() == pytest.approx(0.01, rel=0.1)


def test_a_skill_that_was_never_called_is_expected_to_be_like_the_others() -> None:
    times = ServiceTimes()
    times.measured("echo", 0.5)
    assert times.mean("other") == 0.5


def test_however_many_skills_there_are_only_some_are_remembered() -> None:
    times = ServiceTimes()
    for number in range(3_000):
        times.measured(f"skill-{number}", 1.0 if number < 1_000 else 3.0)
    assert times.mean("skill-0") == 1.0
    assert times.mean("skill-2999") == pytest.approx(3.0, rel=0.01)


def test_who_waits_longer_has_more_before_it_or_fewer_places() -> None:
    assert waiting_time(ahead=0, places=1, mean=0.5) == 0.5
    assert waiting_time(ahead=9, places=2, mean=0.5) == 2.5
    assert waiting_time(ahead=9, places=0, mean=0.5) == 5.0
