"""Texts of every kind: counted, put in order, changed after a look, converted; binary files are left alone."""

import hashlib
import json
import random
import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.skills.shipped import fault, misuse, run_script

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def tool(place: Path, *arguments: str | Path, **env: str) -> CompletedProcess[str]:
    return run_script("text-tools/scripts/text.py", *arguments, cwd=place, env=env)


def changed(place: Path, data: bytes, *arguments: str) -> bytes:
    """What a command makes of a file."""
    (place / "in.txt").write_bytes(data)
    command, *options = arguments
    (place / "out.txt").unlink(missing_ok=True)
    done = tool(place, command, "in.txt", "--output", "out.txt", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert (place / "in.txt").read_bytes() == data
    return (place / "out.txt").read_bytes()


def test_a_text_is_counted_in_every_way(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("one two\r\n\r\n你好，世界 x\nlast\r".encode("utf-8-sig"))
    (found,) = json.loads(tool(tmp_path, "count", "a.txt", "--json").stdout)
    assert found == {
        "file": "a.txt",
        "encoding": "utf-8-sig",
        "line_ends": "lf 1, crlf 2, cr 1",
        "lines": 4,
        "blank_lines": 1,
        "words": 5,
        "han": 4,
        "characters": 24,
        "bytes": 37,
        "longest_line": 7,
    }


def test_one_bad_file_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    (tmp_path / "b.png").write_bytes(PNG)
    (tmp_path / "c.txt").write_bytes("中文名称\n".encode("gb18030"))
    done = tool(tmp_path, "count", "a.txt", "b.png", "c.txt", "d.txt")
    assert done.returncode == 3
    assert done.stdout.count("file  ") == 1
    first, second, third = done.stderr.splitlines()
    assert first.startswith("error: b.png is binary (a NUL byte at 8)")
    assert "c.txt is not utf-8 (byte 0); say --from NAME; that line could be gb18030 '中文名称'" in second
    assert third == "error: cannot read d.txt: No such file or directory"


def test_an_empty_text_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    (found,) = json.loads(tool(tmp_path, "count", "a.txt", "--json").stdout)
    assert (found["lines"], found["words"], found["line_ends"]) == (0, 0, "none")
    for command in (["sort"], ["unique"], ["convert", "--to", "utf-8"]):
        assert changed(tmp_path, b"", *command) == b""


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", "B 2\na 10\nb 2\nb 2\nc\n"),
        ("--ignore-case", "a 10\nb 2\nB 2\nb 2\nc\n"),
        ("--reverse", "c\nb 2\nb 2\na 10\nB 2\n"),
        ("--unique", "B 2\na 10\nb 2\nc\n"),
        ("--unique --ignore-case", "a 10\nb 2\nc\n"),
        ("--numeric", "b 2\nB 2\nb 2\na 10\nc\n"),
        ("--numeric --reverse", "a 10\nb 2\nB 2\nb 2\nc\n"),
        ("--column 2", "c\na 10\nb 2\nB 2\nb 2\n"),
        ("--column 2 --numeric", "b 2\nB 2\nb 2\na 10\nc\n"),
    ],
)
def test_lines_are_sorted(tmp_path: Path, options: str, wanted: str) -> None:
    assert changed(tmp_path, b"b 2\na 10\nB 2\nc\nb 2", "sort", *options.split()).decode() == wanted


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", "b\na\nB\nc\n"),
        ("--ignore-case", "b\na\nc\n"),
        ("--count", "2\tb\n1\ta\n1\tB\n1\tc\n"),
        ("--only repeated", "b\n"),
        ("--only single", "a\nB\nc\n"),
        ("--only single --ignore-case", "a\nc\n"),
    ],
)
def test_lines_are_there_once(tmp_path: Path, options: str, wanted: str) -> None:
    assert changed(tmp_path, b"b\na\nB\nb\nc\n", "unique", *options.split()).decode() == wanted


def test_line_ends_and_encoding_of_the_original_are_kept(tmp_path: Path) -> None:
    assert changed(tmp_path, b"b\r\na\r\n", "sort") == b"a\r\nb\r\n"
    assert changed(tmp_path, "ö\nä".encode("utf-16"), "sort").decode("utf-16") == "ä\nö\n"
    assert changed(tmp_path, "乙\n甲\n".encode("gb18030"), "sort", "--from", "gb18030").decode("gb18030") == "乙\n甲\n"
    assert changed(tmp_path, b"\xef\xbb\xbfb\na\n", "sort") == b"\xef\xbb\xbfa\nb\n"


def test_a_replacement_is_shown_before_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"colour one\r\nnothing\r\nCOLOUR colour\r\n")
    seen = tool(tmp_path, "replace", "a.txt", "--find", "colour", "--with", "color", "--ignore-case")
    assert seen.stdout.splitlines() == [
        *("--- a.txt", "+++ a.txt, changed"),
        *("@@ line 1 @@", "-colour one", "+color one"),
        *("@@ line 3 @@", "-COLOUR colour", "+color color"),
        "3 replacements in a.txt; nothing was written: say --output FILE or --in-place",
    ]
    assert (tmp_path / "a.txt").read_bytes() == b"colour one\r\nnothing\r\nCOLOUR colour\r\n"
    tool(tmp_path, "replace", "a.txt", "--find", "colour", "--with", "color", "--in-place")
    assert (tmp_path / "a.txt").read_bytes() == b"color one\r\nnothing\r\nCOLOUR color\r\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--find", "a.c", "--with", r"\1"], rb"\1 abc x\1y"),
        (["--find", "a.c", "--with", "-", "--regex"], b"- - x-y"),
        (["--find", "a.c", "--with", "-", "--whole-word"], b"- abc xa.cy"),
        (["--find", r"(\w)\.(\w)", "--with", r"\2.\1", "--regex"], b"c.a abc xc.ay"),
        (["--find", "a.c abc", "--with", ""], b" xa.cy"),
    ],
)
def test_text_and_regular_expressions_are_replaced(tmp_path: Path, options: list[str], wanted: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(b"a.c abc xa.cy")
    done = tool(tmp_path, "replace", "a.txt", *options, "--output", "b.txt")
    assert (done.returncode, (tmp_path / "b.txt").read_bytes()) == (0, wanted)


def test_replacing_across_lines_is_shown_as_a_difference(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    seen = tool(tmp_path, "replace", "a.txt", "--regex", "--find", r"one\ntwo", "--with", "1-2").stdout
    assert "\n-one\n-two\n+1-2\n" in seen


def test_a_preview_of_countless_changes_is_short(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(("x" * 1000 + "\n") * 5000)
    seen = tool(tmp_path, "replace", "a.txt", "--find", "x", "--with", "y").stdout
    assert "more lines of changes" in seen
    assert len(seen) < 70_000
    assert "5,000,000 replacements" in seen


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--find", "", "--with", "x"], "--find: there is nothing to look for"),
        (["--find", "(", "--with", "x", "--regex"], "--find: invalid regular expression '('"),
        (["--find", "(a)", "--with", r"\2", "--regex"], "--with: '\\\\2' cannot be used: invalid group reference"),
        (
            ["--find", "^(a+)+$", "--with", "x", "--regex", "--timeout", "1"],
            "--find: this regular expression takes too",
        ),
        (["--find", "a", "--with", "x" * 100_000], "--with: the result would have more than 268,435,456 characters"),
    ],
)
def test_a_replacement_that_cannot_be_is_refused(tmp_path: Path, options: list[str], said: str) -> None:
    (tmp_path / "a.txt").write_text("a" * 5000 + "b")
    assert fault(tool(tmp_path, "replace", "a.txt", *options), 2).startswith(said)


def test_nothing_found_is_a_status_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    done = tool(tmp_path, "replace", "a.txt", "--find", "y", "--with", "z", "--output", "b.txt")
    assert (done.returncode, done.stderr) == (1, "'y' is not in a.txt\n")
    assert not (tmp_path / "b.txt").exists()


@pytest.mark.parametrize(
    ("data", "options", "wanted"),
    [
        ("中文\r\n".encode("gb18030"), "--from gb18030 --to utf-8", "中文\r\n".encode()),
        ("中文\r\nx\ry\n".encode(), "--line-ends lf", "中文\nx\ny\n".encode()),
        (b"a\nb\r\n", "--line-ends crlf", b"a\r\nb\r\n"),
        ("é\n".encode(), "--to utf-8-sig", b"\xef\xbb\xbf" + "é\n".encode()),
        (b"\xef\xbb\xbfx", "--to utf-8", b"x"),
        ("é".encode("utf-16"), "--to latin-1", b"\xe9"),
        ("é".encode("utf-16-le"), "--from utf-16-le --to utf-8", "é".encode()),
    ],
)
def test_encodings_and_line_ends_are_converted(tmp_path: Path, data: bytes, options: str, wanted: bytes) -> None:
    assert changed(tmp_path, data, "convert", *options.split()) == wanted


@pytest.mark.parametrize(
    ("data", "options", "status", "said"),
    [
        ("a\n€".encode(), "--to latin-1", 3, "a.txt, line 2: latin-1 has no '\\u20ac' (EURO SIGN)"),
        (b"x", "--to nonsense", 2, "--to: unknown text encoding 'nonsense'"),
        (b"x", "--to hex", 2, "--to: unknown text encoding 'hex'"),
        (b"x", "--from hex --to utf-8", 2, "--from: unknown text encoding 'hex'"),
        (PNG, "--to utf-8", 3, "a.txt is binary"),
        (PNG, "--from utf-8 --to utf-16", 3, "a.txt is not utf-8 (byte 0)"),
        (b"\xff\xfe\x00", "--to utf-8", 3, "a.txt is not utf-16"),
        (b"x" * (32 * 1024 * 1024 + 1), "--to utf-8", 2, "a.txt has more than 33,554,432 bytes; cut it with parts.py"),
    ],
)
def test_what_cannot_be_converted_is_said(tmp_path: Path, data: bytes, options: str, status: int, said: str) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    done = tool(tmp_path, "convert", "a.txt", *options.split(), "--output", "b.txt")
    assert fault(done, status).startswith(said)
    assert not (tmp_path / "b.txt").exists()


def test_the_original_is_never_the_output(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("b\na\n")
    (tmp_path / "link").symlink_to("a.txt")
    for name in ("a.txt", "link", tmp_path / "a.txt"):
        said = fault(tool(tmp_path, "sort", "a.txt", "--output", name), 2)
        assert said == f"--output: {name} is the original; give another name"
    (tmp_path / "out").mkdir()
    assert tool(tmp_path, "sort", "a.txt", "--output", "a.txt", OUTPUT_DIR=str(tmp_path / "out")).returncode == 0
    assert (tmp_path / "out" / "a.txt").read_text() == "a\nb\n"


def test_changing_in_place_keeps_links_and_permissions(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    (tmp_path / "a.txt").chmod(0o640)
    (tmp_path / "link").symlink_to("a.txt")
    tool(tmp_path, "replace", "link", "--find", "old", "--with", "new", "--in-place")
    assert (tmp_path / "link").is_symlink()
    assert ((tmp_path / "a.txt").read_text(), (tmp_path / "a.txt").stat().st_mode & 0o777) == ("new", 0o640)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("sort a --column 0", "argument --column: '0' is not a positive number"),
        ("convert a", "one of the arguments --to --line-ends is required"),
        (
            "replace a --find x --with y --in-place --output b",
            "argument --output: not allowed with argument --in-place",
        ),
    ],
)
def test_a_wrong_command_is_refused(tmp_path: Path, arguments: str, said: str) -> None:
    assert misuse(tool(tmp_path, *arguments.split())) == said


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
    assert said == f"argument --bytes: invalid size {size!r}; use 1000, 500K, 10M or 1G"
