"""Paths of manifests on the disk."""

import os
from pathlib import Path

import pytest

from openskills.host.registration import Registration
from openskills.host.registry.paths import Bases, settle
from openskills.skillmd.problem import Problem


@pytest.fixture
def bases(tmp_path: Path) -> Bases:
    start, manifest = tmp_path / "start", tmp_path / "manifests"
    for directory in (start, manifest, start / "data"):
        directory.mkdir()
    return Bases(start, manifest, (start / "data",))


def skill(entry: str, root: str | None = None, *, kind: str = "cli:python") -> Registration:
    return Registration("x", kind, entry, "1", allowed_root=None if root is None else Path(root))


def script(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("print()")
    return path


def only(found: tuple[Registration | None, tuple[Problem, ...]]) -> Problem:
    assert found[0] is None
    (problem,) = found[1]
    return problem


def test_an_entry_is_relative_to_the_start_and_then_to_the_manifest(bases: Bases) -> None:
    beside = script(bases.manifest / "a.py")
    found, problems = settle(skill("./a.py"), bases)
    assert found is not None
    assert (found.entry, problems) == (str(beside), ())
    at_start = script(bases.start / "a.py")
    found, _ = settle(skill("./a.py"), bases)
    assert found is not None
    assert found.entry == str(at_start)


def test_a_missing_entry_says_where_it_was_looked_for(bases: Bases) -> None:
    problem = only(settle(skill("skills/a.py"), bases))
    assert problem.rule == "entry-missing"
    assert f"{bases.start}/skills/a.py nor at {bases.manifest}/skills/a.py" in problem.message


@pytest.mark.parametrize("entry", ["../a.py", "x/../../a.py", "a/../../../etc/passwd"])
def test_an_entry_that_climbs_is_reported(bases: Bases, entry: str) -> None:
    script(bases.start.parent / "a.py")
    assert only(settle(skill(entry), bases)).rule == "entry-outside"


def test_an_entry_that_is_a_link_to_elsewhere_is_reported(bases: Bases) -> None:
    outside = script(bases.start.parent / "a.py")
    (bases.start / "a.py").symlink_to(outside)
    problem = only(settle(skill("a.py"), bases))
    assert problem.rule == "entry-outside"
    assert "leads out of" in problem.message


def test_an_entry_below_a_linked_directory_is_reported(bases: Bases, tmp_path: Path) -> None:
    script(tmp_path / "elsewhere" / "a.py")
    (bases.start / "lib").symlink_to(tmp_path / "elsewhere")
    assert only(settle(skill("lib/a.py"), bases)).rule == "entry-outside"


def test_a_link_that_stays_is_resolved(bases: Bases) -> None:
    target = script(bases.start / "real.py")
    (bases.start / "a.py").symlink_to("real.py")
    found, _ = settle(skill("a.py"), bases)
    assert found is not None
    assert found.entry == str(target)


def test_a_link_to_itself_and_a_directory_are_no_entries(bases: Bases) -> None:
    (bases.start / "loop.py").symlink_to("loop.py")
    assert only(settle(skill("loop.py"), bases)).rule == "entry-missing"
    (bases.start / "dir.py").mkdir()
    assert only(settle(skill("dir.py"), bases)).rule == "entry-type"


def test_a_fifo_is_no_entry(bases: Bases) -> None:
    os.mkfifo(bases.start / "pipe.py")
    assert only(settle(skill("pipe.py"), bases)).rule == "entry-type"


def test_an_absolute_entry_is_taken_unless_it_climbs(bases: Bases, tmp_path: Path) -> None:
    outside = script(tmp_path / "a.py")
    found, problems = settle(skill(str(outside)), bases)
    assert found is not None
    assert (found.entry, problems) == (str(outside), ())
    assert only(settle(skill(f"{bases.start}/../a.py"), bases)).rule == "entry-outside"


def test_a_program_must_be_executable(bases: Bases) -> None:
    program = script(bases.start / "run")
    assert "chmod +x" in only(settle(skill("run", kind="cli:exec"), bases)).message
    program.chmod(0o755)
    found, _ = settle(skill("run", kind="cli:exec"), bases)
    assert found is not None


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "x/" * 3000])
def test_a_name_that_no_file_can_have_is_reported(bases: Bases, name: str) -> None:
    assert only(settle(skill(name), bases)).rule == "entry-outside"


def test_entries_that_are_no_files_are_left_alone(bases: Bases) -> None:
    for kind, entry in (("http", "https://example.org/../x"), ("inproc", "a:b"), ("docker", "echo:1")):
        found, problems = settle(skill(entry, kind=kind), bases)
        assert found is not None
        assert (found.entry, problems) == (entry, ())


def test_a_root_is_found_like_an_entry_and_may_be_the_base_itself(bases: Bases) -> None:
    script(bases.start / "a.py")
    (bases.manifest / "more").mkdir()
    for written, meant in (("./data", bases.start / "data"), ("more", bases.manifest / "more"), (".", bases.start)):
        found, problems = settle(skill("a.py", written), bases)
        assert found is not None
        assert (found.allowed_root, problems) == (meant, ())


def test_a_root_that_is_not_there_yet_is_a_warning_unless_it_is_the_hosts_own(bases: Bases) -> None:
    script(bases.start / "a.py")
    found, problems = settle(skill("a.py", "later"), bases)
    assert found is not None
    assert found.allowed_root == bases.start / "later"
    assert [(problem.rule, problem.severity) for problem in problems] == [("root-missing", "warning")]
    (bases.start / "data").rmdir()
    assert settle(skill("a.py", str(bases.start / "data")), bases)[1] == ()


@pytest.mark.parametrize(
    ("root", "rule"),
    [("..", "allowed-root-outside"), ("/etc", "root-outside"), ("a.py", "root-type"), ("out", "allowed-root-outside")],
)
def test_a_root_that_leaves_is_reported(bases: Bases, root: str, rule: str) -> None:
    script(bases.start / "a.py")
    (bases.start / "out").symlink_to("/etc")
    assert only(settle(skill("a.py", root), bases)).rule == rule


def test_a_root_that_the_operator_has_listed_is_allowed(bases: Bases, tmp_path: Path) -> None:
    script(bases.start / "a.py")
    listed = tmp_path / "listed"
    (listed / "part").mkdir(parents=True)
    found, problems = settle(skill("a.py", str(listed / "part")), Bases(bases.start, bases.manifest, (listed,)))
    assert found is not None
    assert (found.allowed_root, problems) == (listed / "part", ())
