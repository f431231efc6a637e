"""A host in a process of its own, started with the command a user would type, with skills that are scripts."""

import json
import os
import re
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.host.hosting import eventually
from tests.servers.warm_openskills import WarmProcess, start_openskills

ECHO = """\
import json, sys
text = json.load(sys.stdin)["input"]["text"]
print(json.dumps({"success": True, "data": {"echoed": text}}))
"""
SLOW = """\
import json, os, sys, time
folder = json.load(sys.stdin)["input"]["folder"]
open(os.path.join(folder, f"{os.getpid()}.pid"), "w").close()
while not os.path.exists(os.path.join(folder, "go")):
    time.sleep(0.02)
print(json.dumps({"success": True, "data": {"slow": True}}))
"""


@dataclass
class HostProcess:
    """A host that runs, `folder` where its slow skill says who it is and waits for the file `go`."""

    process: WarmProcess
    url: str
    client: httpx2.Client
    folder: Path
    errors: Path
    output: Path

    def invoke(self, skill_id: str, value: dict[str, Any], **more: Any) -> httpx2.Response:
        return self.client.post(f"/skills/{skill_id}:invoke", json={"input": value}, **more)

    def slow(self) -> httpx2.Response:
        """Call the skill that waits, with a connection of its own."""
        with httpx2.Client(verify=False, base_url=self.url, timeout=60) as client:
            return client.post("/skills/slow:invoke", json={"input": {"folder": str(self.folder)}})

    def children(self) -> set[int]:
        """The processes of slow skills."""
        return {int(path.stem) for path in self.folder.glob("*.pid")}

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.output.read_text().splitlines()]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


def write_skills(directory: Path) -> None:
    skills = directory / "skills_cli"
    skills.mkdir(exist_ok=True)
    (directory / "data").mkdir(exist_ok=True)
    (skills / "echo.py").write_text(ECHO)
    (skills / "slow.py").write_text(SLOW)


def variables(directory: Path, **more: str) -> dict[str, str]:
    known = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    executor = {"OPENSKILL_EXECUTOR": "local", "OPENSKILL_ALLOW_LOCAL": "1"}
    return {**known, "HOME": str(directory), "LANG": "C.UTF-8", **executor, **more}


@contextmanager
def host_process(directory: Path, *arguments: str, **environment: str) -> Generator[HostProcess]:
    """`openskills serve` with these arguments, on a free port."""
    write_skills(directory)
    folder = directory / "data" / "slow"
    folder.mkdir()
    errors, output = directory / "errors.txt", directory / "output.jsonl"
    line, known = ["serve", "--port", "0", *arguments], variables(directory, **environment)
    with errors.open("wb") as err, output.open("wb") as out:
        process = start_openskills(*line, cwd=directory, env=known, stdout=out.fileno(), stderr=err.fileno())
    try:
        eventually(lambda: b"serving " in errors.read_bytes() or process.poll() is not None, 60)
        found = re.search(r"on (http://\S+)", errors.read_text())
        assert found is not None, errors.read_text()
        with httpx2.Client(verify=False, base_url=found[1], timeout=60) as client:
            eventually(lambda: is_ready(client), 60)
            yield HostProcess(process, found[1], client, folder, errors, output)
    finally:
        (folder / "go").touch()
        if process.poll() is None:
            process.terminate()
        process.wait(60)


def is_ready(client: httpx2.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx2.TransportError:
        return False


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
