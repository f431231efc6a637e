"""What those are told who watch the host."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.host.hosting import Waiting, echo, manifest, served
from tests.host.test_app import check_normalised


def test_readiness_tells_how_many_skills_can_be_called(tmp_path: Path) -> None:
    manifest(tmp_path, "broken", "timeout_ms: never\n")
    with served(tmp_path) as host:
        found = check_normalised(host.client.get("/readyz"))["data"]
    assert found == {"status": "ready", "skills": {"ready": 1, "broken": 1, "unavailable": 0}, "running": 0}


def test_a_host_that_is_about_to_end_is_alive_and_not_ready(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        host.parts.host.draining = True
        answer = host.client.get("/readyz")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        check_normalised(answer)
        assert host.client.get("/healthz").status_code == 200
        assert host.invoke("echo", {"text": "a"}).status_code == 503
        stream = host.client.post("/skills/echo:stream", json={"input": {"text": "a"}})
        assert stream.status_code == 503
        assert host.client.post("/skills/echo:invoke?mode=async", json={"input": {"text": "a"}}).status_code == 503


def test_metrics_count_what_was_done_and_what_is_under_way(tmp_path: Path) -> None:
    waiting = Waiting()
    with served(tmp_path, {"echo": echo, "waiting": waiting}) as host:
        host.invoke("echo", {"text": "a"})
        host.invoke("echo", {"text": 1})
        host.invoke("nope", {})
        host.client.post("/skills/waiting:invoke?mode=async", json={"input": {}})
        assert waiting.began.wait(20)
        answer = host.client.get("/metrics")
        waiting.may_end.set()
    assert answer.headers["content-type"].startswith("text/plain")
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["openskills_invocations_total", "200", "echo", "inproc"] == 1
    assert samples["openskills_invocations_total", "400", "echo", "inproc"] == 1
    assert samples["openskills_invocations_total", "404", "none", "unknown"] == 1
    assert [value for (name, *labels), value in samples.items() if "in_flight" in name and "waiting" in labels] == [1]
