"""Containers for one call, with a real engine."""

import io
import subprocess
import sys
import tarfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import docker
import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.container.engine import ContainerEngine, OneShotEngine
from openskills.executors.container.selftest import find_faults, run_self_test
from openskills.executors.container.spec import DEFAULT_PATH
from openskills.executors.local import LocalBackend
from openskills.host.model import Registration
from openskills.host.runners.docker import build_container_request
from tests.container_engine import TestEngine

WITHOUT = """
import sys
sys.modules["docker"] = None
from openskills.errors import MissingExtra
from openskills.executors.container.engine import ContainerEngine
try:
    ContainerEngine(None)
except MissingExtra as error:
    print(error)
"""


@contextmanager
def connected(engine: TestEngine) -> Generator[ContainerEngine]:
    found = ContainerEngine(engine.address)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def image(engine: TestEngine, name: str, *changes: str) -> Generator[str]:
    """An image with nothing in it."""
    empty = io.BytesIO()
    with tarfile.open(fileobj=empty, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("nothing"))
    api = cast("Any", docker.APIClient(base_url=engine.address))
    try:
        api.import_image_from_data(empty.getvalue(), repository=name, tag="1", changes=list(changes) or None)
        yield f"{name}:1"
        api.remove_image(f"{name}:1", force=True)
    finally:
        api.close()


def test_an_engine_that_does_not_answer_is_named_with_what_to_do(tmp_path: Path) -> None:
    address = f"unix://{tmp_path}/nobody.sock"
    with pytest.raises(ExecutorUnavailable) as caught:
        ContainerEngine(address)
    for words in (address, "start the engine", "DOCKER_HOST"):
        assert words in caught.value.message


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1:1"])
def test_an_address_that_leads_nowhere_is_named(address: str) -> None:
    with pytest.raises(ExecutorUnavailable, match="does not respond"):
        ContainerEngine(address)


def test_without_the_package_the_extra_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert "pip install 'openskill-runtime[docker]'" in done.stdout


def test_an_engine_that_can_limit_passes(container_engine: TestEngine) -> None:
    with connected(container_engine) as engine:
        engine.check()


def test_a_missing_image_says_how_to_get_it(container_engine: TestEngine) -> None:
    with (
        connected(container_engine) as engine,
        pytest.raises(ExecutorUnavailable, match="docker pull no-such-image:1") as caught,
    ):
        engine.find_image("no-such-image:1")
    assert "python3 (3.9 or newer) and bash" in caught.value.message


def test_an_image_says_where_its_programs_are_and_what_it_wants_to_write_to(container_engine: TestEngine) -> None:
    with (
        image(container_engine, "with-volumes", "ENV PATH=/opt/bin", "VOLUME /data") as name,
        connected(container_engine) as engine,
    ):
        found = engine.find_image(name)
        assert (found.path, found.volumes) == ("/opt/bin", ("/data",))
        assert engine.find_image(container_engine.image).path == DEFAULT_PATH


def test_an_image_without_python_is_named_as_such(container_engine: TestEngine) -> None:
    with image(container_engine, "without-python") as name, connected(container_engine) as engine:
        container = engine.create({"Image": name, "Entrypoint": ["python3"]})
        try:
            with pytest.raises(ExecutorUnavailable, match="has no python3"):
                engine.start(container)
            assert not engine.is_running(container)
        finally:
            engine.remove(container)


def test_a_container_with_another_runtime_than_the_one_that_was_asked_for_is_noticed(
    container_engine: TestEngine,
) -> None:
    with connected(container_engine) as engine:
        host = {"Runtime": "runc"}
        container = engine.create({"Image": container_engine.image, "Entrypoint": ["true"], "HostConfig": host})
        try:
            engine.check_runtime(container, "runc")
            with pytest.raises(ExecutorUnavailable, match="uses the runtime runc, not runsc"):
                engine.check_runtime(container, "runsc")
        finally:
            engine.remove(container)


def test_removing_what_is_gone_is_not_an_error(container_engine: TestEngine) -> None:
    with connected(container_engine) as engine:
        container = engine.create(
            {"Image": container_engine.image, "Entrypoint": ["true"], "Labels": {"openskills.t": "1"}}
        )
        assert container in [found for found, _ in engine.list_by_label("openskills.t")]
        engine.remove(container)
        engine.remove(container)
        assert not engine.is_running(container)


def test_a_container_reads_its_input_and_both_streams_are_heard(container_engine: TestEngine) -> None:
    code = "import sys; sys.stderr.write('err'); sys.stdout.write(sys.stdin.read()); sys.exit(7)"
    options = {"args": ["python3", "-c", code]}
    skill = Registration("skill", "docker", container_engine.image, "1", options=options)
    heard: dict[str, bytes] = {"stdout": b"", "stderr": b""}
    begun: list[str] = []

    def hear(stream: str, data: bytes) -> bool:
        heard[stream] += data
        return True

    engine = OneShotEngine(container_engine.address)
    try:
        status = engine.run(build_container_request(skill, {}, "mark"), b"x" * 300_000, hear, begun.append)
        assert [one for one, _ in engine.list_by_label("openskills.skill") if one in begun] == []
    finally:
        engine.close()
    assert (status, heard) == (7, {"stdout": b"x" * 300_000, "stderr": b"err"})


GOOD: dict[str, Any] = {"interfaces": ["lo"], "read_only": True, "skills_read_only": True, "engines": []}


def test_a_container_as_it_was_asked_for_has_no_faults() -> None:
    assert find_faults(GOOD) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"interfaces": ["lo", "eth0"]}, "the container has a network"),
        ({"read_only": False}, "the root file system of the container is writable"),
        ({"skills_read_only": False}, "staged skills are writable"),
        ({"engines": ["/run/docker.sock"]}, "the socket of an engine is visible in the container"),
    ],
)
def test_what_an_engine_adds_is_named(changed: dict[str, Any], words: str) -> None:
    assert find_faults({**GOOD, **changed}) == [words]


def test_a_probe_that_says_nothing_proves_nothing() -> None:
    assert len(find_faults({})) == len(GOOD)


async def test_what_does_not_isolate_does_not_pass() -> None:
    backend = LocalBackend()
    try:
        with pytest.raises(ExecutorUnavailable, match="the container does not isolate on this machine"):
            await run_self_test(backend)
    finally:
        await backend.close()
