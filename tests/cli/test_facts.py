"""What is said about a skill: estimates are for text only, relations are by folder."""

from pathlib import Path

from openskills.catalog.catalog import Catalog
from openskills.cli.facts import facts_json, fields_of, gather
from openskills.settings import Settings
from openskills.skillmd.manifest import SkillManifest
from tests.skill_writer import WriteSkill


def catalog_of(tmp_path: Path, *places: Path) -> Catalog:
    settings = Settings.from_env({"HOME": str(tmp_path / "home"), "PATH": ""})
    return Catalog.from_paths(*places, settings=settings)


def test_tokens_are_estimated_for_text_and_unknown_for_the_rest(tmp_path: Path, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", body="four")
    (folder / "notes.md").write_text("x" * 400)
    (folder / "image.png").write_bytes(b"\x89PNG\xff")
    (folder / "nul.txt").write_bytes(b"a\0b")
    (folder / "huge.txt").write_bytes(b"x" * (1024 * 1024 + 1))
    catalog = catalog_of(tmp_path, folder)
    facts = gather(catalog.get("alpha"), None, catalog.snapshot)
    assert (facts.body_lines, facts.body_tokens) == (1, 1)
    tokens = {resource.path: count for resource, count in facts.resources}
    assert tokens == {"notes.md": 100, "image.png": None, "nul.txt": None, "huge.txt": None}


def test_the_winner_shadows_and_the_loser_is_shadowed(tmp_path: Path, write_skill: WriteSkill) -> None:
    first, second = write_skill("alpha", under="one"), write_skill("alpha", under="two")
    around = catalog_of(tmp_path, first, second).snapshot
    winner = gather(around.get("alpha"), None, around)
    assert ([skill.directory for skill in winner.shadows], winner.shadowed_by) == ([str(first)], None)
    loser = gather(catalog_of(tmp_path, first).get("alpha"), None, around)
    assert loser.shadowed_by is not None
    assert (loser.shadows, loser.shadowed_by.directory) == ((), str(second))


def test_only_fields_that_were_given_are_named() -> None:
    manifest = SkillManifest("a", "b", license="MIT", allowed_tools=("Read",), user_invocable=False)
    assert fields_of(manifest) == {"license": "MIT", "allowed_tools": ("Read",), "user_invocable": False}
    assert fields_of(SkillManifest("a", "b")) == {}


def test_the_facts_for_a_program_name_everything(tmp_path: Path, write_skill: WriteSkill) -> None:
    catalog = catalog_of(tmp_path, write_skill("alpha", front="metadata: {requires: {bins: [ls]}}\n"))
    hidden = catalog.snapshot.hidden["alpha"]
    facts = facts_json(gather(hidden.skill, hidden.reason, catalog.snapshot))
    assert list(facts) == [
        "name",
        "description",
        "location",
        "source",
        "hidden",
        "fields",
        "requirements",
        "body",
        "resources",
        "shadows",
        "shadowed_by",
        "problems",
    ]
    assert facts["requirements"] == {"bins": ("ls",), "any_bins": (), "env": (), "platforms": (), "always": False}
