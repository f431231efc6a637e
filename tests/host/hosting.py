"""A real host for tests: a real server on a free port of loopback, in a thread, with skills that are functions."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from openskills.errors import DeadlineExceeded
from openskills.host.app import SkillHostApp, create_app
from openskills.host.auth import StoredKey, create_key
from openskills.host.connections import HostProtocol
from openskills.host.keys import KeyFile
from openskills.host.model import Call, Outcome, Registration, SkillOutputEvent, success_outcome
from openskills.host.parts import HostOptions, HostParts
from openskills.host.server import open_socket
from openskills.settings import Settings
from openskills.sync import run

Function = Callable[[Call], Awaitable[Outcome]]

ECHO_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


async def echo(call: Call) -> Outcome:
    return success_outcome({"echoed": call.input["text"]})


async def chatty(call: Call) -> Outcome:
    """Shows something while it works."""
    if call.listener is not None:
        call.listener(SkillOutputEvent("stdout", {"text": "working\n"}))
        call.listener(SkillOutputEvent("progress", {"done": 1, "total": 2}))
    return success_outcome({"done": True})


class Waiting:
    """A skill that works until it is told to end, its time is over, or it is cancelled."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.cancelled = threading.Event()
        self.may_end = threading.Event()

    async def __call__(self, call: Call) -> Outcome:
        self.began.set()
        try:
            while not self.may_end.is_set():
                if asyncio.get_running_loop().time() > call.deadline:
                    raise DeadlineExceeded("it took too long")
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return success_outcome({"waited": True})


class FunctionTable:
    """Implements the table of runners and the runner: every skill is a function of the test."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.functions = functions
        self.forgotten: list[str] = []
        self.closed = False

    def get_runner(self, registration: Registration) -> "FunctionTable":  # noqa: ARG002
        return self

    async def prepare(self, registration: Registration) -> None:
        pass

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        return await self.functions[registration.id](call)

    async def forget(self, skill_id: str) -> None:
        self.forgotten.append(skill_id)

    async def close(self) -> None:
        self.closed = True


def settings_in(directory: Path, **changes: Any) -> Settings:
    """Settings whose every directory is below this one."""
    settings = Settings.from_env({"HOME": str(directory), "PATH": "/usr/bin:/bin"})
    found = replace(settings, cli_dir=directory / "skills_cli", allowed_root=directory / "data")
    return replace(found, **changes)


def manifest(directory: Path, skill_id: str, text: str = "") -> Path:
    """A manifest of a skill that is a function."""
    folder = directory / "skills_cli"
    folder.mkdir(exist_ok=True)
    path = folder / f"{skill_id}.yaml"
    path.write_text(f"id: {skill_id}\ntype: inproc\nentry: tests.host.hosting:{skill_id}\n{text}")
    return path


ECHO_MANIFEST = """\
description: Gives back what it gets.
input_schema:
  type: object
  properties: {text: {type: string}}
  required: [text]
  additionalProperties: false
output_schema:
  type: object
  properties: {echoed: {type: string}}
  required: [echoed]
"""


@dataclass
class Served:
    """A host that runs. `client` speaks to it without a key."""

    url: str
    client: httpx2.Client
    app: SkillHostApp
    server: uvicorn.Server
    table: FunctionTable
    log: Path

    @property
    def parts(self) -> HostParts:
        return self.app.state.parts

    def invoke(self, skill_id: str, value: Mapping[str, Any], **more: Any) -> httpx2.Response:
        return self.client.post(f"/skills/{skill_id}:invoke", json={"input": value}, **more)

    def lines(self) -> list[dict[str, Any]]:
        """The log so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextmanager
def served(
    directory: Path,
    functions: Mapping[str, Function] | None = None,
    *,
    options: HostOptions | None = None,
    protocol: type[HostProtocol] = HostProtocol,
    table: FunctionTable | None = None,
    **changes: Any,
) -> Generator[Served]:
    """A host with these functions as skills; each without a manifest gets a plain one."""
    found = {"echo": echo} if functions is None else functions
    (directory / "data").mkdir(exist_ok=True)
    for skill_id in found:
        if not (directory / "skills_cli" / f"{skill_id}.yaml").exists():
            manifest(directory, skill_id, ECHO_MANIFEST if skill_id == "echo" else "")
    log = directory / "access.jsonl"
    table = table or FunctionTable(found)
    chosen = replace(options or HostOptions(watch=False), json_log=str(log))
    app = create_app(settings_in(directory, **changes), chosen, runners=lambda _: table)
    with open_socket("127.0.0.1", 0) as listener:
        config = uvicorn.Config(app, http=protocol, ws="none", log_config=None, lifespan="on", proxy_headers=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            eventually(lambda: server.started or not thread.is_alive())
            assert server.started
            with httpx2.Client(verify=False, base_url=url, timeout=20) as client:
                eventually(lambda: client.get("/readyz").status_code == 200)
                yield Served(url, client, app, server, table, log)
        finally:
            server.should_exit = True
            thread.join(timeout=20)
            assert not thread.is_alive()


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.005)


def key_in(directory: Path, name: str = "me", **limits: Any) -> str:
    """A key that a host in this directory takes."""
    key, kept = create_key(name, now=datetime.now(UTC))
    add_key(settings_in(directory).host_keys, replace(kept, **limits))
    return key


def add_key(path: Path, key: StoredKey) -> None:
    """Add a key to a file of keys."""
    run(KeyFile(path).add(key))


def revoke_key(path: Path, name: str) -> StoredKey:
    """Remove a key from a file of keys."""
    return run(KeyFile(path).revoke(name))
