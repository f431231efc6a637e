import json
from pathlib import Path

import pytest

from benchmarks.report import Bar, Target, picture, promises, time_text, write_section


@pytest.mark.parametrize(
    ("target", "broken"),
    [
        (Target("faster", 5.0, 5), False),
        (Target("faster", 4.9, 5), True),
        (Target("smaller", 3.0, 3, at_least=False), False),
        (Target("smaller", 3.1, 3, at_least=False), True),
        (Target("smaller", None, 3, at_least=False, why="there is no peer"), False),
    ],
)
def test_a_promise_is_broken_when_its_bound_is_passed(target: Target, broken: bool) -> None:
    assert target.broken is broken


def test_a_missed_bound_is_shown_as_missed() -> None:
    row = Target("sandbox over bare", 9.44, 8, at_least=False, unit="ms").row()
    assert row == "| sandbox over bare | ≤ 8 ms | **9.4 ms** | NO |"


def test_what_was_not_measured_says_why_and_claims_nothing() -> None:
    table = promises([Target("faster than a peer", None, 5, why="it is not installed")])
    assert table.splitlines()[-1] == "| faster than a peer | ≥ 5x | not measured: it is not installed | |"


def test_renewing_one_section_leaves_the_other_as_it_was(tmp_path: Path) -> None:
    write_section(tmp_path, "running", "## Running\n\nslow")
    write_section(tmp_path, "discovery", "## Finding\n\nold")
    write_section(tmp_path, "running", "## Running\n\nquick")
    page = (tmp_path / "benchmarks.md").read_text()
    assert page.startswith("# Benchmarks\n")
    assert page.index("## Finding\n\nold") < page.index("## Running\n\nquick")
    assert "slow" not in page


def test_writing_the_same_section_twice_changes_nothing(tmp_path: Path) -> None:
    write_section(tmp_path, "discovery", "## Finding")
    first = (tmp_path / "benchmarks.md").read_text()
    write_section(tmp_path, "discovery", "## Finding")
    assert (tmp_path / "benchmarks.md").read_text() == first


def test_a_reason_of_many_lines_stays_in_its_row() -> None:
    row = Target("faster", None, 5, why="it failed:\n\n  a | b").row()
    assert row == "| faster | ≥ 5x | not measured: it failed: a / b | |"


def test_the_head_of_the_page_says_how_long_each_took_and_all_together(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    for name, seconds in (("running", 90.0), ("discovery", 30.0)):
        (tmp_path / "benchmarks" / f"{name}.json").write_text(json.dumps({"seconds": seconds}))
    for name in ("running", "discovery", "host"):
        write_section(tmp_path, name, "## Section")
    head = (tmp_path / "benchmarks.md").read_text().partition("<!--")[0]
    assert "How long they took: discovery 30 s, running 90 s; together 2.0 minutes (without host)." in head


@pytest.mark.parametrize(("seconds", "text"), [(2.5, "2.50 s"), (0.0123, "12 ms"), (0.00123, "1.23 ms")])
def test_a_time_is_shown_with_the_digits_that_mean_something(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


def test_a_label_in_a_picture_cannot_become_markup() -> None:
    drawn = picture("a & b", [Bar("<script>", 1.0)])
    assert "<script>" not in drawn
    assert "&lt;script&gt;" in drawn
