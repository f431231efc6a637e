"""Reports on tables as people have them."""

import re
from pathlib import Path

import pytest

from tests.skills.shipped import fault, misuse, run_script

SCRIPT = "csv-report/scripts/report.py"


def report(place: Path, *arguments: str) -> str:
    done = run_script(SCRIPT, "t.csv", *arguments, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def rows(text: str) -> dict[str, list[str]]:
    """The cells of the table of a report, by column."""
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| ")]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in cells[1:]}


def test_large_and_exact_numbers_are_not_rounded_away(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,share,tiny\n1000000,0.125,1e-9\n1000001,0.25,3e-9\n1000003,0.5,2e-9\n")
    assert rows(report(tmp_path)) == {
        "id": ["integer", "0", "1000000", "1000001.33", "1000003"],
        "share": ["number", "0", "0.125", "0.291667", "0.5"],
        "tiny": ["number", "0", "1e-09", "2e-09", "3e-09"],
    }


def test_numbers_at_the_edge_of_what_there_is_have_a_mean(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n" + "1.7e308\n" * 10)
    assert rows(report(tmp_path))["a"] == ["number", "0", "1.7e+308", "1.7e+308", "1.7e+308"]


@pytest.mark.parametrize("text", ["1_000", "1,5", "nan", "inf", "1e999", "٣", "0x10", "--1", ""])
def test_what_only_looks_like_a_number_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(f'a;b\nx;"{text}"\n', "utf-8")
    assert rows(report(tmp_path))["b"][0] == ("text" if text else "empty")


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found_and_blank_lines_do_not_count(tmp_path: Path, separator: str) -> None:
    (tmp_path / "t.csv").write_text(f"\n\na{separator}b\n\n1{separator}x\n\n2{separator}y\n")
    assert "2 rows, 2 columns." in report(tmp_path)


def test_utf_16_and_a_mark_are_understood(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-8-sig"):
        (tmp_path / "t.csv").write_text("名字,数量\n苹果,3\n", encoding)
        assert list(rows(report(tmp_path))) == ["名字", "数量"]


def test_another_encoding_is_noticed_and_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("名字,数量\n苹果,3\n", "gb18030")
    assert "**Some characters could not be read; try `--encoding gb18030`" in report(tmp_path)
    assert list(rows(report(tmp_path, "--encoding", "gb18030"))) == ["名字", "数量"]
    done = run_script(SCRIPT, "t.csv", "--encoding", "klingon", cwd=tmp_path)
    assert fault(done, 2) == "--encoding: 'klingon' is not known"
    done = run_script(SCRIPT, "t.csv", "--encoding", "hex", cwd=tmp_path)
    assert fault(done, 2) == "--encoding: 'hex' is not known"


def test_a_name_cannot_break_the_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('"a|b\nc\x1b[31m",' + "n" * 5000 + "\n1,2\n")
    text = report(tmp_path)
    assert "| a\\|b c [31m | integer |" in text
    assert max(map(len, text.splitlines())) < 200
    assert "\x1b" not in text


def test_the_limit_reads_no_further_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n2\n" + "broken" * 10)
    assert "Only the first 2 rows were read." in report(tmp_path, "--limit", "2")


@pytest.mark.parametrize("option", [["--limit", "0"], ["--limit", "x"], ["--delimiter", ""], ["--delimiter", '"']])
def test_a_wrong_option_is_named(tmp_path: Path, option: list[str]) -> None:
    said = misuse(run_script(SCRIPT, "t.csv", *option, cwd=tmp_path))
    assert said.startswith(f"argument {option[0]}: ")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b"\n\r\n  \n", "it is empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "it is binary (a NUL byte at 8)"),
        (b"a,b\n" + b"x" * 1_100_000, "a line has more than 1,000,000 characters"),
        (b"," * 20_000, "its first line has 20,001 cells"),
        (b'"' + b"x" * 200_000 + b'"\n', "field larger than field limit (131072)"),
    ],
)
def test_what_holds_no_table_is_said(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "t.csv").write_bytes(data)
    message = fault(run_script(SCRIPT, "t.csv", cwd=tmp_path), 3)
    assert message.startswith("t.csv holds no table: ")
    assert said in message


def test_a_large_table_needs_little_memory(tmp_path: Path) -> None:
    with (tmp_path / "t.csv").open("w") as file:
        file.write("a,b\n" + "123.5,some text\n" * 300_000)
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({200 << 20},) * 2)"
    (tmp_path / "limited.py").write_text(
        f"{limited}\nimport runpy, sys\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    script = Path(__file__).parents[2] / "skills" / SCRIPT
    done = run_script(str(tmp_path / "limited.py"), script, "t.csv", cwd=tmp_path)
    assert "300,000 rows, 2 columns." in done.stdout, done.stderr
