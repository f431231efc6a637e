"""Good skills are found wherever they lie, bad ones are named, and what has not changed is not read again.

A second process reads the index instead of the skills, and never believes a bad one.

A scan knows whether anything had to be read.
"""

import json
import os
import time
from pathlib import Path

import pytest

from openskills.catalog.discovery import TICK_NS, Folder, RootScan, SkillFileEntry, discover, load_index, save_index
from openskills.catalog.root import Root
from openskills.errors import SourceUnavailable
from tests.skill_writer import WriteSkill

LONG_AGO = 1_000_000_000


def names(scan: RootScan) -> list[str]:
    return [
        str(entry.fields["name"])
        for entry in scan.visited.values()
        if isinstance(entry, SkillFileEntry) and entry.fields
    ]


def rules(scan: RootScan) -> set[str]:
    found = {problem.rule for entry in scan.visited.values() for problem in entry.problems}
    return found | {problem.rule for problem in scan.problems}


def search(path: Path, known: RootScan | None = None, *, confine: Path | None = None) -> RootScan:
    return discover(Root(path, "test", confine), known)


def settle(folder: Path) -> None:
    """Make every stamp old, so that it counts as settled. Only ctime cannot be set, so wait for the clock's tick."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)
    newest = max(path.lstat().st_ctime_ns for path in (folder, *folder.rglob("*")))
    probe = folder.parent / ".tick"
    while True:
        probe.touch()
        probe.chmod(0o600)
        if probe.stat().st_ctime_ns - newest > 2 * TICK_NS:
            return


def test_a_directory_of_skills_is_searched_in_order(tmp_path: Path, write_skill: WriteSkill) -> None:
    for name in ("beta", "alpha", "gamma"):
        write_skill(name)
    assert names(search(tmp_path / "skills")) == ["alpha", "beta", "gamma"]


def test_a_skill_folder_itself_is_a_root(write_skill: WriteSkill) -> None:
    assert names(search(write_skill("alpha"))) == ["alpha"]


def test_nested_directories_are_searched_until_a_skill(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("deep", under="skills/office/text")
    outer = write_skill("outer")
    write_skill("inner", under="skills/outer/examples")
    assert names(search(tmp_path / "skills")) == ["deep", "outer"]
    assert str(outer / "examples") not in search(tmp_path / "skills").visited


@pytest.mark.parametrize("skipped", [".git", "node_modules", ".venv", "__pycache__"])
def test_directories_of_tools_are_skipped(tmp_path: Path, write_skill: WriteSkill, skipped: str) -> None:
    write_skill("hidden", under=f"skills/{skipped}")
    write_skill("shown")
    assert names(search(tmp_path / "skills")) == ["shown"]


def test_a_virtual_environment_of_any_name_is_skipped(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("hidden", under="skills/my-python")
    (tmp_path / "skills" / "my-python" / "pyvenv.cfg").touch()
    assert names(search(tmp_path / "skills")) == []


def test_one_bad_file_hides_no_other_skill(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("good")
    for folder, content in {
        "latin": "---\nname: latin\ndescription: caf\u00e9\n---\n".encode("latin-1"),
        "nul": b"---\nname: nul\ndescription: a\0b\n---\n",
        "bomb": b"---\na: &a [x,x]\nb: &b [*a,*a]\n---\n",
        "nested": b"---\na: " + b"[" * 100_000 + b"\n---\n",
        "empty": b"",
        "plain": b"# no front matter\n",
    }.items():
        (tmp_path / "skills" / folder).mkdir()
        (tmp_path / "skills" / folder / "SKILL.md").write_bytes(content)
    scan = search(tmp_path / "skills")
    assert names(scan) == ["good"]
    bad = {
        Path(path).name
        for path, entry in scan.visited.items()
        if isinstance(entry, SkillFileEntry) and not entry.fields
    }
    assert bad == {"latin", "nul", "bomb", "nested", "empty", "plain"}
    assert all(
        entry.problems for entry in scan.visited.values() if isinstance(entry, SkillFileEntry) and not entry.fields
    )


def test_what_the_client_guide_tolerates_is_loaded_with_a_warning(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("other-name", folder="folder")
    write_skill("x" * 80)
    scan = search(tmp_path / "skills")
    assert sorted(names(scan)) == ["other-name", "x" * 80]
    severities = {problem.severity.value for entry in scan.visited.values() for problem in entry.problems}
    assert severities == {"warning"}


def test_a_skill_without_a_name_takes_that_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "from-folder"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\ndescription: Does a thing. Use when asked.\n---\n")
    assert names(search(tmp_path / "skills")) == ["from-folder"]


def test_a_name_that_contains_dot_dot_is_left_out(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("../../etc", folder="climber")
    scan = search(tmp_path / "skills")
    assert (names(scan), "name-unsafe" in rules(scan)) == ([], True)


def test_a_wrongly_spelled_file_is_reported_and_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "skills" / "a").mkdir(parents=True)
    (tmp_path / "skills" / "a" / "Skill.md").write_text("---\nname: a\ndescription: b\n---\n")
    scan = search(tmp_path / "skills")
    assert (names(scan), rules(scan)) == ([], {"file-name"})


def test_a_circle_of_links_ends(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    (tmp_path / "skills" / "loop").symlink_to(".")
    (tmp_path / "skills" / "up").symlink_to("..")
    assert names(search(tmp_path / "skills")) == ["alpha"]


def test_a_linked_skill_folder_counts_once_under_the_name_of_the_link(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="elsewhere")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "alpha").symlink_to("../elsewhere/alpha")
    (tmp_path / "skills" / "again").symlink_to("../elsewhere/alpha")
    scan = search(tmp_path / "skills")
    assert names(scan) == ["alpha"]


def test_a_confined_root_follows_no_link_that_leaves(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("inside")
    write_skill("outside", under="elsewhere")
    (tmp_path / "skills" / "out").symlink_to("../elsewhere/outside")
    scan = search(tmp_path / "skills", confine=tmp_path / "skills")
    assert (names(scan), rules(scan)) == (["inside"], {"link-not-followed"})


def test_the_search_goes_six_levels_down_and_says_when_there_was_more(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("six", under="skills/1/2/3/4/5")
    assert names(search(tmp_path / "skills")) == ["six"]
    write_skill("seven", under="skills/1/2/3/4/5/6")
    scan = search(tmp_path / "skills")
    assert (names(scan), rules(scan)) == (["six"], {"scan-limit"})


def test_an_unchanged_tree_is_not_read_again(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    write_skill("beta", under="skills/group")
    settle(tmp_path / "skills")
    first = search(tmp_path / "skills")
    second = search(tmp_path / "skills", first)
    assert (first.read, second.read, second.has_changes) == (4, 0, False)
    assert all(second.visited[path] is entry for path, entry in first.visited.items())


def test_only_what_changed_is_read_again(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    beta = write_skill("beta")
    settle(tmp_path / "skills")
    first = search(tmp_path / "skills")
    (beta / "SKILL.md").write_text("---\nname: beta\ndescription: Changed. Use when asked.\n---\n")
    second = search(tmp_path / "skills", first)
    assert second.read == 1
    entry = second.visited[str(beta)]
    assert isinstance(entry, SkillFileEntry)
    assert entry.fields is not None
    assert entry.fields["description"] == "Changed. Use when asked."


def test_a_change_of_the_same_size_with_the_old_time_set_back_is_noticed(
    tmp_path: Path, write_skill: WriteSkill
) -> None:
    alpha = write_skill("alpha", "Old text. Use when asked.")
    settle(tmp_path / "skills")
    first = search(tmp_path / "skills")
    file = alpha / "SKILL.md"
    file.write_text(file.read_text().replace("Old text", "New text"))
    os.utime(file, (LONG_AGO, LONG_AGO))
    assert search(tmp_path / "skills", first).read == 1


def test_new_and_removed_skills_are_noticed(tmp_path: Path, write_skill: WriteSkill) -> None:
    alpha = write_skill("alpha")
    settle(tmp_path / "skills")
    first = search(tmp_path / "skills")
    write_skill("beta")
    second = search(tmp_path / "skills", first)
    assert names(second) == ["alpha", "beta"]
    (alpha / "SKILL.md").unlink()
    third = search(tmp_path / "skills", second)
    assert (names(third), third.has_changes) == (["beta"], True)
    assert isinstance(third.visited[str(alpha)], Folder)


def test_a_file_that_was_just_written_is_read_again_because_its_clock_cannot_be_trusted(
    tmp_path: Path, write_skill: WriteSkill
) -> None:
    alpha = write_skill("alpha")
    # However long it takes to get there.
    later = time.time() + 3600
    os.utime(alpha / "SKILL.md", (later, later))
    scan = search(tmp_path / "skills")
    assert scan.visited[str(alpha)].stamp is None


def test_a_link_that_leads_nowhere_is_reported_and_followed_once_it_leads_somewhere(
    tmp_path: Path, write_skill: WriteSkill
) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "alpha").symlink_to("../store/alpha")
    settle(tmp_path / "skills")
    first = search(tmp_path / "skills")
    assert rules(first) == {"link-dangling"}
    write_skill("alpha", under="store")
    second = search(tmp_path / "skills", first)
    assert (names(second), rules(second)) == (["alpha"], set())


@pytest.fixture
def root(tmp_path: Path, write_skill: WriteSkill) -> Root:
    write_skill("alpha", front='metadata: {"x": {"requires": {"bins": ["sh"]}}}\nlicense: MIT\n')
    write_skill("wrong", folder="other", under="skills/group")
    (tmp_path / "skills" / "broken").mkdir()
    (tmp_path / "skills" / "broken" / "SKILL.md").write_text("nothing")
    return Root(tmp_path / "skills", "test")


def written(tmp_path: Path, root: Root) -> tuple[RootScan, Path]:
    scan = discover(root)
    save_index(tmp_path / "cache", root, scan)
    (file,) = (tmp_path / "cache" / "index").iterdir()
    return scan, file


def test_what_was_saved_is_loaded_with_every_field_and_problem(tmp_path: Path, root: Root) -> None:
    scan, _ = written(tmp_path, root)
    loaded = load_index(tmp_path / "cache", root)
    assert loaded is not None
    assert loaded.visited == scan.visited


def test_another_root_has_another_index(tmp_path: Path, root: Root) -> None:
    written(tmp_path, root)
    assert load_index(tmp_path / "cache", Root(root.path, "test", confine=tmp_path)) is None
    assert load_index(tmp_path / "cache", Root(tmp_path, "test")) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "other"}', "null", "\xff"])
def test_a_damaged_index_is_as_good_as_none(tmp_path: Path, root: Root, content: str) -> None:
    _, file = written(tmp_path, root)
    file.write_text(content, encoding="latin-1")
    assert load_index(tmp_path / "cache", root) is None


@pytest.mark.parametrize(
    "visited",
    ["3", '{"/a": 3}', '{"/a": ["s", [1], {}, []]}', '{"/a": ["s", null, 7, []]}', '{"/a": ["d", null, 7, []]}'],
)
def test_an_index_of_the_wrong_shape_is_as_good_as_none(tmp_path: Path, root: Root, visited: str) -> None:
    _, file = written(tmp_path, root)
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "visited": json.loads(visited)}))
    assert load_index(tmp_path / "cache", root) is None


def test_only_the_owner_can_read_the_index(tmp_path: Path, root: Root) -> None:
    _, file = written(tmp_path, root)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_cache_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path, root: Root) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(SourceUnavailable, match="cache cannot be written"):
        save_index(tmp_path / "cache", root, RootScan())


def test_a_scan_that_read_nothing_has_not_changed() -> None:
    assert not RootScan().has_changes
    assert RootScan(read=1).has_changes
