import os
import resource
import signal
import subprocess

from openskills.executors.processes.leftovers import VARIABLE, end_leftovers, new_marker, of_the_dead


def marked(marker: str) -> "subprocess.Popen[bytes]":
    """A process that waits, with a marker on its command line as bwrap has it."""
    return subprocess.Popen(["bash", "-c", "read", "x", "--setenv", VARIABLE, marker, "--"], stdin=subprocess.PIPE)


def test_only_processes_with_that_marker_are_ended() -> None:
    ours, others = new_marker(), new_marker()
    with marked(ours) as one, marked(others) as other:
        assert end_leftovers(lambda marker: marker == ours) == 1
        assert one.wait() == -signal.SIGKILL
        assert other.poll() is None
        other.communicate(b"\n")


def test_what_a_dead_process_started_is_told_from_what_a_living_one_did() -> None:
    assert not of_the_dead(new_marker())
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    here, _, _, token = new_marker().split(".")
    assert of_the_dead(f"{here}.{ended.pid}.1.{token}")
    # The number is alive, but it is another process that has it.
    assert of_the_dead(f"{here}.{os.getpid()}.1.{token}")
    # In another container it may be anybody.
    assert not of_the_dead(f"{'0' * 40}.{ended.pid}.1.{token}")


def test_a_host_that_cannot_be_looked_at_is_not_called_dead() -> None:
    ours = new_marker()
    here, _, _, token = ours.split(".")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as last:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(last.fileno(), soft), hard))
            assert not of_the_dead(ours)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    # A longer path than there can be: nobody has been looked for.
    assert not of_the_dead(f"{here}.{'9' * 4200}.1.{token}")


def test_a_marker_of_a_thousand_digits_harms_nobody() -> None:
    here, _, _, token = new_marker().split(".")
    with marked(f"{here}.{'9' * 5000}.1.{token}") as one:
        assert end_leftovers(of_the_dead) >= 0
        one.communicate(b"\n")
    assert one.returncode == 0


def test_what_looks_like_a_marker_and_is_none_is_left_alone() -> None:
    with marked("no marker") as one:
        assert end_leftovers(lambda marker: marker == "no marker") == 0
        one.communicate(b"\n")
    assert one.returncode == 0
