"""A watched catalog follows the disk."""

import queue
from pathlib import Path

import pytest

from openskills.catalog.catalog import Catalog
from openskills.catalog.snapshot import CatalogChanges
from openskills.settings import Settings
from tests.skill_writer import WriteSkill

TIMEOUT = 20  # seconds until a change that never comes is a failure


@pytest.mark.slow
def test_new_changed_and_removed_skills_appear_without_a_refresh(
    tmp_path: Path, settings: Settings, write_skill: WriteSkill
) -> None:
    alpha = write_skill("alpha")
    catalog = Catalog.from_paths(tmp_path / "skills", settings=settings)
    seen: queue.Queue[CatalogChanges] = queue.Queue()
    with catalog.watch(seen.put):
        write_skill("beta")
        while "beta" not in [skill.name for skill in catalog.skills]:
            seen.get(timeout=TIMEOUT)
        (alpha / "SKILL.md").write_text("---\nname: alpha\ndescription: Edited. Use when asked.\n---\n")
        while catalog.get("alpha").description != "Edited. Use when asked.":
            seen.get(timeout=TIMEOUT)
        (alpha / "SKILL.md").unlink()
        while "alpha" in [skill.name for skill in catalog.skills]:
            seen.get(timeout=TIMEOUT)


@pytest.mark.slow
def test_a_root_that_appears_later_is_followed(tmp_path: Path, settings: Settings, write_skill: WriteSkill) -> None:
    catalog = Catalog.from_paths(tmp_path / "skills", settings=settings)
    seen: queue.Queue[CatalogChanges] = queue.Queue()
    with catalog.watch(seen.put):
        write_skill("alpha")
        assert "alpha" in seen.get(timeout=TIMEOUT).added


def test_a_watcher_can_be_closed_twice_and_stops_following(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "skills").mkdir()
    watcher = Catalog.from_paths(tmp_path / "skills", settings=settings).watch()
    watcher.close()
    watcher.close()
    assert watcher.error is None


@pytest.mark.slow
def test_a_function_that_raises_does_not_end_the_watching(
    tmp_path: Path, settings: Settings, write_skill: WriteSkill
) -> None:
    (tmp_path / "skills").mkdir()
    catalog = Catalog.from_paths(tmp_path / "skills", settings=settings)
    seen: queue.Queue[CatalogChanges] = queue.Queue()

    def fail(changes: CatalogChanges) -> None:
        seen.put(changes)
        raise RuntimeError("not our fault")

    with catalog.watch(fail) as watcher:
        write_skill("alpha")
        assert seen.get(timeout=TIMEOUT).added == ("alpha",)
        write_skill("beta")
        assert seen.get(timeout=TIMEOUT).added == ("beta",)
    assert str(watcher.error) == "not our fault"


@pytest.mark.slow
def test_a_root_that_is_replaced_and_then_changes_is_followed(
    tmp_path: Path, settings: Settings, write_skill: WriteSkill
) -> None:
    write_skill("alpha")
    catalog = Catalog.from_paths(tmp_path / "skills", settings=settings)
    seen: queue.Queue[CatalogChanges] = queue.Queue()
    with catalog.watch(seen.put):
        write_skill("beta", under="next")
        (tmp_path / "skills").rename(tmp_path / "old")
        (tmp_path / "next").rename(tmp_path / "skills")
        while [skill.name for skill in catalog.skills] != ["beta"]:
            seen.get(timeout=TIMEOUT)
        # The watcher looks again for what its roots are before it watches the new one.
        write_skill("gamma")
        while "gamma" not in [skill.name for skill in catalog.skills]:
            seen.get(timeout=TIMEOUT)
