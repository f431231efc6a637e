"""What Prometheus reads.

What the host counts of its invocations.

Numbers by labels, of one process and of several.

Numbers of several workers in files.
"""

import json
import time
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from openskills.errors import UnknownSkill
from openskills.host.auth import ANONYMOUS
from openskills.host.metrics import (
    BUCKET_BOUNDS,
    CONTENT_TYPE,
    STALE_SECONDS,
    HostCounters,
    Metrics,
    SharedCounters,
    merge_counters,
    render_exposition,
)
from openskills.host.model import Failure, InvokeResult, Registration, failure_outcome, normalize_outcome
from openskills.host.service import Invocation, InvokeRequest
from tests.host.hosting import served
from tests.host.results import refused, succeeded


def start(metrics: Metrics, skill: str = "echo") -> None:
    asked = InvokeRequest(skill, {}, "t", ANONYMOUS, 0.0)
    metrics.on_start(Registration(skill, "inproc", "x:y", "1"), asked)


def end(metrics: Metrics, result: InvokeResult, *, known: bool = True, request: bytes = b"", body: bytes = b"") -> None:
    registration = Registration(result.skill_id, "inproc", "x:y", "1") if known else None
    metrics.on_end(Invocation(0.0, result, body, "me", registration, request))


def part(*, at: float | None = None, in_flight: dict[str, int] | None = None, waiting: int = 0) -> dict[str, Any]:
    counters = HostCounters()
    counters.add("openskills_invocations", ("echo", "inproc", "200"))
    counters.observe("openskills_invocation_seconds", ("echo", "inproc"), 0.3)
    return {
        **counters.to_dict(),
        "in_flight": in_flight or {},
        "waiting": waiting,
        "at": time.time() if at is None else at,
    }


def samples_exposition(text: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every number by its name and the values of its labels, read by Prometheus's own parser."""
    order = ("skill", "runner", "code", "direction", "limit", "le")
    families = text_string_to_metric_families(text.decode())
    return {
        (one.name, tuple(one.labels[name] for name in order if name in one.labels)): one.value
        for family in families
        for one in family.samples
    }


def test_workers_are_added_up() -> None:
    found = samples_exposition(
        render_exposition([part(in_flight={"echo": 1}, waiting=2), part(in_flight={"echo": 2, "sum": 1})])
    )
    assert found["openskills_invocations_total", ("echo", "inproc", "200")] == 2.0
    assert found["openskills_in_flight", ("echo",)] == 3.0
    assert found["openskills_in_flight", ("sum",)] == 1.0
    assert found["openskills_queue_length", ()] == 2.0
    assert found["openskills_workers", ()] == 2.0


def test_a_histogram_grows_from_bucket_to_bucket() -> None:
    found = samples_exposition(render_exposition([part(), part()]))
    name = "openskills_invocation_seconds_bucket"
    assert found[name, ("echo", "inproc", "0.25")] == 0.0
    assert found[name, ("echo", "inproc", "0.5")] == 2.0
    assert found[name, ("echo", "inproc", "+Inf")] == 2.0
    assert found["openskills_invocation_seconds_count", ("echo", "inproc")] == 2.0
    assert found["openskills_invocation_seconds_sum", ("echo", "inproc")] == 0.6


def test_of_a_worker_that_died_the_counts_stay_and_what_it_had_under_way_does_not() -> None:
    dead = part(at=time.time() - 2 * STALE_SECONDS, in_flight={"echo": 7}, waiting=7)
    found = samples_exposition(render_exposition([part(in_flight={"echo": 1}), dead]))
    assert found["openskills_invocations_total", ("echo", "inproc", "200")] == 2.0
    assert found["openskills_in_flight", ("echo",)] == 1.0
    assert found["openskills_queue_length", ()] == 0.0
    assert found["openskills_workers", ()] == 1.0


def test_labels_that_are_not_plain_words_come_back_as_they_were() -> None:
    strange = 'a "quoted\\" name\nwith a line, and {braces} 日本'
    counters = HostCounters()
    counters.add("openskills_shed", (strange,), 3.0)
    found = samples_exposition(
        render_exposition([{**counters.to_dict(), "in_flight": {strange: 1}, "waiting": 0, "at": time.time()}])
    )
    assert found["openskills_shed_total", (strange,)] == 3.0
    assert found["openskills_in_flight", (strange,)] == 1.0


def test_every_family_has_its_type() -> None:
    kinds = {one.name: one.type for one in text_string_to_metric_families(render_exposition([part()]).decode())}
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
    text = render_exposition([]).decode()
    for name in ("invocations_total", "bytes_total", "shed_total", "invocation_seconds", "queue_wait_seconds"):
        assert f"# HELP openskills_{name} " in text


def test_invocations_are_counted_by_skill_runner_and_code() -> None:
    metrics = Metrics()
    for result in (succeeded(), succeeded(), refused()):
        start(metrics)
        end(metrics, result, request=b"x" * 10, body=b"x" * 20)
    found = samples_exposition(metrics.render())
    assert found["openskills_invocations_total", ("echo", "inproc", "200")] == 2.0
    assert found["openskills_invocations_total", ("echo", "inproc", "400")] == 1.0
    assert found["openskills_invocation_seconds_count", ("echo", "inproc")] == 3.0
    assert found["openskills_bytes_total", ("echo", "in")] == 30.0
    assert found["openskills_bytes_total", ("echo", "out")] == 60.0
    assert ("openskills_in_flight", ("echo",)) not in found
    assert "text/plain" in CONTENT_TYPE


def test_what_is_under_way_is_seen() -> None:
    metrics = Metrics()
    for skill in ("echo", "echo", "sum"):
        start(metrics, skill)
    end(metrics, succeeded("echo"))
    found = samples_exposition(metrics.render())
    assert found["openskills_in_flight", ("echo",)] == found["openskills_in_flight", ("sum",)] == 1.0


def test_skills_that_do_not_exist_make_one_series_together() -> None:
    metrics = Metrics()
    for number in range(500):
        end(metrics, refused(f"no-{number}", error=UnknownSkill(f"no-{number}")), known=False)
    counts = {
        key: value
        for key, value in samples_exposition(metrics.render()).items()
        if key[0] == "openskills_invocations_total"
    }
    assert counts == {("openskills_invocations_total", ("unknown", "none", "404")): 500.0}


def test_skills_that_come_and_go_do_not_make_series_without_end() -> None:
    metrics = Metrics()
    for number in range(1_500):
        end(metrics, succeeded(f"skill-{number}"))
    found = samples_exposition(metrics.render())
    skills = {labels[0] for name, labels in found if name == "openskills_invocations_total"}
    assert len(skills) == 1_001
    assert found["openskills_invocations_total", ("other", "inproc", "200")] == 500.0
    end(metrics, succeeded("skill-7"))
    assert samples_exposition(metrics.render())["openskills_invocations_total", ("skill-7", "inproc", "200")] == 2.0


def test_a_code_that_is_none_makes_no_series_of_its_own() -> None:
    metrics = Metrics()
    for code in (0, -5, 99_999, 600):
        outcome = failure_outcome(Failure(code, "whatever"))
        end(metrics, normalize_outcome(outcome, skill_id="x", trace_id="t", latency_ms=1.0, version="1"))
    assert samples_exposition(metrics.render())["openskills_invocations_total", ("x", "inproc", "other")] == 4.0


def test_the_line_and_who_was_sent_away_are_counted() -> None:
    metrics = Metrics(history_lost=lambda: 4)
    metrics.on_queue_change(3)
    metrics.on_admit(0.0)
    metrics.on_admit(0.2)
    metrics.on_reject("rate")
    metrics.on_reject("rate")
    found = samples_exposition(metrics.render())
    assert found["openskills_queue_length", ()] == 3.0
    assert found["openskills_queue_wait_seconds_count", ()] == 2.0
    assert found["openskills_shed_total", ("rate",)] == 2.0
    assert found["openskills_history_lost_total", ()] == 4.0


def test_with_several_workers_any_of_them_answers_for_all(tmp_path: Path) -> None:
    first, second = Metrics(tmp_path), Metrics(tmp_path)
    start(first)
    end(first, succeeded())
    start(first)
    first.close()
    end(second, succeeded())
    found = samples_exposition(second.render())
    assert found["openskills_invocations_total", ("echo", "inproc", "200")] == 2.0
    # A worker that has ended has nothing under way.
    assert ("openskills_in_flight", ("echo",)) not in found
    second.close()


def test_a_call_of_a_known_skill_that_is_refused_is_counted_with_that_skill(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        host.client.post("/skills/echo:invoke", content=b"{", headers={"content-type": "application/json"})
        host.client.post("/skills/nope:invoke", content=b"{", headers={"content-type": "application/json"})
        found = samples_exposition(host.client.get("/metrics").content)
    assert found["openskills_invocations_total", ("echo", "inproc", "400")] == 1.0
    assert found["openskills_invocations_total", ("unknown", "none", "400")] == 1.0
    assert ("openskills_in_flight", ("echo",)) not in found


def test_what_is_counted_under_one_name_and_label_is_added() -> None:
    counters = HostCounters()
    counters.add("calls", ("echo", "200"))
    counters.add("calls", ("echo", "200"))
    counters.add("calls", ("echo", "500"), 5.0)
    assert counters.counts == {"calls": {("echo", "200"): 2.0, ("echo", "500"): 5.0}}


def test_a_length_of_time_goes_into_the_first_bucket_that_holds_it() -> None:
    counters = HostCounters()
    for seconds in (0.0, 0.001, 0.0011, 61.0):
        counters.observe("seconds", (), seconds)
    spread = counters.spreads["seconds"][()]
    assert spread[:2] == [2.0, 1.0]
    assert spread[len(BUCKET_BOUNDS)] == 1.0
    assert sum(spread[:-1]) == 4.0
    assert spread[-1] == 0.0 + 0.001 + 0.0011 + 61.0


def test_too_many_different_labels_are_counted_together() -> None:
    counters = HostCounters(max_series=3)
    for number in range(10):
        counters.add("calls", (str(number), "x"))
        counters.observe("seconds", (str(number),), 0.5)
    assert len(counters.counts["calls"]) == len(counters.spreads["seconds"]) == 4
    assert counters.counts["calls"]["other", "other"] == 7.0
    assert sum(counters.spreads["seconds"]["other",][:-1]) == 7.0


def test_the_numbers_of_several_processes_are_added_through_json() -> None:
    first, second = HostCounters(), HostCounters()
    for counters in (first, second):
        counters.add("calls", ("echo", "200"), 2.0)
        counters.observe("seconds", ("echo",), 0.5)
    second.add("calls", ("sum", "200"))
    second.observe("waits", (), 0.0)
    total = merge_counters(json.loads(json.dumps(one.to_dict())) for one in (first, second))
    assert total.counts == {"calls": {("echo", "200"): 4.0, ("sum", "200"): 1.0}}
    assert sum(total.spreads["seconds"]["echo",][:-1]) == 2.0
    assert total.spreads["seconds"]["echo",][-1] == 1.0
    assert sum(total.spreads["waits"][()]) == 1.0


def test_buckets_of_another_version_are_left_out() -> None:
    total = merge_counters([{"counts": {}, "spreads": {"seconds": [[["echo"], [1.0, 2.0]]]}}])
    assert sum(total.spreads["seconds"]["echo",]) == 0.0


def numbers(value: int) -> dict[str, Any]:
    return {"value": value}


def until_parts(shared: SharedCounters, expected: list[int]) -> None:
    deadline = time.monotonic() + 30
    while sorted(part["value"] for part in shared.read_all()) != expected:
        assert time.monotonic() < deadline, shared.read_all()
        time.sleep(0.01)


def test_each_sees_what_the_others_wrote_and_its_own_at_once(tmp_path: Path) -> None:
    first = SharedCounters(tmp_path / "numbers", lambda: numbers(1))
    second = SharedCounters(tmp_path / "numbers", lambda: numbers(2))
    assert first.read_all()[0] == {"value": 1}
    # Written by a thread, without anybody asking for it.
    until_parts(first, [1, 2])
    until_parts(second, [1, 2])
    first.close()
    second.close()


def test_what_was_there_at_the_end_stays(tmp_path: Path) -> None:
    SharedCounters(tmp_path, lambda: numbers(1)).close()
    second = SharedCounters(tmp_path, lambda: numbers(2))
    assert second.read_all() == [{"value": 2}, {"value": 1}]
    second.close()


def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "worker-1-a.json").write_text("{")
    (tmp_path / "worker-2-b.json").mkdir()
    shared = SharedCounters(tmp_path, lambda: numbers(1))
    assert shared.read_all() == [{"value": 1}]
    shared.close()


def test_a_directory_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    shared = SharedCounters(tmp_path / "numbers", lambda: numbers(1))
    (tmp_path / "numbers").rename(tmp_path / "away")
    shared.close()
    assert shared.read_all() == [{"value": 1}]
