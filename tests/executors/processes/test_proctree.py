"""All processes below one are found, and their memory is added up."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from openskills.executors.processes.proctree import Footprint, descendants, footprint

MB = 1024 * 1024
# Three processes below each other: the last one has 60 MB. It says when it is there, and goes when its input ends.
CHAIN = """
import os, sys
if sys.argv[1] == "0":
    data = bytearray(60 * 1024 * 1024)
    for place in range(0, len(data), 4096): data[place] = 1
    print("ready", flush=True); sys.stdin.read()
else:
    import subprocess
    subprocess.run([sys.executable, "-I", "-c", sys.argv[2], str(int(sys.argv[1]) - 1), sys.argv[2]])
"""
FORKS = """
import os, sys
data = bytearray(40 * 1024 * 1024)
for place in range(0, len(data), 4096): data[place] = 1
for _ in range(3):
    if not os.fork(): sys.stdin.read(); os._exit(0)
print("ready", flush=True); sys.stdin.read()
"""
THREADED = """
import subprocess, sys, threading
def start(): subprocess.run([sys.executable, "-I", "-c", "import sys; print('ready', flush=True); sys.stdin.read()"])
thread = threading.Thread(target=start); thread.start(); thread.join()
"""


@contextmanager
def running(program: str, *arguments: str) -> "Generator[subprocess.Popen[bytes]]":
    command = [sys.executable, "-I", "-c", program, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            assert process.stdin
            process.stdin.close()


def test_grandchildren_count() -> None:
    with running(CHAIN, "2", CHAIN) as process:
        assert len(descendants(process.pid)) == 3
        seen = footprint(process.pid)
        assert seen.processes == 3
        assert seen.memory > 60 * MB


def test_children_of_threads_count() -> None:
    with running(THREADED) as process:
        assert len(descendants(process.pid)) == 2


def test_shared_memory_counts_once_where_it_matters() -> None:
    with running(FORKS) as process:
        each = footprint(process.pid)
        assert (each.processes, each.memory > 4 * 40 * MB) == (4, True)
        once = footprint(process.pid, exact_above=100 * MB)
        assert 40 * MB < once.memory < 100 * MB


def test_who_is_gone_uses_nothing() -> None:
    with subprocess.Popen([sys.executable, "-I", "-c", ""]) as process:
        process.wait()
    assert footprint(process.pid) == Footprint(0, 0)


def test_counting_stops_when_there_are_too_many() -> None:
    with running(FORKS) as process:
        assert len(descendants(process.pid, most=0)) == 1


def test_this_process_is_found() -> None:
    assert os.getpid() in descendants(os.getppid())
