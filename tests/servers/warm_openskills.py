"""The warm program for tests, one per process that runs them."""

import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.started import own_directory

ROOT = Path(__file__).resolve().parents[2]
CLIENT = Path(__file__).with_name("warm_client.py")
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class WarmOpenskills:
    """Where calls are taken."""

    address: Path

    @property
    def line(self) -> list[str]:
        """What stands in for `python -m openskills`."""
        return [sys.executable, "-ISE", str(CLIENT), str(self.address)]


@pytest.fixture(scope="session")
def warm_openskills() -> Generator[WarmOpenskills]:
    """`openskills` in interpreters that have imported it already; it ends with this process."""
    with own_directory("warm") as directory:
        address = directory / "calls"
        with subprocess.Popen(
            [sys.executable, "-m", "tests.servers.warm_program", str(address)],
            cwd=ROOT,
            env={"LANG": "C.UTF-8"},
            stdin=subprocess.PIPE,
        ) as program:
            deadline = time.monotonic() + PATIENCE
            while not address.exists():
                assert program.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield WarmOpenskills(address)
