"""What is found in a skill's folder."""

import os
from itertools import pairwise
from pathlib import Path

import pytest

from openskills.errors import InvalidSkill, LimitExceeded
from openskills.executors.staging.survey import MAX_BYTES, MAX_ENTRIES, Item, Kind, Stamp, is_settled, survey
from tests.executors.skill_folder import skill_folder


def kinds(folder: Path) -> dict[str, Kind]:
    return {item.path: item.kind for item in survey(str(folder))}


def why(folder: Path, path: str) -> str:
    return next(item.why for item in survey(str(folder)) if item.path == path)


def test_everything_an_author_ships_is_found_in_order(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    (folder / "empty").mkdir()
    (folder / ".hidden").touch()
    (folder / "node_modules/x").mkdir(parents=True)
    assert list(kinds(folder)) == [
        ".hidden",
        "SKILL.md",
        "empty",
        "node_modules",
        "node_modules/x",
        "scripts",
        "scripts/0.py",
        "scripts/1.py",
        "scripts/2.py",
    ]


def test_what_belongs_to_tools_of_the_author_is_not_shipped(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path, files=1)
    for name in (".git", "scripts/__pycache__", ".svn", ".hg"):
        (folder / name / "x").mkdir(parents=True)
    assert set(kinds(folder)) == {"SKILL.md", "scripts", "scripts/0.py"}


@pytest.mark.parametrize("name", ["out", "work", "inputs", ".venv"])
def test_names_that_a_workspace_needs_are_left_out_at_the_top_only(tmp_path: Path, name: str) -> None:
    folder = skill_folder(tmp_path)
    (folder / name / "x").mkdir(parents=True)
    (folder / "scripts" / name).mkdir()
    found = kinds(folder)
    assert found[name] is Kind.LEFT_OUT
    assert f"{name}/x" not in found
    assert found[f"scripts/{name}"] is Kind.DIRECTORY
    assert "rename it" in why(folder, name)


def test_a_link_to_a_file_of_the_skill_is_a_file_and_one_that_leads_elsewhere_is_left_out(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    for name, target in {
        "inside": "scripts/0.py",
        "outside": "/etc/passwd",
        "climbing": "../../secret",
        "nowhere": "none",
        "itself": "itself",
    }.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "fifo")
    found = kinds(folder)
    assert found["inside"] is Kind.FILE
    left_out = {path for path, kind in found.items() if kind is Kind.LEFT_OUT}
    assert left_out == {"outside", "climbing", "nowhere", "itself", "fifo"}
    assert "leads out" in why(folder, "outside")
    assert "leads out" in why(folder, "climbing")
    assert "FIFO" in why(folder, "fifo")


def test_a_link_that_says_the_way_to_a_directory_of_the_skill_stays_a_link(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    (folder / "docs/deep").mkdir(parents=True)
    for name, target in {"tools": "scripts", "docs/tools": ".././scripts/", "docs/deep/up": "../../docs/deep"}.items():
        (folder / name).symlink_to(target)
    items = {item.path: item for item in survey(str(folder))}
    assert (items["tools"].kind, items["tools"].target) == (Kind.LINK, "scripts")
    assert items["docs/tools"].kind is Kind.LINK
    assert items["docs/deep/up"].kind is Kind.LEFT_OUT
    assert "lies in itself" in items["docs/deep/up"].why
    assert "tools/0.py" not in items


@pytest.mark.parametrize(
    "target",
    [
        "{folder}/scripts",  # absolute
        ".",  # what the workspace's own directories are beside
        "out",  # the workspace has another one
        ".git",  # not shipped
        "tools",  # another link
        "tools/../scripts",  # through another link
        "deep/er/up/../../../scripts",  # the same, as far as its text goes, but not in truth
        "scripts/../scripts",  # there could be a link
    ],
)
def test_a_link_to_a_directory_that_it_does_not_plainly_name_is_left_out(tmp_path: Path, target: str) -> None:
    folder = skill_folder(tmp_path)
    for name in ("out", ".git", "deep/er"):
        (folder / name).mkdir(parents=True)
    (folder / "tools").symlink_to("scripts")
    (folder / "deep/er/up").symlink_to("../../scripts")
    (folder / "link").symlink_to(target.format(folder=folder))
    assert kinds(folder)["link"] is Kind.LEFT_OUT


def test_every_change_gives_another_survey(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    (folder / "link").symlink_to("scripts/1.py")
    seen = [survey(str(folder))]
    script = folder / "scripts/1.py"
    before = script.stat()
    script.write_text("print(9)\n")  # as long as before
    os.utime(script, ns=(before.st_atime_ns, before.st_mtime_ns))
    seen.append(survey(str(folder)))
    script.chmod(0o755)
    seen.append(survey(str(folder)))
    (folder / "new").touch()
    seen.append(survey(str(folder)))
    assert all(one != other for one, other in pairwise(seen))
    changed = [path for path in ("link", "scripts/1.py") if _stamp(seen[0], path) != _stamp(seen[1], path)]
    assert changed == ["link", "scripts/1.py"]


def _stamp(items: list[Item], path: str) -> Stamp:
    return next(item.stamp for item in items if item.path == path)


def test_a_file_changed_a_moment_ago_is_not_settled(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    (item,) = survey(str(tmp_path))
    changed = item.stamp[4]
    assert not is_settled(item.stamp, changed)
    assert is_settled(item.stamp, changed + 10**9)


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for number in range(MAX_ENTRIES + 1):
        os.symlink("x", str(number), dir_fd=descriptor)
    os.close(descriptor)
    with pytest.raises(LimitExceeded, match="20,000"):
        survey(str(tmp_path))


def test_too_many_bytes_are_refused_before_they_are_read(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(LimitExceeded, match="512 MiB"):
        survey(str(tmp_path))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSkill, match="none"):
        survey(str(tmp_path / "none"))
