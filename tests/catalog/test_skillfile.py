"""Whatever lies where a SKILL.md should be, reading it is safe and the answer is clear."""

import os
import socket
from pathlib import Path

import pytest

from openskills.catalog.skillfile import NoSkillFile, read_skill_file, read_skill_text
from openskills.skillmd.limits import MAX_FILE_BYTES

FRONT = b"---\nname: a\ndescription: b\n---\n"


def test_the_bytes_and_the_stamp_of_a_file_are_returned(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_bytes(FRONT)
    stamp, data, problem = read_skill_file(str(tmp_path))
    assert (data, problem) == (FRONT, None)
    assert stamp is not None
    assert stamp[2] == len(FRONT)


def test_a_folder_without_the_file_is_told_apart_from_a_broken_one(tmp_path: Path) -> None:
    with pytest.raises(NoSkillFile):
        read_skill_file(str(tmp_path))
    text, problem = read_skill_text(str(tmp_path))
    assert text == ""
    assert problem is not None
    assert problem.rule == "file-missing"


def test_a_directory_called_skill_md_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").mkdir()
    _, _, problem = read_skill_file(str(tmp_path))
    assert problem is not None
    assert (problem.rule, "a directory" in problem.message) == ("file-type", True)


def test_a_fifo_does_not_make_the_reader_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "SKILL.md")
    _, _, problem = read_skill_file(str(tmp_path))
    assert problem is not None
    assert (problem.rule, "a FIFO" in problem.message) == ("file-type", True)


def test_a_socket_is_a_clear_problem(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "SKILL.md"))
        _, _, problem = read_skill_file(str(tmp_path))
    assert problem is not None
    assert problem.rule == "file-unreadable"


def test_a_link_to_an_endless_device_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").symlink_to("/dev/zero")
    _, data, problem = read_skill_file(str(tmp_path))
    assert problem is not None
    assert (data, problem.rule) == (b"", "link-leaves-skill")


def test_a_link_that_stays_in_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_bytes(FRONT)
    (tmp_path / "SKILL.md").symlink_to("real.md")
    assert read_skill_file(str(tmp_path))[1] == FRONT


def test_a_link_in_a_circle_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").symlink_to("SKILL.md")
    _, _, problem = read_skill_file(str(tmp_path))
    assert problem is not None


def test_a_file_of_fifty_megabytes_is_refused_by_its_size(tmp_path: Path) -> None:
    with (tmp_path / "SKILL.md").open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    _, data, problem = read_skill_file(str(tmp_path))
    assert problem is not None
    assert (data, problem.rule) == (b"", "file-size")


def test_a_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_bytes(FRONT.ljust(MAX_FILE_BYTES, b"x"))
    assert len(read_skill_file(str(tmp_path))[1]) == MAX_FILE_BYTES
