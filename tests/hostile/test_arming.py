"""Every probe is a real attack: without protection it succeeds, or its data say why that is not shown here."""

import os
from collections import Counter
from collections.abc import Generator

import pytest

from tests.conftest import RequireProgram
from tests.hostile.harness import User, battery, nobody, ourselves
from tests.hostile.probes.battery import GROUPS, PROBES
from tests.hostile.probes.probe import Probe
from tests.long_form import cases


@pytest.fixture(params=cases(["ourselves"], ["nobody"]))
def user(request: pytest.FixtureRequest, require_program: RequireProgram) -> Generator[User]:
    """Who runs the host."""
    require_program("setpriv")
    with ourselves() if request.param == "ourselves" else nobody() as user:
        yield user


def test_there_are_more_than_a_hundred_probes_in_every_kind() -> None:
    kinds = Counter(one.group for one in PROBES.values())
    assert len(PROBES) >= 250
    assert set(kinds) == set(GROUPS)
    assert min(kinds.values()) >= 20


def test_without_protection_every_probe_succeeds(user: User) -> None:
    reports = [battery(user, "bare", *options, environment={}) for options in ((), ("terminal",))]
    found: dict[str, bool] = {}
    for report in reports:
        for identity, result in report["results"].items():
            assert not result.get("broken"), result
            found[identity] = found.get(identity, False) or bool(result["escaped"])
    assert reports[0]["touched"]
    assert not [one.id for one in PROBES.values() if one.unarmed and one.id in found]
    root = os.geteuid() == 0 and user.name == "ourselves"
    assert [one.id for one in PROBES.values() if _must_succeed(one, root=root) and not found[one.id]] == []
    assert sum(found.values()) >= (200 if root else 100)


def _must_succeed(one: Probe, *, root: bool) -> bool:
    return not one.unarmed and not one.depends and (root or not one.by_root)
