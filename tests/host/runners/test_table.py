"""The table of runners."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.host.model import ManifestFault, Registration
from openskills.host.runners.kinds import RUNNER_KINDS
from openskills.host.runners.table import Runners, load_foreign_runner
from tests.host.calls_made import settings


def skill(kind: str) -> Registration:
    """A skill of this kind."""
    return Registration("s", kind, "x", "1")


@pytest.mark.parametrize("kind", RUNNER_KINDS)
async def test_every_kind_has_one_runner_for_all_its_skills(tmp_path: Path, kind: str) -> None:
    runners = Runners(settings(tmp_path), directory=tmp_path)
    assert runners.get_runner(skill(kind)) is runners.get_runner(skill(kind))
    assert type(runners.get_runner(skill(kind))).__name__ == RUNNER_KINDS[kind].runner.partition(":")[2]
    await runners.close()


async def test_an_unknown_kind_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ManifestFault, match="did you mean 'cli:python'"):
        Runners(settings(tmp_path)).get_runner(skill("cli:pyton"))


def test_a_runner_of_another_package_is_made_with_the_settings(tmp_path: Path) -> None:
    found = EntryPoint("own", "tests.host.own_runner:OwnRunner", "openskills.runners")
    assert type(load_foreign_runner(found, settings(tmp_path))).__name__ == "OwnRunner"


@pytest.mark.parametrize("value", ["no.such.module:X", "tests.host.own_runner:Missing"])
def test_a_runner_that_cannot_be_imported_is_told(tmp_path: Path, value: str) -> None:
    with pytest.raises(ExecutorUnavailable, match="own"):
        load_foreign_runner(EntryPoint("own", value, "openskills.runners"), settings(tmp_path))
