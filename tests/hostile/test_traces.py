"""After a session nothing of it can be found again from outside."""

import pytest

from tests.hostile.conftest import Chosen
from tests.hostile.harness import User

SEEN_OUTSIDE = {
    *(
        "process",
        "temporary file",
        "shared memory",
        "memory segment",
        "message queue",
        "semaphores",
        "posix queue",
        "workspace file",
    ),
}
LEFT_BY_LOCAL = SEEN_OUTSIDE - {"process", "workspace file"}
"""What `local` does not promise: a command writes where its user may."""


def test_without_protection_every_trace_is_found(us: User) -> None:
    report = us.run("tests.hostile.traces", "bare", us.place())
    assert set(report["found"]) == SEEN_OUTSIDE


@pytest.mark.slow
def test_a_removed_session_leaves_no_trace(pair: tuple[Chosen, User]) -> None:
    executor, user = pair
    report = user.run("tests.hostile.traces", executor.name, user.place(), environment=executor.environment)
    assert {"process", "workspace file", "closed directory", "deep directory"} <= set(report["left"])
    assert report["existed"]
    assert report["removed"]
    assert report["elsewhere"] == []
    allowed = LEFT_BY_LOCAL if executor.name == "local" else set[str]()
    assert {what: where for what, where in report["found"].items() if what not in allowed} == {}
