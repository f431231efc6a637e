"""A decision holds for what was seen, is kept for the next process, and is never lost to another one.

The digest of a folder changes with everything that could change what its skills do, and with nothing else.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openskills.catalog import trust
from openskills.catalog.trust import TrustAnswer, TrustStore, hash_folder
from openskills.errors import InvalidArgument, LimitExceeded
from tests.catalog.deep_folder import make_too_deep
from tests.conftest import needs_root


def compute_digest(folder: Path, confine: Path) -> str:
    return hash_folder(folder, confine)[0]


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "config")


def test_a_decision_is_remembered_for_this_digest_only(store: TrustStore, tmp_path: Path) -> None:
    assert store.read_decisions() == {}
    store.remember(tmp_path, {"/p/a": "abc", "/p/b": "bcd"}, TrustAnswer.YES)
    store.remember(tmp_path, {"/p/b": "cde"}, TrustAnswer.NO)
    decisions = TrustStore(tmp_path / "config").read_decisions()
    assert {place: decisions[place].answer_for("abc") for place in decisions} == {"/p/a": TrustAnswer.YES, "/p/b": None}
    assert decisions["/p/b"].answer_for("cde") is TrustAnswer.NO
    assert decisions["/p/a"].project == str(tmp_path)


def test_a_decision_can_be_taken_back(store: TrustStore, tmp_path: Path) -> None:
    store.remember(tmp_path, {"/p/a": "abc", "/p/b": "bcd"}, TrustAnswer.YES)
    store.forget(["/p/a", "/p/never"])
    assert list(store.read_decisions()) == ["/p/b"]


def test_nothing_to_remember_or_to_forget_writes_nothing(store: TrustStore, tmp_path: Path) -> None:
    store.remember(tmp_path, {}, TrustAnswer.YES)
    store.forget([])
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_not_text_and_names_that_look_alike_are_kept_apart(store: TrustStore, tmp_path: Path) -> None:
    names = ["/p/\udcff", "/p/A", "/p/a", "/p/\N{LATIN SMALL LETTER E WITH ACUTE}", "/p/e\N{COMBINING ACUTE ACCENT}"]
    store.remember(tmp_path, {name: str(number) for number, name in enumerate(names)}, TrustAnswer.YES)
    assert {name: decision.digest for name, decision in store.read_decisions().items()} == {
        name: str(number) for number, name in enumerate(names)
    }


def test_only_the_owner_can_read_the_decisions(store: TrustStore, tmp_path: Path) -> None:
    store.remember(tmp_path, {"/p/a": "abc"}, TrustAnswer.YES)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "config").iterdir()}
    assert modes == {"trust.json": 0o600, "trust.lock": 0o600}
    assert (tmp_path / "config").stat().st_mode & 0o777 == 0o700


def test_processes_that_decide_at_the_same_time_lose_no_decision(store: TrustStore, tmp_path: Path) -> None:
    code = (
        "import pathlib, sys\n"
        "from openskills.catalog.trust import TrustAnswer, TrustStore\n"
        "store = TrustStore(pathlib.Path(sys.argv[1]))\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
        "for number in range(20):\n"
        "    store.remember(pathlib.Path('/p'), {f'/p/{sys.argv[2]}/{number}': 'abc'}, TrustAnswer.YES)\n"
        "store.forget([f'/p/{sys.argv[2]}/0'])\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "config"), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    # All of them are ready; the end of their input is the start.
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.close()
    expected = {f"/p/{writer}/{number}" for writer in range(4) for number in range(1, 20)}
    assert store.read_decisions().keys() == expected


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"places": 3}',
        '{"places": {"/a": {"answer": "yes"}}}',
        '{"places": {"/a": {"project": "/", "digest": "a", "at": "", "answer": "perhaps"}}}',
    ],
)
def test_a_broken_file_is_an_error_that_names_it_rather_than_a_forgotten_decision(tmp_path: Path, content: str) -> None:
    (tmp_path / "trust.json").write_text(content)
    store = TrustStore(tmp_path)
    for attempt in (store.read_decisions, lambda: store.remember(tmp_path, {"/p": "abc"}, TrustAnswer.YES)):
        with pytest.raises(InvalidArgument, match=r"trust\.json.*repair or remove"):
            attempt()
    assert (tmp_path / "trust.json").read_text() == content


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / ".agents" / "skills" / "a"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("text")
    (folder / "scripts" / "run.sh").write_text("echo")
    return tmp_path / "project"


@pytest.fixture
def skills(project: Path) -> Path:
    return project / ".agents" / "skills"


def test_the_digest_is_the_same_as_long_as_nothing_changes(skills: Path, project: Path) -> None:
    before = compute_digest(skills, project)
    os.utime(skills / "a" / "SKILL.md", (1, 1))
    assert compute_digest(skills, project) == before


def test_any_change_of_content_name_mode_or_link_changes_the_digest(skills: Path, project: Path) -> None:
    seen = {compute_digest(skills, project)}
    (skills / "a" / "scripts" / "run.sh").write_text("rm")
    seen.add(compute_digest(skills, project))
    (skills / "a" / "scripts" / "run.sh").chmod(0o755)
    seen.add(compute_digest(skills, project))
    (skills / "a" / "scripts" / "run.sh").rename(skills / "a" / "scripts" / "go.sh")
    seen.add(compute_digest(skills, project))
    (skills / "a" / "link").symlink_to("SKILL.md")
    seen.add(compute_digest(skills, project))
    (skills / "a" / "link").unlink()
    (skills / "a" / "link").symlink_to("scripts/go.sh")
    seen.add(compute_digest(skills, project))
    assert len(seen) == 6


def test_names_that_differ_in_case_or_composition_only_are_different_names(skills: Path, project: Path) -> None:
    seen = {compute_digest(skills, project)}
    file = skills / "a" / "\N{LATIN SMALL LETTER E WITH ACUTE}.md"
    file.write_text("same")
    for name in ("\N{LATIN CAPITAL LETTER E WITH ACUTE}.md", "e\N{COMBINING ACUTE ACCENT}.md", "\udcff.md"):
        seen.add(compute_digest(skills, project))
        file = file.rename(file.with_name(name))
    assert len(seen | {compute_digest(skills, project)}) == 5


def test_one_folder_has_one_digest_whichever_way_leads_to_it(skills: Path, project: Path, tmp_path: Path) -> None:
    (project / ".claude").symlink_to(".agents")
    (tmp_path / "elsewhere").symlink_to("project")
    ways = (skills, project / ".claude" / "skills", tmp_path / "elsewhere" / ".agents" / "skills")
    assert len({compute_digest(way, confine) for way in ways for confine in (project, tmp_path / "elsewhere")}) == 1


def test_a_linked_folder_inside_the_project_counts_with_its_content(skills: Path, project: Path) -> None:
    (project / "tools" / "b").mkdir(parents=True)
    (project / "tools" / "b" / "SKILL.md").write_text("one")
    (skills / "b").symlink_to("../../tools/b")
    before = compute_digest(skills, project)
    (project / "tools" / "b" / "SKILL.md").write_text("two")
    assert compute_digest(skills, project) != before


def test_a_linked_file_counts_with_its_content_inside_the_project_only(
    skills: Path, project: Path, tmp_path: Path
) -> None:
    for file in (project / "shared.md", tmp_path / "outside.md"):
        file.write_text("one")
    (skills / "a" / "shared.md").symlink_to("../../../shared.md")
    (skills / "a" / "outside.md").symlink_to(tmp_path / "outside.md")
    before = compute_digest(skills, project)
    (tmp_path / "outside.md").write_text("two")
    assert compute_digest(skills, project) == before
    (project / "shared.md").write_text("two")
    assert compute_digest(skills, project) != before


def test_a_link_that_comes_to_lead_somewhere_changes_the_digest(skills: Path, project: Path) -> None:
    (skills / "later").symlink_to("../../later")
    before = compute_digest(skills, project)
    (project / "later").mkdir()
    (project / "later" / "SKILL.md").write_text("here I am")
    assert compute_digest(skills, project) != before


def test_a_link_cannot_look_like_another_file(skills: Path, project: Path) -> None:
    (skills / "a" / "x").symlink_to("one\ntwo")
    (skills / "a" / "y").write_text("")
    first = compute_digest(skills, project)
    (skills / "a" / "x").unlink()
    (skills / "a" / "x").symlink_to("one")
    (skills / "a" / "y").rename(skills / "a" / "two\ny")
    assert compute_digest(skills, project) != first


def test_links_to_the_whole_disk_to_a_parent_or_to_themselves_end(skills: Path, project: Path) -> None:
    (skills / "root").symlink_to("/")
    (skills / "parent").symlink_to(".")
    (skills / "itself").symlink_to("itself")
    (skills / "device").symlink_to("/dev/zero")
    os.mkfifo(skills / "fifo")
    assert compute_digest(skills, project)


def test_a_project_that_is_the_whole_disk_is_covered_like_any_other(skills: Path) -> None:
    before = compute_digest(skills, Path("/"))
    (skills / "a" / "SKILL.md").write_text("changed")
    assert compute_digest(skills, Path("/")) != before


def test_too_many_bytes_are_refused_before_they_are_read(skills: Path, project: Path) -> None:
    with (skills / "a" / "huge.bin").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(LimitExceeded, match=r"skills has more than .*move other files"):
        compute_digest(skills, project)


def test_bytes_that_are_reached_again_through_links_count_again(skills: Path, project: Path) -> None:
    with (project / "big.bin").open("wb") as file:
        file.truncate(trust.MAX_BYTES // 8 + 1)
    for number in range(8):
        (skills / "a" / f"{number}.bin").symlink_to("../../../big.bin")
    with pytest.raises(LimitExceeded):
        compute_digest(skills, project)


@pytest.mark.slow
def test_too_many_folders_are_refused_like_too_many_files(skills: Path, project: Path) -> None:
    for number in range(trust.MAX_ENTRIES):
        os.mkdir(skills / str(number))
    with pytest.raises(LimitExceeded, match="20,000 files and folders"):
        compute_digest(skills, project)


def test_what_cannot_be_read_is_an_error_and_not_left_out(skills: Path, project: Path) -> None:
    make_too_deep(skills)
    with pytest.raises(OSError, match="too long"):
        compute_digest(skills, project)


@pytest.mark.parametrize("part", ["trust.json", "."])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_decisions_that_others_could_have_written_do_not_count(tmp_path: Path, part: str, mode: int) -> None:
    store = TrustStore(tmp_path)
    tmp_path.chmod(0o700)
    store.remember(tmp_path, {"/place": "digest"}, TrustAnswer.YES)
    assert len(store.read_decisions()) == 1
    path = tmp_path / part
    path.chmod(path.stat().st_mode | mode)
    with pytest.raises(InvalidArgument, match=r"other users can write to .*chmod go-w"):
        store.read_decisions()


@needs_root("only it can give files away")
def test_decisions_in_a_file_of_another_user_do_not_count(tmp_path: Path) -> None:
    store = TrustStore(tmp_path)
    store.remember(tmp_path, {"/place": "digest"}, TrustAnswer.YES)
    os.chown(tmp_path / "trust.json", 12345, 12345)
    with pytest.raises(InvalidArgument, match="belongs to another user"):
        store.read_decisions()
