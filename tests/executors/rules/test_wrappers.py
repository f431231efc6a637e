"""Programs that run others are known by name."""

import pytest

from openskills.executors.rules.wrappers import is_many, runs_others


@pytest.mark.parametrize(
    "name",
    [
        *("bash", "sh", "BASH", "env", "xargs", "nohup", "timeout", "sudo", "setsid", "nice", "busybox", "time"),
        *("ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1", "ssh", "flock", "script", "unshare", "strace", "stdbuf"),
        *("bash5", "zsh-5.9", "ksh93", "linux64", "npx", "hush", "static-sh"),
    ],
)
def test_who_runs_others_is_known(name: str) -> None:
    assert runs_others(name)


@pytest.mark.parametrize(
    "name", ["python3", "ls", "shasum", "environment", "nicer", "", "bash.py", "run", "5", "python3.11"]
)
def test_who_does_not_is_let_alone(name: str) -> None:
    assert not runs_others(name)


def test_a_program_that_is_many_in_one_is_known() -> None:
    assert is_many("BusyBox")
    assert not is_many("bash")
