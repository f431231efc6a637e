"""Files cut into parts and put together again, byte by byte."""

import hashlib
import random
import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.skills.shipped import fault, misuse, run_script

BINARY = random.Random(1).randbytes(3_000_000)


def parts(place: Path, *arguments: str | Path, **env: str) -> CompletedProcess[str]:
    return run_script("text-tools/scripts/parts.py", *arguments, cwd=place, env=env)


@pytest.mark.parametrize(
    ("data", "option", "sizes"),
    [
        (BINARY, "--bytes=1M", [1 << 20, 1 << 20, 3_000_000 - (2 << 20)]),
        (BINARY, "--bytes=1500000", [1_500_000, 1_500_000]),
        (b"1\n22\n333\n4444", "--lines=2", [5, 8]),
        (b"1\n22\n333\n", "--lines=3", [9]),
        (b"x" * 2_500_000 + b"\ny\n", "--lines=1", [2_500_001, 2]),
        (b"", "--lines=1", []),
    ],
    ids=["bytes", "equal", "lines", "one", "long line", "empty"],
)
def test_parts_make_the_whole_again(tmp_path: Path, data: bytes, option: str, sizes: list[int]) -> None:
    (tmp_path / "in.bin").write_bytes(data)
    done = parts(tmp_path, "split", "in.bin", option, "--output", "pieces")
    assert (done.returncode, done.stderr) == (0, "")
    made = sorted((tmp_path / "pieces").iterdir())
    assert [path.stat().st_size for path in made] == sizes
    digest = re.findall(r"sha256 of the whole: (\w{64})", done.stdout)[0]
    assert digest == hashlib.sha256(data).hexdigest()
    if made:
        assert parts(tmp_path, "join", *made, "--output", "again", "--sha256", digest).returncode == 0
        assert (tmp_path / "again").read_bytes() == data


def test_parts_in_the_wrong_order_leave_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\nb\n")
    digest = parts(tmp_path, "split", "in", "--lines", "1").stdout.split()[-1]
    said = fault(parts(tmp_path, "join", "in.002", "in.001", "--output", "whole", "--sha256", digest), 3)
    assert said.startswith("--sha256: these parts make another file")
    assert not (tmp_path / "whole").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\nb\n")
    (tmp_path / "in.001").write_bytes(b"precious")
    assert "in.001: File exists" in fault(parts(tmp_path, "split", "in", "--lines", "1"), 2)
    assert "in: File exists; remove it or give another name" in fault(
        parts(tmp_path, "join", "in.001", "--output", "in"), 2
    )
    assert (tmp_path / "in.001").read_bytes() == b"precious"


def test_parts_go_to_the_output_directory(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\nb\n")
    (tmp_path / "out").mkdir()
    parts(tmp_path, "split", "in", "--lines", "1", OUTPUT_DIR=str(tmp_path / "out"))
    parts(tmp_path, "split", "in", "--lines", "1", "--output", "inner", OUTPUT_DIR=str(tmp_path / "out"))
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("in.*")} == {
        *("out/in.001", "out/in.002", "out/inner/in.001", "out/inner/in.002"),
    }


def test_thousands_of_parts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"\n" * 2000)
    done = parts(tmp_path, "split", "in", "--lines", "1", "--output", "pieces")
    assert (done.returncode, done.stderr) == (2, "error: --lines, --bytes: more than 999 parts; make them larger\n")


@pytest.mark.parametrize("size", ["0", "-1", "x", "1T", "1.5M"])
def test_an_amount_that_is_none_is_refused(tmp_path: Path, size: str) -> None:
    said = misuse(parts(tmp_path, "split", "in", f"--bytes={size}"))
    assert said == f"argument --bytes: {size!r} is no amount; use 1000, 500K, 10M or 1G"
