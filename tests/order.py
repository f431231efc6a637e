"""The order of tests for several workers: tests that share something expensive run first, each group in one worker.

`pytest --workers N` gives each worker an equal part of the list, in order. A worker that has finished its part takes
tests from the end of another's. What stands at the beginning of a part therefore stays in one worker: a Ray
cluster or a browser is started once, and the tests that take longest are not the last ones to run.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tests.workers import split_evenly

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Group:
    """Tests that stay together: the beginnings of their paths, and about how many seconds of a processor they take."""

    seconds: int
    paths: tuple[str, ...]


GROUPS = (
    Group(100, ("tests/executors/ray/test_cluster.py",)),
    Group(100, ("tests/hostile/",)),
    Group(90, ("tests/host/console/",)),
    Group(70, ("tests/docs/",)),
    Group(50, ("tests/benchmarks/",)),
    Group(
        60,
        (
            "tests/host/test_several_hosts.py",
            "tests/host/test_shared_database.py",
            "tests/host/test_transfer.py",
            "tests/runtime/test_leases.py",
            "tests/session/",
            "tests/artifacts/",
            "tests/agent/test_crashes.py",
            "tests/executors/test_checkpoints.py",
            "tests/adapters/langchain/test_runtime_checkpoints.py",
            "tests/adapters/langchain/test_state.py",
            "tests/cli/test_db.py",
            "tests/cli/test_artifacts.py",
        ),
    ),
    Group(40, ("tests/executors/test_con", "tests/executors/container/", "tests/host/runners/test_docker.py")),
    Group(
        40,
        (
            "tests/executors/programs/",
            "tests/host/runners/test_isolation_sandboxed.py",
            "tests/host/runners/test_python.py",
        ),
    ),
    Group(20, ("tests/architecture/",)),
)
"""Those with a Ray cluster, attacks, a browser, pages, benchmarks, database servers, containers, scripts started
cold and warm, and our parsed code."""


@dataclass(slots=True)
class _Part(Generic[T]):
    size: int
    seconds: int = 0
    tests: list[T] = field(default_factory=list[T])


def order_tests(
    tests: Sequence[T], workers: int, path_of: Callable[[T], str], groups: Iterable[Group] = GROUPS
) -> list[T]:
    """All tests, in parts for workers: each part begins with groups, and continues with others in their order."""
    parts = [_Part[T](size) for size in split_evenly(len(tests), workers)]
    rest = list(tests)
    for group in sorted(groups, key=lambda group: -group.seconds):
        part = min(parts, key=lambda part: part.seconds)
        part.seconds += group.seconds
        part.tests += [test for test in rest if path_of(test).startswith(group.paths)]
        rest = [test for test in rest if not path_of(test).startswith(group.paths)]
    for part in parts:
        room = max(part.size - len(part.tests), 0)
        part.tests += rest[:room]
        del rest[:room]
    parts[-1].tests += rest
    return [test for part in parts for test in part.tests]
