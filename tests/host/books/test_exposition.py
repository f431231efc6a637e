"""What Prometheus reads."""

import time
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from openskills.host.books.counters import Counters
from openskills.host.books.exposition import STALE, exposition


def part(*, at: float | None = None, in_flight: dict[str, int] | None = None, waiting: int = 0) -> dict[str, Any]:
    counters = Counters()
    counters.add("openskills_invocations", ("echo", "inproc", "200"))
    counters.observe("openskills_invocation_seconds", ("echo", "inproc"), 0.3)
    return {
        **counters.plain(),
        "in_flight": in_flight or {},
        "waiting": waiting,
        "at": time.time() if at is None else at,
    }


def samples(text: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every number by its name and the values of its labels, read by Prometheus's own parser."""
    order = ("skill", "runner", "code", "direction", "limit", "le")
    families = text_string_to_metric_families(text.decode())
    return {
        (one.name, tuple(one.labels[name] for name in order if name in one.labels)): one.value
        for family in families
        for one in family.samples
    }


def test_workers_are_added_up() -> None:
    found = samples(exposition([part(in_flight={"echo": 1}, waiting=2), part(in_flight={"echo": 2, "sum": 1})]))
    assert found["openskills_invocations_total", ("echo", "inproc", "200")] == 2.0
    assert found["openskills_in_flight", ("echo",)] == 3.0
    assert found["openskills_in_flight", ("sum",)] == 1.0
    assert found["openskills_queue_length", ()] == 2.0
    assert found["openskills_workers", ()] == 2.0


def test_a_histogram_grows_from_bucket_to_bucket() -> None:
    found = samples(exposition([part(), part()]))
    name = "openskills_invocation_seconds_bucket"
    assert found[name, ("echo", "inproc", "0.25")] == 0.0
    assert found[name, ("echo", "inproc", "0.5")] == 2.0
    assert found[name, ("echo", "inproc", "+Inf")] == 2.0
    assert found["openskills_invocation_seconds_count", ("echo", "inproc")] == 2.0
    assert found["openskills_invocation_seconds_sum", ("echo", "inproc")] == 0.6


def test_of_a_worker_that_died_the_counts_stay_and_what_it_had_under_way_does_not() -> None:
    dead = part(at=time.time() - 2 * STALE, in_flight={"echo": 7}, waiting=7)
    found = samples(exposition([part(in_flight={"echo": 1}), dead]))
    assert found["openskills_invocations_total", ("echo", "inproc", "200")] == 2.0
    assert found["openskills_in_flight", ("echo",)] == 1.0
    assert found["openskills_queue_length", ()] == 0.0
    assert found["openskills_workers", ()] == 1.0


def test_labels_that_are_no_plain_words_come_back_as_they_were() -> None:
    strange = 'a "quoted\\" name\nwith a line, and {braces} 日本'
    counters = Counters()
    counters.add("openskills_shed", (strange,), 3.0)
    found = samples(exposition([{**counters.plain(), "in_flight": {strange: 1}, "waiting": 0, "at": time.time()}]))
    assert found["openskills_shed_total", (strange,)] == 3.0
    assert found["openskills_in_flight", (strange,)] == 1.0


def test_every_family_has_its_type() -> None:
    kinds = {one.name: one.type for one in text_string_to_metric_families(exposition([part()]).decode())}
    assert kinds == {
        "openskills_invocations": "counter",
        "openskills_bytes": "counter",
        "openskills_shed": "counter",
        "openskills_history_lost": "counter",
        "openskills_invocation_seconds": "histogram",
        "openskills_queue_wait_seconds": "histogram",
        "openskills_in_flight": "gauge",
        "openskills_queue_length": "gauge",
        "openskills_workers": "gauge",
    }


def test_a_host_that_has_done_nothing_has_its_names_all_the_same() -> None:
    text = exposition([]).decode()
    for name in ("invocations_total", "bytes_total", "shed_total", "invocation_seconds", "queue_wait_seconds"):
        assert f"# HELP openskills_{name} " in text
