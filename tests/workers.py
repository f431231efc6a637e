"""Tests in several processes that are forked once all tests are collected: `pytest --workers N`.

Collecting takes seconds and half a gigabyte, so it is done once. A worker begins with its part of the list, and then
takes the second half of the longest part that is left. If the process of a worker ends, the test that it was running
has failed, and another process goes on with the rest.
"""

import os
import random
import signal
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn, cast
from uuid import uuid4

import pytest

_END_TIMEOUT = 30
"""Seconds for workers to end after an interruption, before they are killed."""
_current = {"worker": 0}


def get_worker() -> int:
    """The number of this worker; 0 is also that of a run without workers."""
    return _current["worker"]


def split_evenly(count: int, parts: int) -> list[int]:
    """The sizes of the parts of a list, which differ by at most one."""
    return [(count + part) // parts for part in range(parts)]


@dataclass
class _Worker:
    """A process that runs tests: `pending` are the numbers of those that it has not been given."""

    number: int
    pending: deque[int]
    given: deque[int] = field(default_factory=deque[int])
    connection: Any = None
    pid: int = 0


def count_workers(config: pytest.Config) -> int:
    """How many processes the tests run in, as the option `--workers` says."""
    return cast("int", config.getoption("workers"))


def run_in_workers(session: pytest.Session, count: int) -> bool:
    """Run all tests of the session; see `pytest_runtestloop`."""
    os.environ["OPENSKILL_TEST_RUN"] = uuid4().hex
    start, workers = 0, list[_Worker]()
    for number, size in enumerate(split_evenly(len(session.items), count)):
        workers.append(_Worker(number, deque(range(start, start + size))))
        start += size
    try:
        for worker in workers:
            _fork(session, worker, workers)
        while busy := {worker.connection: worker for worker in workers if worker.pid}:
            for connection in cast("list[Connection]", wait(list(busy))):
                _serve(session, busy[connection], workers)
    finally:
        _end(workers)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


def _fork(session: pytest.Session, worker: _Worker, workers: Sequence[_Worker]) -> None:
    # Here and not by multiprocessing, because pytest's own state goes along.
    ours, theirs = Pipe()
    pid = os.fork()
    if pid == 0:
        ours.close()
        for other in workers:
            if other.pid:
                other.connection.close()
        _work(session, worker.number, theirs)
    theirs.close()
    worker.connection, worker.pid = ours, pid
    _give(worker, workers)
    _give(worker, workers)


def _give(worker: _Worker, workers: Sequence[_Worker]) -> None:
    """Send the number of the next test, or None. One is given ahead, because what it shares decides what is kept."""
    if not worker.pending:
        longest = max(workers, key=lambda one: len(one.pending))
        half = [longest.pending.pop() for _ in range(len(longest.pending) // 2)]
        worker.pending.extend(reversed(half))
    number = worker.pending.popleft() if worker.pending else None
    if number is not None:
        worker.given.append(number)
    with suppress(OSError):
        worker.connection.send(number)


def _serve(session: pytest.Session, worker: _Worker, workers: Sequence[_Worker]) -> None:
    """Read a message of a worker: a report, or the number of a test that has ended."""
    hook = session.config.hook
    try:
        message: Any = worker.connection.recv()
    except (EOFError, OSError):
        _reap(session, worker, workers)
        return
    if isinstance(message, int):
        item = session.items[message]
        worker.given.remove(message)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if session.shouldfail or session.shouldstop:
            for one in workers:
                one.pending.clear()
        _give(worker, workers)
    else:
        report = hook.pytest_report_from_serializable(config=session.config, data=message)
        hook.pytest_runtest_logreport(report=report)


def _reap(session: pytest.Session, worker: _Worker, workers: Sequence[_Worker]) -> None:
    """A worker's process has ended: after its last test, or in the middle of one."""
    _, status = os.waitpid(worker.pid, 0)
    worker.connection.close()
    worker.pid = 0
    if not worker.given:
        return
    item = session.items[worker.given.popleft()]
    why = f"the process of the worker ended with {os.waitstatus_to_exitcode(status)} while it ran this test"
    report = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
    session.config.hook.pytest_runtest_logreport(report=report)
    worker.pending.extendleft(reversed(worker.given))
    worker.given.clear()
    if not session.shouldfail:
        _fork(session, worker, workers)


def _end(workers: Sequence[_Worker]) -> None:
    left = [worker for worker in workers if worker.pid]
    for worker in left:
        # It ends when it cannot send its next message.
        worker.connection.close()
    for worker in left:
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGINT)
    until = time.monotonic() + _END_TIMEOUT
    for worker in left:
        while os.waitpid(worker.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                os.kill(worker.pid, signal.SIGKILL)
            time.sleep(0.02)


def _work(session: pytest.Session, number: int, connection: Any) -> NoReturn:
    """What a worker does: run tests until there are no more, and end."""
    status = 1
    try:
        _current["worker"] = number
        random.seed()
        _become_worker(session.config, number, connection)
        current: int | None = connection.recv()
        while current is not None:
            following: int | None = connection.recv()
            item, last = session.items[current], following is None
            session.config.hook.pytest_runtest_protocol(
                item=item, nextitem=None if last else session.items[cast("int", following)]
            )
            connection.send(current)
            current = following
        session.config.hook.pytest_sessionfinish(session=session, exitstatus=int(session.testsfailed > 0))
        status = 0
    except (EOFError, OSError, KeyboardInterrupt):
        # The run was interrupted.
        pass
    finally:
        # Whatever would run besides belongs to the process that was forked.
        os._exit(status)


def _become_worker(config: pytest.Config, number: int, connection: Any) -> None:
    """Give the plugins of this process what must not be shared with others: files for output, temporary directories."""
    plugins: Any = config.pluginmanager
    cast("Any", config).workerinput = {"workerid": f"gw{number}"}
    plugins.unregister(name="terminalreporter")
    # The files for output so far stay open, because imported modules may refer to them.
    capture = plugins.getplugin("capturemanager")
    capture.previous, capture._global_capturing = capture._global_capturing, None
    capture.start_global_capturing()
    base = cast("Any", config)._tmp_path_factory.getbasetemp()
    cast("Any", config.option).basetemp = str(base / f"w{os.getpid()}")
    plugins.getplugin("tmpdir").pytest_configure(config)
    plugins.register(_Reporter(config, connection))


class _Reporter:
    """Sends the reports of a worker."""

    def __init__(self, config: pytest.Config, connection: Any) -> None:
        self._config = config
        self._connection = connection

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """See pytest."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(data)
