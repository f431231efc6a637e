"""Hosts on one database under load, for tests that kill them."""

import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import httpx2

from tests.host.host_process import HostProcess, host_process
from tests.host.hosting import eventually

COUNT = """\
import json, os, sys, time
asked = json.load(sys.stdin)["input"]
with open(asked["file"], "a") as file:
    file.write(asked["key"] + "\\n")
time.sleep(0.05)
print(json.dumps({"success": True, "data": {"key": asked["key"]}}))
"""


class HostCluster:
    """Hosts that can be replaced, and callers that send each request until it has an answer.

    The skill `count` appends its key to the file `executed` whenever it is executed.
    """

    def __init__(self, url: str, directory: Path) -> None:
        self._url = url
        self._directory = directory
        self._stack = ExitStack()
        self._made = 0
        self.hosts: list[HostProcess] = []
        self.executed = directory / "executed.txt"
        self.answers: dict[str, bytes] = {}
        self.stop = threading.Event()

    def add_host(self, url: str | None = None) -> HostProcess:
        """Start another host, with another address of the database if it has one."""
        self._made += 1
        directory = self._directory / f"host-{self._made}"
        (directory / "skills_cli").mkdir(parents=True)
        (directory / "skills_cli" / "count.py").write_text(COUNT)
        more = {"OPENSKILL_HOST_DATABASE": url or self._url, "OPENSKILL_TIMEOUT_MS": "120000"}
        self.hosts.append(self._stack.enter_context(host_process(directory, **more)))
        return self.hosts[-1]

    def replace_host(self, victim: HostProcess, url: str | None = None) -> HostProcess:
        """Kill a host, and start another one."""
        victim.process.send_signal(signal.SIGKILL)
        victim.process.wait(60)
        added = self.add_host(url)
        self.hosts.remove(victim)
        return added

    def close(self) -> None:
        self._stack.close()

    def ask(self, key: str, number: int) -> httpx2.Response | None:
        host = self.hosts[number % len(self.hosts)]
        asked = {"input": {"key": key, "file": str(self.executed)}}
        try:
            return httpx2.post(
                f"{host.url}/skills/count:invoke", json=asked, headers={"Idempotency-Key": key}, timeout=30
            )
        except httpx2.TransportError:
            return None

    def call(self, name: str) -> None:
        """Send requests; each one again, to the other host, until there is a final answer."""
        number = 0
        while not self.stop.is_set():
            number += 1
            key, tried = f"{name}-{number}", number
            while not self.stop.is_set():
                answer = self.ask(key, tried)
                tried += 1
                if answer is not None and (answer.status_code == 200 or b'"INTERRUPTED"' in answer.content):
                    self.answers[key] = answer.content
                    break
                self.stop.wait(0.1)

    def check(self) -> None:
        """No request was executed twice, and each answer is what every host gives again."""
        executed = self.executed.read_text().split()
        assert len(executed) == len(set(executed))
        for number, (key, content) in enumerate(self.answers.items()):
            again = self.ask(key, number)
            assert again is not None
            assert again.content == content, key
            assert key in executed or b'"INTERRUPTED"' in content, key

    def progress(self) -> None:
        """Wait for more answers."""
        before = len(self.answers)
        eventually(lambda: len(self.answers) > before + 10, 120)
