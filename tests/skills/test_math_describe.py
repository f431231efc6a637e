"""Statistics of numbers from anywhere."""

from pathlib import Path

import pytest

from tests.skills.shipped import fault, misuse, run_script


def describe(place: Path, *arguments: str) -> dict[str, str]:
    done = run_script("math/scripts/describe.py", *arguments, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    return {line[:23].strip(): line[24:] for line in done.stdout.splitlines()}


def test_statistics_are_those_of_the_book(tmp_path: Path) -> None:
    assert describe(tmp_path, "2", "4", "4", "4", "5", "5", "7", "9") == {
        "count": "8",
        "sum": "40",
        "min": "2",
        "quartile 1": "4",
        "median": "4.5",
        "quartile 3": "5.5",
        "max": "9",
        "range": "7",
        "mean": "5",
        "variance (population)": "4",
        "deviation (population)": "2",
        "variance (sample)": "4.57142857143",
        "deviation (sample)": "2.1380899353",
        "modes": "4 (3 times)",
    }


def test_large_numbers_that_differ_little_have_the_right_deviation(tmp_path: Path) -> None:
    found = describe(tmp_path, "1000000000000000.1", "1000000000000000.2", "1000000000000000.3", "--digits", "20")
    assert (found["mean"], found["variance (sample)"]) == ("1000000000000000.2", "0.01")
    assert found["modes"] == "none"


def test_one_number_has_no_sample_deviation(tmp_path: Path) -> None:
    found = describe(tmp_path, "--", "-3e-2")
    assert (found["mean"], found["deviation (population)"], found["modes"]) == ("-0.03", "0", "-0.03 (1 times)")
    assert "variance (sample)" not in found


def test_numbers_come_from_files_and_columns(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("1, 2;3\n\n4\t5\n")
    (tmp_path / "t.csv").write_text('name;amount\n"a;b";1\nc;\nd;x\ne;2,5\nf;3\n')
    assert describe(tmp_path, "--file", "n.txt")["sum"] == "15"
    found = describe(tmp_path, "--file", "t.csv", "--column", "amount", "--skip")
    assert (found["count"], found["sum"], found["left out"]) == ("2", "4", "2 that are no numbers")
    done = run_script("math/scripts/describe.py", "--file", "t.csv", "--column", "amount", cwd=tmp_path)
    assert fault(done, 2) == "line 4: 'x' is no number; --skip leaves such out"
    done = run_script("math/scripts/describe.py", "--file", "t.csv", "--column", "Amount", cwd=tmp_path)
    assert fault(done, 2) == "--column: there is no 'Amount'; the file has: name, amount"


@pytest.mark.parametrize(
    ("data", "status"), [(b"", 3), (b"\0\1", 2), (b"1" * 2_000_000, 2), (b"1e99999", 2), (b"9" * 400, 2)]
)
def test_files_without_sensible_numbers_are_refused(tmp_path: Path, data: bytes, status: int) -> None:
    (tmp_path / "n.txt").write_bytes(data)
    fault(run_script("math/scripts/describe.py", "--file", "n.txt", cwd=tmp_path), status)


def test_numbers_and_a_file_exclude_each_other(tmp_path: Path) -> None:
    assert misuse(run_script("math/scripts/describe.py", cwd=tmp_path)) == "give either numbers or --file"
    assert misuse(run_script("math/scripts/describe.py", "1", "--column", "a", cwd=tmp_path)).startswith(
        "argument --column"
    )
