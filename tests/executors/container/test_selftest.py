from typing import Any

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.container.selftest import find_faults, run_self_test
from openskills.executors.local import LocalBackend

GOOD: dict[str, Any] = {"interfaces": ["lo"], "read_only": True, "skills_read_only": True, "engines": []}


def test_a_container_as_it_was_asked_for_has_no_faults() -> None:
    assert find_faults(GOOD) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"interfaces": ["lo", "eth0"]}, "the container has a network"),
        ({"read_only": False}, "the root file system of the container is writable"),
        ({"skills_read_only": False}, "staged skills are writable"),
        ({"engines": ["/run/docker.sock"]}, "the socket of an engine is visible in the container"),
    ],
)
def test_what_an_engine_adds_is_named(changed: dict[str, Any], words: str) -> None:
    assert find_faults({**GOOD, **changed}) == [words]


def test_a_probe_that_says_nothing_proves_nothing() -> None:
    assert len(find_faults({})) == len(GOOD)


async def test_what_does_not_isolate_does_not_pass() -> None:
    backend = LocalBackend()
    try:
        with pytest.raises(ExecutorUnavailable, match="the container does not isolate on this machine"):
            await run_self_test(backend)
    finally:
        await backend.close()
