"""A catalog finds, ranks and refreshes skills from several sources, and readers never see half a refresh.

The collector pauses and goes on.
"""

import gc
import os
import threading
import zipfile
from pathlib import Path

import pytest

from openskills.catalog.catalog import Catalog, pause_collector
from openskills.catalog.discovery import load_index
from openskills.catalog.root import FetchResult, Progress
from openskills.catalog.sources.parse import parse_source
from openskills.errors import InvalidArgument, UnknownSkill
from openskills.settings import Settings
from tests.skill_writer import WriteSkill


def names(catalog: Catalog) -> list[str]:
    return [skill.name for skill in catalog.skills]


def test_the_example_of_the_documentation_works(tmp_path: Path, settings: Settings, write_skill: WriteSkill) -> None:
    folder = write_skill("pdf-tools", "Merge, split and fill PDF files. Use when the user mentions PDF.")
    write_skill("csv-tools", "Clean and join CSV tables. Use when the user mentions CSV.")
    archive = tmp_path / "more.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("extra/SKILL.md", "---\nname: extra\ndescription: More. Use when asked.\n---\nBody")
    catalog = Catalog.from_paths(tmp_path / "skills", archive, settings=settings)
    assert names(catalog) == ["csv-tools", "extra", "pdf-tools"]
    assert catalog.problems == ()
    assert catalog.get("pdf-tools").location == str(folder / "SKILL.md")
    assert catalog.get("pdf-tools").body() == "# Body"
    assert catalog.search("merge two pdfs", limit=5)[0].skill.name == "pdf-tools"
    assert not catalog.refresh()


def test_a_later_source_wins_and_the_loser_is_reported(
    tmp_path: Path, settings: Settings, write_skill: WriteSkill
) -> None:
    write_skill("same", "First. Use when asked.", under="one")
    write_skill("same", "Second. Use when asked.", under="two")
    catalog = Catalog.from_paths(tmp_path / "one", tmp_path / "two", settings=settings)
    assert catalog.get("same").description == "Second. Use when asked."
    assert [problem.rule for problem in catalog.problems] == ["name-shadowed"]
    assert catalog.get("same").source != ""


def test_a_source_that_cannot_be_reached_hides_no_other(
    tmp_path: Path, settings: Settings, write_skill: WriteSkill
) -> None:
    write_skill("alpha")
    (tmp_path / "bad.zip").write_bytes(b"PK\x03\x04 not really")
    catalog = Catalog.from_paths(tmp_path / "missing", tmp_path / "bad.zip", tmp_path / "skills", settings=settings)
    assert names(catalog) == ["alpha"]
    assert [problem.rule for problem in catalog.problems] == ["source-missing", "source-unavailable"]


def test_text_that_names_no_source_is_an_error_of_the_caller(settings: Settings) -> None:
    with pytest.raises(InvalidArgument):
        Catalog.from_paths("ftp://example.org/skills.zip", settings=settings)


def test_unmet_requirements_hide_a_skill(tmp_path: Path, settings: Settings, write_skill: WriteSkill) -> None:
    write_skill("alpha", front='metadata: {"openclaw": {"requires": {"bins": ["no-such-program"],},},}\n')
    catalog = Catalog.from_paths(tmp_path / "skills", settings=settings)
    assert names(catalog) == []
    assert "no-such-program" in catalog.snapshot.hidden["alpha"].reason
    with pytest.raises(UnknownSkill):
        catalog.get("alpha")


def test_a_refresh_reports_what_it_changed(tmp_path: Path, settings: Settings, write_skill: WriteSkill) -> None:
    alpha, beta = write_skill("alpha"), write_skill("beta")
    catalog = Catalog.from_paths(tmp_path / "skills", settings=settings)
    (alpha / "SKILL.md").write_text("---\nname: alpha\ndescription: New text. Use when asked.\n---\n")
    (beta / "SKILL.md").unlink()
    write_skill("gamma")
    changes = catalog.refresh()
    assert (changes.added, changes.removed, changes.changed) == (("gamma",), ("beta",), ("alpha",))
    assert catalog.get("alpha").description == "New text. Use when asked."
    assert not catalog.refresh()


def test_a_second_catalog_uses_the_index_and_sees_the_same(
    tmp_path: Path, settings: Settings, write_skill: WriteSkill
) -> None:
    write_skill("alpha", front="metadata:\n  author: me\n")
    write_skill("Bad_Name", folder="x")
    first = Catalog.from_paths(tmp_path / "skills", settings=settings)
    assert list((settings.cache_dir / "index").iterdir())
    second = Catalog.from_paths(tmp_path / "skills", settings=settings)
    assert second.skills == first.skills
    assert second.problems == first.problems


def test_without_an_index_nothing_is_written(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    settings = Settings.from_env({"HOME": str(tmp_path / "home"), "OPENSKILL_INDEX": "0"})
    assert names(Catalog.from_paths(tmp_path / "skills", settings=settings)) == ["alpha"]
    assert not (tmp_path / "home").exists()


def test_a_cache_that_cannot_be_written_is_a_note_and_no_failure(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    (tmp_path / "cache").write_text("a file")
    settings = Settings.from_env({"HOME": str(tmp_path), "OPENSKILL_CACHE_DIR": str(tmp_path / "cache")})
    catalog = Catalog.from_paths(tmp_path / "skills", settings=settings)
    assert names(catalog) == ["alpha"]
    assert [problem.rule for problem in catalog.problems] == ["index-unwritable"]


def test_a_hundred_threads_see_the_old_or_the_new_state_and_never_a_mixture(
    tmp_path: Path, settings: Settings, write_skill: WriteSkill
) -> None:
    """Every skill says in its description which generation it is of; a snapshot must be of one generation."""
    folders = [write_skill(f"skill-{number}", "Generation 0. Use when asked.") for number in range(20)]
    catalog = Catalog.from_paths(tmp_path / "skills", settings=settings)
    mixed: list[set[str]] = []
    stop, ready = threading.Event(), threading.Barrier(101)

    def read() -> None:
        ready.wait()
        # A moment of rest for each reader, or a hundred of them leave the writer no time at all.
        while not stop.wait(0.001):
            snapshot = catalog.snapshot
            seen = {skill.description for skill in snapshot.skills}
            if len(seen) != 1 or len(snapshot.skills) != 20 or snapshot.get("skill-7").description not in seen:
                mixed.append(seen)

    threads = [threading.Thread(target=read) for _ in range(100)]
    for thread in threads:
        thread.start()
    try:
        ready.wait()
        for generation in range(1, 21):
            for folder in folders:
                name = folder.name
                text = f"---\nname: {name}\ndescription: Generation {generation}. Use when asked.\n---\n"
                (folder / "SKILL.md").write_text(text)
            catalog.refresh()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert mixed == []
    assert catalog.get("skill-0").description == "Generation 20. Use when asked."


def test_progress_is_told_while_many_skills_are_read(
    tmp_path: Path, settings: Settings, write_skill: WriteSkill
) -> None:
    for number in range(300):
        write_skill(f"skill-{number}")
    told: list[tuple[str, int]] = []

    def progress(what: str, done: int, total: int | None) -> None:
        del total
        told.append((what, done))

    Catalog.from_paths(tmp_path / "skills", settings=settings, progress=progress)
    assert ("reading skills", 256) in told


def test_a_place_that_is_named_twice_counts_where_it_is_named_last(
    tmp_path: Path, settings: Settings, write_skill: WriteSkill
) -> None:
    write_skill("x", "one", under="one")
    write_skill("x", "two", under="two")
    one, two = tmp_path / "one", tmp_path / "two"
    catalog = Catalog.from_paths(one, two, one, settings=settings)
    assert catalog.get("x").description == "one"
    assert [problem.path for problem in catalog.problems] == [str(two / "x" / "SKILL.md")]


def test_a_folder_that_is_reached_on_two_ways_does_not_shadow_itself(
    tmp_path: Path, settings: Settings, write_skill: WriteSkill
) -> None:
    write_skill("x", "one", under="one")
    write_skill("x", "two", under="two")
    (tmp_path / "again").symlink_to("one")
    catalog = Catalog.from_paths(tmp_path / "one", tmp_path / "two", tmp_path / "again", settings=settings)
    assert [problem.path for problem in catalog.problems] == [str(tmp_path / "two" / "x" / "SKILL.md")]


def test_a_change_of_the_body_alone_is_a_change(tmp_path: Path, settings: Settings, write_skill: WriteSkill) -> None:
    alpha = write_skill("alpha")
    catalog = Catalog.from_paths(tmp_path / "skills", settings=settings)
    (alpha / "SKILL.md").write_text((alpha / "SKILL.md").read_text() + "more\n")
    assert catalog.refresh().changed == ("alpha",)
    assert not catalog.refresh()


def test_an_error_that_only_the_system_has_a_word_for_costs_no_other_source(
    tmp_path: Path, settings: Settings, write_skill: WriteSkill
) -> None:
    class Broken:
        label = "broken"

        def fetch(self, progress: Progress) -> FetchResult:
            del progress
            raise OSError(5, "Input/output error")

    write_skill("alpha")
    good = parse_source(tmp_path / "skills", settings)
    catalog = Catalog([Broken(), good], settings)
    assert names(catalog) == ["alpha"]
    assert ["Input/output error" in problem.message for problem in catalog.problems] == [True]


def test_a_folder_whose_name_is_not_utf8_spoils_no_index(
    tmp_path: Path, settings: Settings, write_skill: WriteSkill
) -> None:
    write_skill("alpha")
    os.mkdir(os.fsencode(tmp_path / "skills") + b"/caf\xe9")
    first = Catalog.from_paths(tmp_path / "skills", settings=settings)
    assert load_index(settings.cache_dir, first.roots[0]) is not None


def test_a_guest_is_visible_as_long_as_anybody_invites_it_whatever_is_refreshed(
    tmp_path: Path, settings: Settings, write_skill: WriteSkill
) -> None:
    write_skill("deploy", front="disable-model-invocation: true\n")
    write_skill("usual")
    catalog = Catalog.from_paths(tmp_path / "skills", settings=settings)
    assert names(catalog) == ["usual"]
    with catalog.reveal(["deploy"]):
        with catalog.reveal(["deploy", "no-such-skill"]):
            assert names(catalog) == ["deploy", "usual"]
        write_skill("new")
        assert catalog.refresh().added == ("new",)
        assert names(catalog) == ["deploy", "new", "usual"]
    assert names(catalog) == ["new", "usual"]
    before = catalog.snapshot
    with catalog.reveal(["usual"]):
        assert catalog.snapshot is before


def test_the_collector_goes_on_even_after_a_failure() -> None:
    def fail() -> None:
        with pause_collector():
            assert not gc.isenabled()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert gc.isenabled()


def test_whoever_has_switched_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with pause_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_catalog_is_a_collection_of_its_visible_skills(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("pdf")
    write_skill("docx")
    catalog = Catalog.from_paths(tmp_path)
    assert [skill.name for skill in catalog] == ["docx", "pdf"]
    assert len(catalog) == 2
    assert "pdf" in catalog
    assert "xlsx" not in catalog
    assert catalog["pdf"] is catalog.get("pdf")
    with pytest.raises(UnknownSkill, match="pfd"):
        catalog["pfd"]
