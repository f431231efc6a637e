import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from openskills.executors.bubblewrap.selftest import PROGRAM


def found_bare(tmp_path: Path, port: int) -> dict[str, Any]:
    """What the probes find where nothing isolates: each must be able to succeed, or it proves nothing."""
    (tmp_path / "secret").write_text("x")
    about = {
        "host": os.getpid(),
        "port": port,
        "secrets": [str(tmp_path / "secret"), str(tmp_path / "missing")],
        "writable": [str(tmp_path)],
        "closed": [str(tmp_path), str(tmp_path / "missing")],
        "skills": str(tmp_path),
        "variables": ["LC_CTYPE"],
    }
    argv = [sys.executable, "-I", "-S", str(PROGRAM), json.dumps(about)]
    done = subprocess.run(argv, env={"PLANTED": "x"}, capture_output=True, check=True)
    return json.loads(done.stdout)


def test_every_probe_succeeds_where_nothing_isolates(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = found_bare(tmp_path, listener.getsockname()[1])
    assert found["uid"] == str(os.getuid())
    assert "PLANTED" in found["strange variables"].split()
    assert found["readable secrets"] == str(tmp_path / "secret")
    assert found["places to keep closed"] == found["writable places"] == str(tmp_path)
    assert found["loopback of the host"] == found["datagrams"] == found["unix sockets"] == "done"
    assert found["signals to the host"] == "done"
    assert (found["system call filter"], found["processes"]) == ("0", "many")
    assert found["skills_read_only"] is False
    assert "lo" in found["interfaces"]
    assert list(tmp_path.iterdir()) == [tmp_path / "secret"]
