"""Content is kept once, under its digest, and checked when it is read."""

import hashlib
from pathlib import Path

import pytest

from openskills.artifacts.blobs import Blobs
from openskills.artifacts.disk import private
from openskills.artifacts.store import Artifact
from openskills.errors import SkillError
from tests.artifacts.test_store import NOW


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(private(tmp_path / "blobs"), private(tmp_path / "way"))


def keep(blobs: Blobs, *pieces: bytes) -> Artifact:
    with blobs.arriving() as arrival:
        for piece in pieces:
            arrival.write(piece)
        blobs.keep(arrival)
        return Artifact("a", 0, arrival.size, "a/b", arrival.sha256, NOW)


def read(blobs: Blobs, artifact: Artifact) -> bytes:
    with blobs.reading(artifact) as outgoing:
        return b"".join(iter(outgoing.next_piece, b""))


def test_content_is_named_by_its_digest_and_comes_back(blobs: Blobs, tmp_path: Path) -> None:
    artifact = keep(blobs, b"hello ", b"world")
    assert artifact.sha256 == hashlib.sha256(b"hello world").hexdigest()
    assert read(blobs, artifact) == b"hello world"
    file = tmp_path / "blobs" / artifact.sha256
    assert file.stat().st_mode & 0o777 == 0o600
    assert list((tmp_path / "way").iterdir()) == []


def test_the_same_content_is_written_once(blobs: Blobs, tmp_path: Path) -> None:
    first = keep(blobs, b"same")
    before = (tmp_path / "blobs" / first.sha256).stat()
    assert keep(blobs, b"sa", b"me").sha256 == first.sha256
    after = (tmp_path / "blobs" / first.sha256).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert blobs.names() == {first.sha256}


def test_content_that_is_not_kept_is_gone(blobs: Blobs, tmp_path: Path) -> None:
    with blobs.arriving() as arrival:
        arrival.write(b"never mind")
    assert blobs.names() == set()
    assert list((tmp_path / "way").iterdir()) == []


@pytest.mark.parametrize("now", [b"hellO", b"hell", b"hello!", b""], ids=["changed", "shorter", "longer", "empty"])
def test_content_that_was_changed_is_never_passed_off_as_whole(blobs: Blobs, tmp_path: Path, now: bytes) -> None:
    artifact = keep(blobs, b"hello")
    (tmp_path / "blobs" / artifact.sha256).write_bytes(now)
    with pytest.raises(SkillError, match=r"artifact://a@0 is damaged: .* is missing or has changed; restore it"):
        read(blobs, artifact)


def test_removing_says_what_it_freed_and_who_reads_can_read_on(blobs: Blobs) -> None:
    kept, gone = keep(blobs, b"kept"), keep(blobs, b"gone!")
    with blobs.reading(gone) as outgoing:
        assert blobs.remove({gone.sha256, "0" * 64}) == 5
        assert b"".join(iter(outgoing.next_piece, b"")) == b"gone!"
    assert blobs.names() == {kept.sha256}
    with pytest.raises(FileNotFoundError):
        read(blobs, gone)
