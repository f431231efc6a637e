"""Containers for one call, with a real engine."""

from openskills.host.registration import Registration
from openskills.host.running.docker_engine import CallEngine
from openskills.host.running.docker_request import container_request
from tests.container_engine import TestEngine


def test_a_container_reads_its_input_and_both_streams_are_heard(container_engine: TestEngine) -> None:
    code = "import sys; sys.stderr.write('err'); sys.stdout.write(sys.stdin.read()); sys.exit(7)"
    options = {"args": ["python3", "-c", code]}
    skill = Registration("skill", "docker", container_engine.image, "1", options=options)
    heard: dict[str, bytes] = {"stdout": b"", "stderr": b""}
    begun: list[str] = []

    def hear(stream: str, data: bytes) -> bool:
        heard[stream] += data
        return True

    engine = CallEngine(container_engine.address)
    try:
        status = engine.run(container_request(skill, {}, "mark"), b"x" * 300_000, hear, begun.append)
        assert [one for one, _ in engine.labelled("openskills.skill") if one in begun] == []
    finally:
        engine.close()
    assert (status, heard) == (7, {"stdout": b"x" * 300_000, "stderr": b"err"})
