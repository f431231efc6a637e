import itertools
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.charts import HEIGHT, WIDTH, Chart, Line, line_chart, short, write_chart

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
