"""Two hosts behind the load balancer of `deploy/compose.yaml`, which are restarted one after the other."""

import os
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2

from openskills.host.server import open_socket
from tests.host.host_process import HostProcess, host_process, is_ready
from tests.host.hosting import eventually

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "haproxy.cfg"
CALLERS = 2


def find_free_port() -> int:
    with open_socket("127.0.0.1", 0) as free:
        return free.getsockname()[1]


@contextmanager
def run_balancer(haproxy: str, places: list[str], log: Path) -> Generator[str]:
    address = f"127.0.0.1:{find_free_port()}"
    hosts = {f"HOST_{number}": place for number, place in enumerate(places, 1)}
    with log.open("wb") as errors:
        known = {**os.environ, **hosts, "BALANCER_ADDRESS": address}
        process = subprocess.Popen([haproxy, "-db", "-f", str(CONFIGURATION)], env=known, stderr=errors, stdout=errors)
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(60)


def test_no_call_fails_while_hosts_behind_a_load_balancer_are_restarted_one_by_one(
    tmp_path: Path, require_program: Callable[[str], str]
) -> None:
    haproxy = require_program("haproxy")
    ports = [find_free_port(), find_free_port()]
    statuses: list[int | str] = []
    is_over = threading.Event()

    def start_host(number: int, attempt: int) -> HostProcess:
        directory = tmp_path / f"{number}-{attempt}"
        directory.mkdir()
        arguments = ("--no-auth", "--port", str(ports[number]), "--drain-delay", "3")
        return hosts.enter_context(host_process(directory, *arguments))

    def call(url: str) -> None:
        # Not as fast as it can: what counts is that there are calls all the time.
        while not is_over.wait(0.01):
            try:
                with httpx2.Client(verify=False, base_url=url, timeout=60) as client:
                    answer = client.post("/skills/echo:invoke", json={"input": {"text": "x"}})
                    statuses.append(answer.status_code)
            except httpx2.TransportError as error:
                statuses.append(repr(error))

    with ExitStack() as hosts:
        running = [start_host(number, 0) for number in range(len(ports))]
        with run_balancer(haproxy, [f"127.0.0.1:{port}" for port in ports], tmp_path / "haproxy.log") as url:
            with httpx2.Client(verify=False, base_url=url, timeout=60) as client:
                eventually(lambda: is_ready(client), 60)
            callers = [threading.Thread(target=call, args=(url,)) for _ in range(CALLERS)]
            for caller in callers:
                caller.start()
            try:
                for number, host in enumerate(running):
                    eventually(lambda host=host: bool(host.lines()), 60)
                    assert host.end() == 0
                    replaced = start_host(number, 1)
                    # The balancer has noticed it when it gets calls.
                    eventually(lambda host=replaced: bool(host.lines()), 60)
            finally:
                is_over.set()
                for caller in callers:
                    caller.join(60)

    assert len(statuses) > CALLERS
    assert set(statuses) == {200}


def test_the_load_balancer_serves_while_the_name_of_a_host_cannot_be_resolved(
    tmp_path: Path, require_program: Callable[[str], str]
) -> None:
    port = find_free_port()
    with (
        host_process(tmp_path, "--no-auth", "--port", str(port)),
        run_balancer(
            require_program("haproxy"), [f"127.0.0.1:{port}", "host.invalid:8000"], tmp_path / "haproxy.log"
        ) as url,
        httpx2.Client(verify=False, base_url=url, timeout=60) as client,
    ):
        eventually(lambda: is_ready(client), 60)
