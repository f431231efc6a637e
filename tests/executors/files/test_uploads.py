"""Names for files that came with a conversation."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.executors.files.uploads import upload_name


@pytest.mark.parametrize(
    ("name", "becomes"),
    [
        ("report.pdf", "report.pdf"),
        ("../../.bashrc", ".bashrc"),
        ("C:\\Users\\me\\data.csv", "data.csv"),
        ("a/b/c.txt", "c.txt"),
        ("", "upload_1"),
        (".", "upload_1"),
        ("..", "upload_1"),
        ("x/", "upload_1"),
        ("  ", "upload_1"),
        ("CON", "CON"),
        ("-rf", "_-rf"),
        ("a/--help.txt", "_--help.txt"),
        ("~root", "_~root"),
        (" ~", "_~"),
        ("a\0b\nc\u202e.txt", "a_b_c_.txt"),
        (".arriving-x", "arriving-x"),
        ("日本語.txt", "日本語.txt"),
    ],
)
def test_a_name_becomes_a_file_name(name: str, becomes: str) -> None:
    assert upload_name(name) == becomes


def test_a_name_that_is_taken_gets_a_number_before_its_ending() -> None:
    assert upload_name("a.txt", {"A.TXT"}) == "a_2.txt"
    assert upload_name("a.txt", {"a.txt", "a_2.txt"}) == "a_3.txt"
    assert upload_name(".bashrc", {".bashrc"}) == ".bashrc_2"
    assert upload_name("..", {"upload_1"}) == "upload_2"


def test_a_long_name_keeps_its_ending() -> None:
    name = upload_name("é" * 4096 + ".csv")
    assert name.endswith("é.csv")
    assert len(os.fsencode(name)) <= 255
    assert upload_name("é" * 4096 + ".csv", {name}).endswith("é_2.csv")


@given(st.lists(st.text(max_size=300), max_size=8))
def test_every_name_is_one_part_of_a_path_and_no_two_are_the_same(names: list[str]) -> None:
    taken: list[str] = []
    for name in names:
        taken.append(upload_name(name, taken))
    assert len({name.casefold() for name in taken}) == len(names)
    for name in taken:
        assert 0 < len(os.fsencode(name)) <= 255
        assert "/" not in name
        assert "\0" not in name
        assert name not in (".", "..")
        assert name[0] not in "-~"
