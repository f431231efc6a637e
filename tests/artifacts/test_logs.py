"""Versions are consecutive, survive a line that was cut short, and are forgotten in one step."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openskills.artifacts.disk import private
from openskills.artifacts.logs import Logs
from openskills.artifacts.records import mark_of, record_of
from openskills.artifacts.store import Artifact
from openskills.errors import SkillError
from tests.artifacts.test_store import NOW

OWNER = ("app", "user", "session")


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(private(tmp_path / "logs"), private(tmp_path / "locks"), private(tmp_path / "way"))


def called(name: str, mime_type: str = "a/b") -> Callable[[int], Artifact]:
    return lambda number: Artifact(name, number, 0, mime_type, "0" * 64, NOW)


def the_log(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "logs").glob("*/*")
    return path


def test_versions_are_numbered_from_0_and_remembered(logs: Logs) -> None:
    made = [logs.add(OWNER, "a", called("a")) for _ in range(3)]
    assert [artifact.version for artifact in made] == [0, 1, 2]
    assert logs.versions(OWNER, "a") == tuple(made)
    assert logs.latest(OWNER, "a") == made[-1]


def test_nothing_is_known_about_what_was_never_there(logs: Logs) -> None:
    assert logs.versions(OWNER, "a") == ()
    assert logs.latest(OWNER, "a") is None
    assert logs.latest_of_all(OWNER) == []
    assert not logs.forget(OWNER, "a")


def test_names_and_owners_never_become_paths(logs: Logs, tmp_path: Path) -> None:
    for owner in (("..", ".."), ("/etc", "x", "y")):
        logs.add(owner, "../../escape", called("../../escape"))
    made = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert all(set(path.name) <= set("0123456789abcdef") for path in made)
    assert {path.parts[0] for path in made} == {"logs", "locks"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.rglob("*"))


def test_owners_whose_ids_join_to_the_same_text_are_apart(logs: Logs) -> None:
    logs.add(("a", "b/c"), "d", called("d"))
    for owner, name in ((("a/b", "c"), "d"), (("a", "b", "c"), "d"), (("a",), "b/c/d")):
        assert logs.latest(owner, name) is None


def test_a_line_that_was_cut_short_is_replaced_by_the_next_one(logs: Logs, tmp_path: Path) -> None:
    logs.add(OWNER, "a", called("a"))
    path = the_log(tmp_path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole + whole[:length])
        assert [artifact.version for artifact in logs.versions(OWNER, "a")] == [0]
        assert logs.add(OWNER, "a", called("a", "c/d")).version == 1
        assert [artifact.mime_type for artifact in logs.versions(OWNER, "a")] == ["a/b", "c/d"]


def test_nothing_is_left_of_what_was_cut_short(logs: Logs, tmp_path: Path) -> None:
    made = logs.add(OWNER, "a", called("a"))
    path = the_log(tmp_path)
    path.write_bytes(path.read_bytes() + b"x" * 3000)
    added = logs.add(OWNER, "a", called("a"))
    assert path.read_bytes() == record_of(made, OWNER) + record_of(added, OWNER)


def test_a_log_whose_first_line_was_cut_short_begins_anew(logs: Logs, tmp_path: Path) -> None:
    logs.add(OWNER, "a", called("a"))
    path = the_log(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert logs.latest(OWNER, "a") is None
    assert logs.add(OWNER, "a", called("a")).version == 0


def test_forgetting_keeps_the_number_and_no_trace_of_the_name(logs: Logs, tmp_path: Path) -> None:
    for _ in range(3):
        logs.add(OWNER, "secret-name", called("secret-name"))
    assert logs.forget(OWNER, "secret-name")
    assert not logs.forget(OWNER, "secret-name")
    assert b"secret" not in the_log(tmp_path).read_bytes()
    assert logs.versions(OWNER, "secret-name") == ()
    assert logs.add(OWNER, "secret-name", called("secret-name")).version == 3
    assert [artifact.version for artifact in logs.versions(OWNER, "secret-name")] == [3]


def test_a_log_that_could_only_be_marked_counts_as_forgotten(logs: Logs, tmp_path: Path) -> None:
    logs.add(OWNER, "a", called("a"))
    with the_log(tmp_path).open("ab") as file:
        file.write(mark_of(1))
    assert (logs.versions(OWNER, "a"), logs.latest(OWNER, "a"), logs.forget(OWNER, "a")) == ((), None, False)
    assert logs.add(OWNER, "a", called("a")).version == 1
    assert [artifact.version for artifact in logs.versions(OWNER, "a")] == [1]
    assert logs.forget(OWNER, "a")
    assert the_log(tmp_path).read_bytes() == mark_of(2)


def test_everything_is_every_version_of_everybody(logs: Logs) -> None:
    for owner in (OWNER, ("app", "user")):
        for name in ("a", "b", "b"):
            logs.add(owner, name, called(name))
    assert sorted((artifact.name, artifact.version) for artifact in logs.everything()) == sorted(
        [("a", 0), ("b", 0), ("b", 1)] * 2
    )
    assert sorted((artifact.name, artifact.version) for artifact in logs.latest_of_all(OWNER)) == [("a", 0), ("b", 1)]


def test_threads_get_consecutive_versions(logs: Logs) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = [threads.submit(logs.add, OWNER, "a", called("a")) for _ in range(40)]
    assert sorted(one.result().version for one in made) == list(range(40))


def test_damage_is_an_error_that_names_the_file(logs: Logs, tmp_path: Path) -> None:
    for _ in range(2):
        logs.add(OWNER, "a", called("a"))
    path = the_log(tmp_path)
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with pytest.raises(SkillError, match=f"the log {path} of the artifact store is damaged: .*; restore it"):
        logs.versions(OWNER, "a")


def test_a_log_that_ends_in_much_garbage_is_not_begun_anew(logs: Logs, tmp_path: Path) -> None:
    logs.add(OWNER, "a", called("a"))
    with the_log(tmp_path).open("ab") as file:
        file.write(b"\0" * 100_000)
    with pytest.raises(SkillError, match="damaged: its last 65,536 bytes have no record"):
        logs.add(OWNER, "a", called("a"))


def test_adding_to_a_long_log_reads_only_its_end(logs: Logs, tmp_path: Path) -> None:
    logs.add(OWNER, "a", called("a", "a/" + "b" * 200))
    path = the_log(tmp_path)
    path.write_bytes(b"#" * 1_000_000 + b"\n" + path.read_bytes())
    assert logs.add(OWNER, "a", called("a")).version == 1
