"""Traps that a command leaves in its workspace lead the host nowhere, whether it reads, writes or removes."""

import pytest

from tests.hostile.conftest import Chosen
from tests.hostile.harness import User
from tests.hostile.planting import VARIABLE, token

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
