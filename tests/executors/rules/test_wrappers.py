"""Programs that run others are known by name."""

import pytest

from openskills.executors.rules.wrappers import runs_others


@pytest.mark.parametrize(
    "name",
    [
        *("bash", "sh", "BASH", "env", "xargs", "nohup", "timeout", "sudo", "setsid", "nice", "busybox", "time"),
        *("ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1", "ssh", "flock", "script", "unshare", "strace", "stdbuf"),
    ],
)
def test_who_runs_others_is_known(name: str) -> None:
    assert runs_others(name)


@pytest.mark.parametrize("name", ["python3", "ls", "shasum", "environment", "nicer", "", "bash.py"])
def test_who_does_not_is_let_alone(name: str) -> None:
    assert not runs_others(name)
