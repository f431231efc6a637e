"""The table of runners."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.host.registration import Registration
from openskills.host.running.manifest_fault import ManifestFault
from openskills.host.running.runners import KINDS, Runners, foreign_runner
from openskills.sync import run
from tests.host.calls_made import settings


def skill(kind: str) -> Registration:
    """A skill of this kind."""
    return Registration("s", kind, "x", "1")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_one_runner_for_all_its_skills(tmp_path: Path, kind: str) -> None:
    async def work() -> None:
        runners = Runners(settings(tmp_path), directory=tmp_path)
        assert runners.for_(skill(kind)) is runners.for_(skill(kind))
        assert type(runners.for_(skill(kind))).__name__ == KINDS[kind].partition(":")[2]
        await runners.close()

    run(work())


def test_an_unknown_kind_is_told_with_the_nearest(tmp_path: Path) -> None:
    async def work() -> None:
        with pytest.raises(ManifestFault, match="did you mean 'cli:python'"):
            Runners(settings(tmp_path)).for_(skill("cli:pyton"))

    run(work())


def test_a_runner_of_another_package_is_made_with_the_settings(tmp_path: Path) -> None:
    found = EntryPoint("own", "tests.host.own_runner:OwnRunner", "openskills.runners")
    assert type(foreign_runner(found, settings(tmp_path))).__name__ == "OwnRunner"


@pytest.mark.parametrize("value", ["no.such.module:X", "tests.host.own_runner:Missing"])
def test_a_runner_that_cannot_be_imported_is_told(tmp_path: Path, value: str) -> None:
    with pytest.raises(ExecutorUnavailable, match="own"):
        foreign_runner(EntryPoint("own", value, "openskills.runners"), settings(tmp_path))
