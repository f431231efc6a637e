"""What the host counts of its invocations."""

from pathlib import Path

from openskills.errors import UnknownSkill
from openskills.host.books.metrics import CONTENT_TYPE, Metrics
from openskills.host.result import Failure, failed, normalised
from tests.host.books.test_exposition import samples
from tests.host.hosting import served
from tests.host.results import refused, succeeded


def test_invocations_are_counted_by_skill_runner_and_code() -> None:
    metrics = Metrics()
    for result in (succeeded(), succeeded(), refused()):
        metrics.began("echo")
        metrics.ended(result, "inproc", bytes_in=10, bytes_out=20)
    found = samples(metrics.render())
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
        metrics.began(skill)
    metrics.ended(succeeded("echo"), "inproc")
    found = samples(metrics.render())
    assert found["openskills_in_flight", ("echo",)] == found["openskills_in_flight", ("sum",)] == 1.0


def test_skills_that_do_not_exist_make_one_series_together() -> None:
    metrics = Metrics()
    for number in range(500):
        metrics.ended(refused(f"no-{number}", error=UnknownSkill(f"no-{number}")), "")
    counts = {
        key: value for key, value in samples(metrics.render()).items() if key[0] == "openskills_invocations_total"
    }
    assert counts == {("openskills_invocations_total", ("unknown", "none", "404")): 500.0}


def test_skills_that_come_and_go_do_not_make_series_without_end() -> None:
    metrics = Metrics()
    for number in range(1_500):
        metrics.ended(succeeded(f"skill-{number}"), "inproc")
    found = samples(metrics.render())
    skills = {labels[0] for name, labels in found if name == "openskills_invocations_total"}
    assert len(skills) == 1_001
    assert found["openskills_invocations_total", ("other", "inproc", "200")] == 500.0
    metrics.ended(succeeded("skill-7"), "inproc")
    assert samples(metrics.render())["openskills_invocations_total", ("skill-7", "inproc", "200")] == 2.0


def test_a_code_that_is_none_makes_no_series_of_its_own() -> None:
    metrics = Metrics()
    for code in (0, -5, 99_999, 600):
        outcome = failed(Failure(code, "whatever"))
        metrics.ended(normalised(outcome, skill_id="x", trace_id="t", latency_ms=1.0, version="1"), "inproc")
    assert samples(metrics.render())["openskills_invocations_total", ("x", "inproc", "other")] == 4.0


def test_the_line_and_who_was_sent_away_are_counted() -> None:
    metrics = Metrics(history_lost=lambda: 4)
    metrics.queued(3)
    metrics.admitted(0.0)
    metrics.admitted(0.2)
    metrics.shed("rate")
    metrics.shed("rate")
    found = samples(metrics.render())
    assert found["openskills_queue_length", ()] == 3.0
    assert found["openskills_queue_wait_seconds_count", ()] == 2.0
    assert found["openskills_shed_total", ("rate",)] == 2.0
    assert found["openskills_history_lost_total", ()] == 4.0


def test_with_several_workers_any_of_them_answers_for_all(tmp_path: Path) -> None:
    first, second = Metrics(tmp_path), Metrics(tmp_path)
    first.began("echo")
    first.ended(succeeded(), "inproc")
    first.began("echo")
    first.close()
    second.ended(succeeded(), "inproc")
    found = samples(second.render())
    assert found["openskills_invocations_total", ("echo", "inproc", "200")] == 2.0
    # A worker that has ended has nothing under way.
    assert ("openskills_in_flight", ("echo",)) not in found
    second.close()


def test_a_call_of_a_known_skill_that_is_refused_is_counted_with_that_skill(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        host.client.post("/skills/echo:invoke", content=b"{", headers={"content-type": "application/json"})
        host.client.post("/skills/nope:invoke", content=b"{", headers={"content-type": "application/json"})
        found = samples(host.client.get("/metrics").content)
    assert found["openskills_invocations_total", ("echo", "inproc", "400")] == 1.0
    assert found["openskills_invocations_total", ("unknown", "none", "400")] == 1.0
    assert ("openskills_in_flight", ("echo",)) not in found
