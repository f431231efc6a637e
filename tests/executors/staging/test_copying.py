"""Copies of a skill's folder, and the digest of what was copied."""

import os
import stat
from pathlib import Path

import pytest

from openskills.errors import InvalidSkill, LimitExceeded
from openskills.executors.staging.copying import Copy, copy_items
from openskills.executors.staging.survey import MAX_BYTES, survey
from tests.executors.skill_folder import skill_folder


def copied(folder: Path, target: Path) -> Copy:
    return copy_items(str(folder), survey(str(folder)), target)


def test_a_copy_is_the_same_and_read_only(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    (folder / "link").symlink_to("scripts/1.py")
    copy = copied(folder, tmp_path / "copy")
    assert (copy.files, copy.size) == (5, sum((folder / path).stat().st_size for path in FILES))
    for path in FILES:
        assert (tmp_path / "copy" / path).read_bytes() == (folder / path).read_bytes()
        assert not (tmp_path / "copy" / path).is_symlink()
    modes = [stat.S_IMODE((tmp_path / "copy" / path).stat().st_mode) for path in ("scripts", "scripts/0.py", "link")]
    assert modes == [0o555, 0o555, 0o444]


FILES = ("SKILL.md", "scripts/0.py", "scripts/1.py", "scripts/2.py", "link")


def test_the_digest_depends_on_names_content_and_executable_bits_and_on_nothing_else(tmp_path: Path) -> None:
    digests: list[str] = []
    folder = skill_folder(tmp_path)

    def again() -> str:
        digests.append(copied(folder, tmp_path / f"copy{len(digests)}").digest)
        return digests[-1]

    first = again()
    os.utime(folder / "SKILL.md", (0, 0))
    (folder / "SKILL.md").chmod(0o600)
    assert again() == first
    for change in (
        lambda: (folder / "SKILL.md").chmod(0o755),
        lambda: (folder / "SKILL.md").write_text("other"),
        lambda: (folder / "SKILL.md").rename(folder / "skill.md"),
        (folder / "empty").mkdir,
        (folder / "scripts/1.py").unlink,
    ):
        change()
        again()
    assert len(set(digests)) == 6


def test_names_cannot_be_shifted_into_content(tmp_path: Path) -> None:
    for name, files in {"one": {"a": "b", "c": ""}, "two": {"a": "", "bc": ""}}.items():
        (tmp_path / name).mkdir()
        for path, content in files.items():
            (tmp_path / name / path).write_text(content)
    assert copied(tmp_path / "one", tmp_path / "x").digest != copied(tmp_path / "two", tmp_path / "y").digest


def test_a_file_that_became_a_link_to_elsewhere_is_not_copied(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    items = survey(str(folder))
    (folder / "SKILL.md").unlink()
    (folder / "SKILL.md").symlink_to("/etc/passwd")
    with pytest.raises(InvalidSkill, match="leads out of the skill"):
        copy_items(str(folder), items, tmp_path / "copy")


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    items = survey(str(folder))
    (folder / "scripts/1.py").unlink()
    with pytest.raises(InvalidSkill, match=r"scripts/1\.py cannot be read"):
        copy_items(str(folder), items, tmp_path / "copy")


def test_the_digest_is_of_the_bytes_that_were_copied_not_of_those_that_were_surveyed(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    items = survey(str(folder))
    (folder / "SKILL.md").write_text("edited meanwhile")
    copy = copy_items(str(folder), items, tmp_path / "copy")
    assert (tmp_path / "copy/SKILL.md").read_text() == "edited meanwhile"
    assert copy.digest == copied(tmp_path / "copy", tmp_path / "again").digest


def test_a_file_that_grew_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    items = survey(str(folder))
    with (folder / "SKILL.md").open("r+b") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(LimitExceeded, match="512 MiB"):
        copy_items(str(folder), items, tmp_path / "copy")
