"""Files that are swapped for links while the host reads them are never followed out of the workspace."""

import pytest

from tests.hostile.conftest import chosen
from tests.hostile.harness import User
from tests.long_form import LONG

READS = 1_000_000 if LONG else 12_000


@pytest.mark.slow
def test_no_raced_read_leaks_a_file_outside(request: pytest.FixtureRequest, us: User) -> None:
    executor = chosen(request, "sandbox")
    report = us.run("tests.hostile.racing", executor.name, us.place(), str(READS))
    counts = report["counts"]
    assert report["naive"].get("leaked", 0) > 0
    assert set(counts) == {"inside", "refused"}
    assert sum(counts.values()) >= READS
    assert min(counts.values()) > READS // 100
