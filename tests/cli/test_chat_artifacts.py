"""Artifacts into files: whole or not at all, and never over what is no file."""

import os
from pathlib import Path

import pytest

from openskills.artifacts.store import ArtifactStore, Scope
from openskills.cli.chat_artifacts import fetched, listed
from openskills.cli.chat_store import artifacts_at
from openskills.errors import InvalidArgument, SkillError
from openskills.settings import Settings
from openskills.sync import run

SCOPE = Scope("cli", "u", "s")


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    """The store of a machine, with an artifact in two versions."""
    found = artifacts_at(None, Settings.from_env({"HOME": str(tmp_path / "home")}))
    for data in (b"one\n", b"\x89PNG\0two"):
        run(found.put(SCOPE, "out/a.bin", data))
    return found


@pytest.mark.parametrize("ref", ["artifact://out/a.bin@0", "out/a.bin@0"])
def test_a_version_is_written_under_the_name_that_was_given(store: ArtifactStore, tmp_path: Path, ref: str) -> None:
    artifact, path = run(fetched(store, SCOPE, ref, str(tmp_path / "copy")))
    assert (artifact.version, path) == (0, str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == b"one\n"


def test_in_a_directory_it_has_its_own_name_and_the_latest_version_is_meant(
    store: ArtifactStore, tmp_path: Path
) -> None:
    assert run(fetched(store, SCOPE, "out/a.bin", str(tmp_path)))[1] == str(tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == b"\x89PNG\0two"


def test_a_link_stays_a_link_and_a_pipe_is_written_into(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("old")
    run(fetched(store, SCOPE, "out/a.bin@0", str(tmp_path / "link")))
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "old").read_bytes()) == (True, b"one\n")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    run(fetched(store, SCOPE, "out/a.bin@0", str(tmp_path / "pipe")))
    assert os.read(reader, 100) == b"one\n"
    os.close(reader)


def test_what_cannot_be_written_leaves_nothing_and_says_where(store: ArtifactStore, tmp_path: Path) -> None:
    with pytest.raises(SkillError, match=r"no/such/copy cannot be written: No such file or directory"):
        run(fetched(store, SCOPE, "out/a.bin", str(tmp_path / "no" / "such" / "copy")))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]


@pytest.mark.parametrize("ref", ["out/b", "out/a.bin@7", "../x", "artifact://", "artifact://out/a.bin@"])
def test_what_is_not_there_is_refused(store: ArtifactStore, ref: str) -> None:
    with pytest.raises(SkillError):
        run(fetched(store, SCOPE, ref, None))


def test_every_version_can_be_listed(store: ArtifactStore) -> None:
    assert [one.version for one in run(listed(store, SCOPE, versions=False))] == [1]
    assert [one.version for one in run(listed(store, SCOPE, versions=True))] == [0, 1]


def test_stdout_gets_the_bytes_as_they_are(store: ArtifactStore, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for bare in (True, False):
        assert run(fetched(store, SCOPE, "out/a.bin", None, bare=bare))[1] is None
    assert capfdbinary.readouterr().out == b"\x89PNG\0two" * 2


def test_an_empty_name_of_a_file_is_no_place(store: ArtifactStore) -> None:
    with pytest.raises(InvalidArgument, match="--to: is empty"):
        run(fetched(store, SCOPE, "out/a.bin", ""))
