import subprocess
import sys

from benchmarks.memory import available, descendants, identity, taken_by


def test_a_descendant_counts_with_its_parent_and_is_known_until_it_ends() -> None:
    inner = "import sys; print(flush=True); sys.stdin.read()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        (grandchild,) = descendants(child.pid)
        known = [identity(pid) for pid in (child.pid, grandchild)]
        both, one = taken_by(child.pid), taken_by(grandchild)
        child.stdin.close()
    assert None not in known
    assert (both.processes, one.processes) == (2, 1)
    assert both.size > one.size > 0
    assert identity(child.pid) is None


def test_a_process_that_is_gone_takes_nothing_that_can_be_read() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert taken_by(child.pid).unreadable == 1


def test_the_machine_has_some_memory_left() -> None:
    assert available() > 0
