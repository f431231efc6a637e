"""Traps that a command leaves in its workspace lead the host nowhere, whether it reads, writes or removes."""

import pytest

from tests.hostile.conftest import Chosen, chosen
from tests.hostile.harness import User
from tests.hostile.planting import VARIABLE, token
from tests.long_form import LONG

LEADING_OUT = {"link", "climbing", "directory", "chain", "chain-2", "root", "environ"}


@pytest.mark.slow
def test_no_trap_leads_the_host_out_of_the_workspace(pair: tuple[Chosen, User]) -> None:
    executor, user = pair
    variables = {VARIABLE: token(), **executor.environment}
    report = user.run("tests.hostile.tricks", executor.name, user.place(), environment=variables)
    assert {*LEADING_OUT, "fifo", "strange", "deep", "real"} - {"chain-2"} <= set(report["set"])
    assert set(report["naive"]) >= LEADING_OUT
    # Under `local` a command reads what its user can, and need not trick anybody to have it collected.
    hard_links_count = executor.name != "local"
    assert [where for where in report["leaked"] if hard_links_count or not where.endswith(" out/hard")] == []
    assert {"collected out/real.txt", "kept out/real.txt"} <= set(report["came"])
    assert report["outside"] == ["secret.txt"]


READS = 1_000_000 if LONG else 6_000


@pytest.mark.slow
def test_no_raced_read_leaks_a_file_outside(request: pytest.FixtureRequest, us: User) -> None:
    executor = chosen(request, "sandbox")
    report = us.run("tests.hostile.racing", executor.name, us.place(), str(READS))
    counts = report["counts"]
    assert report["naive"].get("leaked", 0) > 0
    assert set(counts) == {"inside", "refused"}
    assert sum(counts.values()) >= READS
    assert min(counts.values()) > READS // 100
