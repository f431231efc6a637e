"""Counters that any thread may use, and that take little memory whatever is counted."""

import threading

import pytest

from openskills.telemetry.metrics import MAX_LABELS, MAX_NAMES, OVERFLOW, Count, CounterRegistry, count, counters
from tests.telemetry.telemetry import measured, metric_reader


def values(name: str) -> dict[tuple[tuple[str, str], ...], int]:
    return {tuple(found.labels.items()): found.value for found in counters() if found.name == name}


def test_what_is_counted_can_be_read_by_name_and_labels() -> None:
    count("openskills.test.loads", skill="pdf")
    count("openskills.test.loads", 2, skill="pdf")
    count("openskills.test.loads", skill="csv", cached=True, nothing=None)
    count("openskills.test.plain")
    assert values("openskills.test.loads") == {(("skill", "pdf"),): 3, (("cached", "true"), ("skill", "csv")): 1}
    assert values("openskills.test.plain") == {(): 1}


def test_nothing_is_counted_for_nothing() -> None:
    count("openskills.test.zero", 0)
    assert values("openskills.test.zero") == {}


def test_a_counter_does_not_shrink() -> None:
    with pytest.raises(ValueError, match="only grows"):
        count("openskills.test.negative", -1)


def test_no_count_is_lost_when_threads_count_at_once() -> None:
    some = CounterRegistry()
    together = threading.Barrier(8)

    def work(number: int) -> None:
        together.wait()
        for _ in range(2000):
            some.add("x", 1, {"thread": number % 2})
            some.snapshot()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert some.snapshot() == (Count("x", {"thread": "0"}, 8000), Count("x", {"thread": "1"}, 8000))


def test_labels_without_end_are_counted_together() -> None:
    some = CounterRegistry()
    for number in range(MAX_LABELS + 50):
        some.add("x", 1, {"skill": f"s{number}"})
    found = some.snapshot()
    assert len(found) == MAX_LABELS + 1
    assert [each.value for each in found if each.labels == {OVERFLOW: "true"}] == [50]
    assert sum(each.value for each in found) == MAX_LABELS + 50
    assert some.add("x", 1, {"skill": "s0"}).value == 2


def test_names_without_end_are_counted_together() -> None:
    some = CounterRegistry()
    for number in range(MAX_NAMES + 7):
        some.add(f"n{number}", 1, {"a": number})
    assert len(some.snapshot()) == MAX_NAMES + 1
    assert Count(OVERFLOW, {}, 7) in some.snapshot()


def test_a_label_stands_on_one_line_and_is_short() -> None:
    labels = CounterRegistry().add("x", 1, {"tool": "a\nopenskills_forged 1\n" + "y" * 10_000}).labels
    assert labels["tool"].isprintable()
    assert len(labels["tool"]) < 300


def test_a_snapshot_does_not_change_with_what_is_counted_later() -> None:
    some = CounterRegistry()
    some.add("x", 1, {})
    before = some.snapshot()
    some.add("x", 1, {})
    assert before == (Count("x", {}, 1),)


def test_an_application_with_metrics_gets_the_same_numbers_even_if_it_comes_late() -> None:
    count("openskills.test.early.bytes", 5, flow="staged")
    metric_reader()
    count("openskills.test.early.bytes", 7, flow="staged")
    (point,) = measured("openskills.test.early.bytes")
    assert point.attributes == {"flow": "staged"}
    assert point.value in (7, 12)  # what was counted before somebody measured is in the process only
    assert values("openskills.test.early.bytes") == {(("flow", "staged"),): 12}
