"""A skill reads its body and files when asked, as they are then, and nothing outside its folder.

The files of a skill are listed with their kind and size, and nothing outside it ever is.

Whatever lies where a SKILL.md should be, reading it is safe and the answer is clear.
"""

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from openskills.catalog.skill import (
    MAX_RESOURCES,
    NoSkillFile,
    Resource,
    ResourceKind,
    Skill,
    classify_resource,
    find_resources,
    read_skill_file,
    read_skill_text,
)
from openskills.errors import ForbiddenPath, InvalidArgument, InvalidSkill, LimitExceeded
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.yaml import MAX_FILE_BYTES
from tests.skill_writer import WriteSkill


@pytest.fixture
def skill(write_skill: WriteSkill) -> Skill:
    folder = write_skill("alpha", body="# One\n\ntext --- text\n---\nmore")
    (folder / "references").mkdir()
    (folder / "references" / "a.md").write_bytes(b"caf\xe9\r\n")
    (folder / "run.py").write_text("print()")
    return Skill(SkillManifest("alpha", "Does a thing."), str(folder), "test")


def test_the_body_is_read_whole_and_fresh(skill: Skill) -> None:
    assert skill.body() == "# One\n\ntext --- text\n---\nmore"
    Path(skill.location).write_text("---\nname: alpha\ndescription: b\n---\nnew")
    assert skill.body() == "new"


def test_a_body_that_has_gone_is_an_error_that_says_so(skill: Skill) -> None:
    Path(skill.location).unlink()
    with pytest.raises(InvalidSkill, match=r"alpha: .* is not a skill any more") as caught:
        skill.body()
    assert len(caught.value.problems) == 1


def test_docs_are_those_that_a_model_may_select(skill: Skill) -> None:
    assert [resource.path for resource in skill.resources()] == ["references/a.md", "run.py"]
    assert [resource.path for resource in skill.docs()] == ["references/a.md"]


def test_a_resource_is_bytes_unchanged(skill: Skill) -> None:
    assert skill.read("references/a.md") == b"caf\xe9\r\n"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x"])
def test_a_path_that_leaves_the_skill_is_forbidden(skill: Skill, path: str) -> None:
    with pytest.raises(ForbiddenPath):
        skill.read(path)


def test_a_link_that_leaves_the_skill_is_forbidden(skill: Skill, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (skill.path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ForbiddenPath):
        skill.read("link")


def test_what_is_not_a_file_is_an_error_of_the_caller(skill: Skill) -> None:
    with pytest.raises(InvalidArgument, match=r"'missing\.md' of the skill 'alpha' cannot be read"):
        skill.read("missing.md")
    with pytest.raises(InvalidArgument, match="is not a file of the skill 'alpha'"):
        skill.read("references")
    for path in ("a/" * 2040 + "b", "x" * 300):
        with pytest.raises(InvalidArgument):
            skill.read(path)
    with pytest.raises(InvalidArgument, match="limit"):
        skill.read("run.py", limit=-5)


def test_a_folder_that_was_swapped_for_a_link_to_other_files_gives_none_of_them(skill: Skill, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("secret")
    skill.path.rename(tmp_path / "moved")
    skill.path.symlink_to(tmp_path / "private")
    with pytest.raises(InvalidSkill, match="not a skill any more"):
        skill.read("key")
    with pytest.raises(InvalidSkill, match="not a skill any more"):
        skill.resources()


def test_a_link_that_is_swapped_while_it_is_read_never_leads_out(skill: Skill, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    good, bad, shown = skill.path / "good", skill.path / "bad", skill.path / "shown"
    good.write_text("good")
    bad.symlink_to(tmp_path / "secret")
    shown.write_text("good")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.replace(good, shown)
            good.write_text("good")
            os.replace(bad, shown)
            bad.symlink_to(tmp_path / "secret")

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: set[bytes] = set()
    try:
        for _ in range(3000):
            with suppress(ForbiddenPath, InvalidArgument):
                seen.add(skill.read("shown"))
    finally:
        stop.set()
        swapper.join()
    assert seen <= {b"good", b""}


def test_a_resource_over_the_limit_is_refused(skill: Skill) -> None:
    with pytest.raises(LimitExceeded, match="more than 3 bytes"):
        skill.read("run.py", limit=3)
    assert skill.read("run.py", limit=7) == b"print()"


def fill(folder: Path, *paths: str) -> None:
    for path in paths:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("12345")


def test_every_file_but_skill_md_is_listed_sorted_with_size(tmp_path: Path) -> None:
    fill(tmp_path, "SKILL.md", "scripts/run.py", "references/a.md", "assets/logo.png", "LICENSE", "sub/SKILL.md")
    found = find_resources(str(tmp_path))
    assert [resource.path for resource in found] == [
        "LICENSE", "assets/logo.png", "references/a.md", "scripts/run.py", "sub/SKILL.md",
    ]  # fmt: skip
    assert {resource.size for resource in found} == {5}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("scripts/data.json", ResourceKind.SCRIPT),
        ("tool.py", ResourceKind.SCRIPT),
        ("references/x.pdf", ResourceKind.REFERENCE),
        ("FORMS.md", ResourceKind.REFERENCE),
        ("assets/readme.md", ResourceKind.ASSET),
        ("LICENSE", ResourceKind.OTHER),
        ("data/table.csv", ResourceKind.OTHER),
    ],
)
def test_the_folder_decides_what_a_file_is_for_and_then_its_ending(path: str, kind: ResourceKind) -> None:
    assert classify_resource(path) == kind


def test_docs_are_markdown_and_text_wherever_they_lie() -> None:
    assert Resource("deep/NOTES.TXT", ResourceKind.OTHER, 1).is_doc
    assert not Resource("scripts/run.py", ResourceKind.SCRIPT, 1).is_doc


def test_links_that_leave_the_skill_are_left_out_and_those_that_stay_are_listed(tmp_path: Path) -> None:
    outside, skill = tmp_path / "secret.md", tmp_path / "skill"
    outside.write_text("secret")
    fill(skill, "SKILL.md", "a.md")
    (skill / "inner.md").symlink_to("a.md")
    (skill / "outer.md").symlink_to(outside)
    (skill / "parent").symlink_to(tmp_path)
    (skill / "dangling.md").symlink_to("nowhere")
    assert [resource.path for resource in find_resources(str(skill))] == ["a.md", "inner.md"]


def test_special_files_and_version_control_are_left_out(tmp_path: Path) -> None:
    fill(tmp_path, "a.md", ".git/config", "node_modules/x/index.js", "__pycache__/a.pyc")
    os.mkfifo(tmp_path / "pipe.md")
    assert [resource.path for resource in find_resources(str(tmp_path))] == ["a.md"]


def test_a_skill_reached_through_a_link_lists_its_files(tmp_path: Path) -> None:
    fill(tmp_path / "real", "SKILL.md", "a.md")
    (tmp_path / "link").symlink_to("real")
    assert [resource.path for resource in find_resources(str(tmp_path / "link"))] == ["a.md"]


def test_a_very_deep_tree_ends_the_search_without_an_error(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    (deep / "far.md").write_text("x")
    fill(tmp_path, "near.md")
    assert [resource.path for resource in find_resources(str(tmp_path))] == ["near.md"]


def test_the_list_is_bounded(tmp_path: Path) -> None:
    for number in range(MAX_RESOURCES + 5):
        (tmp_path / f"{number}.txt").touch()
    assert len(find_resources(str(tmp_path))) == MAX_RESOURCES


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


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("SKILL.md", "Write well.", False),
        ("SKILL.md", "Use `pdftotext` for it.", True),
        ("scripts/go.py", "print()", True),
        ("tools/go.rb", "puts 1", True),
        ("references/more.md", "Write better.", False),
        ("references/more.md", "```bash\nls\n```", True),
        ("assets/table.csv", "a,b", False),
    ],
)
def test_whether_a_skill_has_anything_to_run(write_skill: WriteSkill, path: str, text: str, found: bool) -> None:
    folder = write_skill("alpha", body=text if path == "SKILL.md" else "Write well.")
    if path != "SKILL.md":
        (folder / path).parent.mkdir()
        (folder / path).write_text(text)
    assert Skill(SkillManifest("alpha", "Does a thing."), str(folder), "test").has_commands() is found


def test_a_program_without_an_extension_and_declared_tools_can_be_run(write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", body="Write well.")
    for tools, found in ((("Bash(git:*)",), True), (("Read", "Write"), False)):
        assert Skill(SkillManifest("alpha", "x", allowed_tools=tools), str(folder), "test").has_commands() is found
    (folder / "convert").write_text("#!/bin/sh")
    alpha = Skill(SkillManifest("alpha", "x"), str(folder), "test")
    assert not alpha.has_commands()
    (folder / "convert").chmod(0o755)
    assert alpha.has_commands()


def test_a_skill_that_is_gone_may_have_had_something_to_run(write_skill: WriteSkill) -> None:
    folder = write_skill("alpha")
    (folder / "SKILL.md").unlink()
    assert Skill(SkillManifest("alpha", "x"), str(folder), "test").has_commands()
