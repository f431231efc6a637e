"""An S3-compatible server for tests: moto's, in a process of its own, one per process that runs tests."""

import json
import os
import re
import signal
import sys
import urllib.request
from base64 import b64decode
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.sax.saxutils import unescape

import pytest

from tests.servers.started import Started, answers, free_port, own_directory

PROGRAM = Path(__file__).with_name("s3_program.py")
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKTESTKEY", "AWS_SECRET_ACCESS_KEY": "the secret of tests"}


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where the server is."""

    port: int
    started: Started
    recording: Path

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> Mapping[str, str]:
        """What an application that may use it has in its environment."""
        return {**CREDENTIALS, "HOME": "/nonexistent"}

    def url(self, bucket: str, prefix: str = "") -> str:
        """The address of an artifact store, as users write it."""
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}&region=eu-central-1"

    def new_bucket(self) -> str:
        """An empty bucket that nobody else uses."""
        name = f"bucket-{os.urandom(8).hex()}"
        self.ask("PUT", name)
        return name

    def restart(self) -> None:
        """Start it again after it was killed: with its objects, if it records requests (`running(durable=True)`)."""
        if self.recording.exists():
            _compact_recording(self.recording)
        self.started.start()
        self.ask("POST", "moto-api/recorder/replay-recording", b"{}")

    def ask(self, method: str, path: str, data: bytes | None = None) -> bytes:
        """Send a request, beside the code under test."""
        # Moto takes the region, and nothing else, from the credential.
        signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=AKTESTKEY/20260101/us-east-1/s3/aws4_request"}
        request = urllib.request.Request(f"{self.endpoint}/{path}", data, signed, method=method)
        with urllib.request.urlopen(request) as answer:
            return answer.read()


@pytest.fixture(scope="session")
def s3_server() -> Generator[S3Server]:
    """An S3-compatible server."""
    with running() as server:
        yield server


@contextmanager
def running(*, durable: bool = False) -> Generator[S3Server]:
    """A server that ends with the block. Of a durable one, objects that are not uploaded in parts survive a kill."""
    with own_directory("s3") as directory:
        port = free_port()
        command = [sys.executable, str(PROGRAM), str(port), str(os.getpid())]
        requests = directory / "requests"
        if durable:
            recording = {"MOTO_ENABLE_RECORDING": "1", "MOTO_RECORDER_FILEPATH": str(requests)}
            command = ["env", *(f"{name}={value}" for name, value in recording.items()), *command]
        started = Started(command, directory / "log", lambda: answers(port))
        started.start()
        try:
            yield S3Server(port, started, requests)
        finally:
            started.end(signal.SIGTERM)


def _compact_recording(path: Path) -> None:
    """Leave only the requests that made the objects which exist: replaying tens of thousands takes minutes."""
    made: dict[str, list[int]] = {}
    lines = path.read_text().splitlines(keepends=True)
    for number, line in enumerate(lines):
        try:
            request: dict[str, Any] = json.loads(line)
        except ValueError:
            # The server was killed while it wrote the last line.
            break
        url = urlsplit(str(request["url"]))
        key, headers = unquote(url.path), {name.lower(): value for name, value in request["headers"].items()}
        if request["method"] == "PUT" and not ("if-none-match" in headers and key in made):
            source = "/" + unquote(headers.get("x-amz-copy-source", "")).lstrip("/")
            made[key] = [*made.get(source, ()), number]
        elif request["method"] == "POST" and url.query == "delete":
            body = b64decode(request["body"]).decode()
            for name in re.findall("<Key>(.*?)</Key>", body):
                made.pop(f"{key}/{unescape(name)}", None)
        elif request["method"] == "DELETE":
            made.pop(key, None)
    needed = sorted({number for numbers in made.values() for number in numbers})
    path.write_text("".join(lines[number] for number in needed))
