"""An S3-compatible server for tests: moto's, in a process of its own, one per process that runs tests."""

import os
import signal
import sys
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.started import Started, answers, free_port, own_directory

PROGRAM = Path(__file__).with_name("s3_program.py")
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKTESTKEY", "AWS_SECRET_ACCESS_KEY": "the secret of tests"}


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where the server is."""

    port: int
    started: Started

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
def running() -> Generator[S3Server]:
    """A server that ends with the block."""
    with own_directory("s3") as directory:
        port = free_port()
        command = [sys.executable, str(PROGRAM), str(port), str(os.getpid())]
        started = Started(command, directory / "log", lambda: answers(port))
        started.start()
        try:
            yield S3Server(port, started)
        finally:
            started.end(signal.SIGTERM)
