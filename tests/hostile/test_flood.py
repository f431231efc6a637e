"""Output without end costs the host no memory."""

import pytest

from tests.hostile.conftest import Chosen
from tests.hostile.flood import AT_ONCE
from tests.hostile.harness import User
from tests.long_form import LONG

MIB = 1024 * 1024
SECONDS = 10 if LONG else 2


@pytest.mark.slow
def test_eight_commands_that_write_without_end_grow_the_host_by_less_than_32_mb(executor: Chosen, us: User) -> None:
    module = ("tests.hostile.flood", executor.name, us.place(), str(SECONDS))
    report = us.run(*module, environment=executor.environment)
    assert report["growth"] < 32_000_000
    assert report["endings"] == ["timed_out"] * AT_ONCE
    assert min(report["written"]) > MIB
    assert max(report["kept"]) <= MIB
