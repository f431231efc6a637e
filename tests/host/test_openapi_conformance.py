"""schemathesis over the host's own document, with every check on."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.host.hosting import Served, chatty, echo, key_in, served
from tests.long_form import LONG

# A key that came with another body before is refused with 422, and the tool does not know that keys are to be unique.
ACCEPTED = """\
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429", "5xx"]
"""


def check(host: Served, directory: Path, examples: int, *more: str) -> None:
    config = directory / "schemathesis.toml"
    config.write_text(ACCEPTED)
    program = Path(sys.executable).parent / "st"
    line = [
        str(program),
        "--config-file",
        str(config),
        "run",
        f"{host.url}/openapi.json",
        "--checks",
        "all",
        "--no-color",
    ]
    line += ["-n", str(examples), "--generation-deterministic", *more]
    done = subprocess.run(line, cwd=directory, capture_output=True, timeout=500)
    assert done.returncode == 0, done.stdout.decode()[-6000:]
    assert b"Tested: 23" in done.stdout


def test_the_host_does_what_its_document_says_where_keys_are_needed(tmp_path: Path) -> None:
    key = key_in(tmp_path)
    with served(tmp_path, {"echo": echo, "chatty": chatty}, host_auth="on") as host:
        check(host, tmp_path, 4 if LONG else 2, "-H", f"Authorization: Bearer {key}")


@pytest.mark.skipif(not LONG, reason="`make hostile` runs it; the same is tested above where keys are needed")
def test_the_host_does_what_its_document_says(tmp_path: Path) -> None:
    with served(tmp_path, {"echo": echo, "chatty": chatty}) as host:
        check(host, tmp_path, 40)
