import itertools
import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.charts import HEIGHT, WIDTH, Chart, Line, line_chart, short, write_chart
from benchmarks.reasons import LONGEST, last_line, one_line
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
    assert "Duration: discovery 30 s, running 90 s; total 2.0 minutes (without host)." in head


@pytest.mark.parametrize(("seconds", "text"), [(2.5, "2.50 s"), (0.0123, "12 ms"), (0.00123, "1.23 ms")])
def test_a_time_is_shown_with_the_digits_that_mean_something(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


def test_a_label_in_a_picture_cannot_become_markup() -> None:
    drawn = picture("a & b", [Bar("<script>", 1.0)])
    assert "<script>" not in drawn
    assert "&lt;script&gt;" in drawn


def test_of_a_traceback_the_last_line_is_the_reason() -> None:
    said = "Traceback (most recent call last):\n  File 'x', line 1\nRuntimeError: the disk is full\n\n"
    assert last_line(said) == "RuntimeError: the disk is full"


def test_who_says_nothing_gets_a_reason_that_says_so() -> None:
    assert last_line(" \n\n") == "no output"


def test_a_reason_fits_into_a_cell_of_a_table_however_long_it_was() -> None:
    folded = one_line("a | b\n\tc " + "x" * 1000)
    assert folded.startswith("a / b c xxx")
    assert len(folded) == LONGEST
    assert folded.endswith("…")


SVG = "{http://www.w3.org/2000/svg}"
CURVES = [
    Line("OpenSkill", [(10, 100), (20, 150), (40, 200)]),
    Line("a peer", [(10, 100), (20, 400), (40, 4000)], ours=False),
]


def chart(*lines: Line, log_x: bool = False, log_y: bool = False) -> Chart:
    return Chart("growth", "What it costs", "requests", "tokens", lines or CURVES, log_x, log_y)


def drawn(found: Chart) -> ET.Element:
    return ET.fromstring(line_chart(found))


def places(found: Chart) -> list[list[tuple[float, float]]]:
    """The points of every curve, as they are drawn."""
    paths = [path.attrib["d"] for path in drawn(found).iter(f"{SVG}path")]
    return [[(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)] for path in paths]


def test_a_larger_value_stands_higher_and_a_later_one_further_right() -> None:
    theirs, ours = places(chart())  # ours is drawn last
    assert [x for x, _ in ours] == sorted(x for x, _ in ours)
    assert ours[0] == theirs[0]
    assert theirs[-1][1] < theirs[1][1] < ours[-1][1] < ours[0][1]


@pytest.mark.parametrize(("log_x", "log_y"), [(False, False), (True, False), (False, True), (True, True)])
def test_every_point_is_inside_of_the_picture(log_x: bool, log_y: bool) -> None:
    for x, y in (point for curve in places(chart(log_x=log_x, log_y=log_y)) for point in curve):
        assert 0 < x < WIDTH
        assert 0 < y < HEIGHT


def test_on_two_logarithmic_axes_a_power_law_is_a_straight_line() -> None:
    ((first, second, third),) = places(
        chart(Line("square", [(1, 1), (10, 100), (100, 10_000)]), log_x=True, log_y=True)
    )
    assert second[0] - first[0] == pytest.approx(third[0] - second[0], abs=0.2)
    assert second[1] - first[1] == pytest.approx(third[1] - second[1], abs=0.2)


def test_labels_of_curves_that_end_together_do_not_cover_each_other() -> None:
    lines = [Line(f"way {number}", [(1, 0), (2, 100 + number / 10)]) for number in range(9)]
    texts = [one for one in drawn(chart(*lines)).iter(f"{SVG}text") if (one.text or "").startswith("way ")]
    heights = sorted(float(one.attrib["y"]) for one in texts)
    assert len(heights) == 9
    assert min(high - low for low, high in itertools.pairwise(heights)) >= 13
    assert 0 < heights[0] <= heights[-1] < HEIGHT


def test_every_curve_has_colours_for_light_and_for_dark() -> None:
    style = next(drawn(chart()).iter(f"{SVG}style")).text or ""
    light, dark = style.split("@media (prefers-color-scheme:dark)")
    for number in range(2):
        (by_day,), (by_night,) = (re.findall(rf"\.f{number}{{fill:(#\w+)}}", half) for half in (light, dark))
        assert by_day != by_night


def test_every_point_tells_its_numbers() -> None:
    titles = [one.text for one in drawn(chart()).iter(f"{SVG}title")]
    assert "a peer: 40, 4,000" in titles


def test_what_a_logarithm_has_no_place_for_is_left_out() -> None:
    ((point,),) = places(chart(Line("one", [(1, 0), (10, 5)]), log_x=True, log_y=True))
    assert 0 < point[1] < HEIGHT


def test_a_chart_without_a_point_is_still_a_picture() -> None:
    assert places(chart(Line("nothing", []))) == []


def test_a_label_cannot_become_markup() -> None:
    text = line_chart(chart(Line("<script>", [(1, 1)])))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.002, "0.002"), (950, "950"), (20_000, "20k"), (1_500_000, "1.5M"), (2e9, "2G")]
)
def test_a_number_of_an_axis_is_short(value: float, text: str) -> None:
    assert short(value) == text


def test_a_chart_is_written_beside_the_page_that_shows_it(tmp_path: Path) -> None:
    assert write_chart(tmp_path, "scale", chart()) == "![What it costs](benchmarks/scale-growth.svg)"
    assert (tmp_path / "benchmarks" / "scale-growth.svg").read_text(encoding="utf-8") == line_chart(chart())
