"""Charts whose axes tell the truth."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.skills.shipped import fault, misuse, run_script

SCRIPT = "csv-report/scripts/chart.py"
SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Chart:
    """A drawing, and what was said about it."""

    root: ET.Element
    said: str
    source: str

    def texts(self, anchor: str) -> list[tuple[float, float, str]]:
        """Where the texts are that end, begin or are centred at their place, and what they say."""
        found = (one for one in self.root.iter(f"{SVG}text") if one.get("text-anchor") == anchor)
        return [(float(one.get("x", 0)), float(one.get("y", 0)), one.text or "") for one in found]

    def value_at(self, y: float) -> float:
        """What the y axis says about a height: read from two of its numbers."""
        marks = [(y, float(text.replace(",", ""))) for _, y, text in self.texts("end") if is_number(text)]
        (low_y, low), (high_y, high) = marks[0], marks[-1]
        # The numbers stand a little below their lines.
        return low + (y + 4 - low_y) / (high_y - low_y) * (high - low)

    def bars(self, series: int = 0) -> list[tuple[float, float, float]]:
        """The x, top and bottom of the bars of a series."""
        boxes = [one for one in self.root.iter(f"{SVG}rect") if one.get("class") == f"s{series}"]
        drawn = [one for one in boxes if one.find(f"{SVG}title") is not None]
        numbers = [[float(one.get(name, 0)) for name in ("x", "y", "height")] for one in drawn]
        return [(x, y, y + height) for x, y, height in numbers]

    def points(self, series: int = 0) -> list[list[tuple[float, float]]]:
        """The lines of a series."""
        lines = [one.get("points", "") for one in self.root.iter(f"{SVG}polyline") if one.get("class") == f"l{series}"]
        return [[(float(x), float(y)) for x, y in (point.split(",") for point in line.split())] for line in lines]


def is_number(text: str) -> bool:
    return text.replace(",", "").replace("-", "").replace(".", "").isdigit()


def draw(place: Path, table: str, *arguments: str) -> Chart:
    (place / "t.csv").write_text(table, "utf-8")
    done = run_script(SCRIPT, "t.csv", *arguments, "--output", "c.svg", cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    source = (place / "c.svg").read_text("utf-8")
    return Chart(ET.fromstring(source), done.stdout, source)


def test_bars_begin_at_zero_and_reach_their_values(tmp_path: Path) -> None:
    chart = draw(tmp_path, "what,n\na,950\nb,1000\nc,-250.5\nd,\n")
    heights = [(chart.value_at(top), chart.value_at(bottom)) for _, top, bottom in chart.bars()]
    for found, wanted in zip(heights, [(950, 0), (1000, 0), (0, -250.5)], strict=True):
        assert found == pytest.approx(wanted, abs=2)
    assert [text for _, _, text in chart.texts("middle")][-5:-1] == ["a", "b", "c", "d"]
    assert chart.said == "c.svg: bar chart, n by what, 4 places\n"


def test_lines_have_a_true_scale_of_time_and_gaps_where_nothing_is_known(tmp_path: Path) -> None:
    chart = draw(
        tmp_path, "day,n\n2026-01-11,4\n2026-01-01,2\n2026-01-03,3\n2026-01-21,\n2026-01-31,8\n", "--kind", "line"
    )
    first, second = chart.points()
    places = [x for x, _ in (*first, *second)]
    width = places[-1] - places[0]
    assert [(x - places[0]) / width * 30 for x in places] == pytest.approx([0, 2, 10, 30], abs=0.1)
    assert [chart.value_at(y) for _, y in (*first, *second)] == pytest.approx([2, 3, 4, 8], abs=0.1)


def test_lines_have_a_true_scale_of_numbers_with_round_numbers_below(tmp_path: Path) -> None:
    chart = draw(
        tmp_path,
        "x,y\n" + "".join(f"{n},{n * n}\n" for n in (0, 1, 5, 40, 100)),
        "--kind",
        "line",
        "--x",
        "x",
        "--y",
        "y",
    )
    marks = [(x, float(text)) for x, _, text in chart.texts("middle") if is_number(text)]
    assert [value for _, value in marks][:3] == [0, 20, 40]
    (line,) = chart.points()
    scale = (marks[-1][0] - marks[0][0]) / (marks[-1][1] - marks[0][1])
    assert [x for x, _ in line] == pytest.approx([marks[0][0] + n * scale for n in (0, 1, 5, 40, 100)], abs=0.2)


@pytest.mark.parametrize(
    ("how", "wanted"),
    [("sum", [6, 5]), ("mean", [3, 5]), ("min", [2, 5]), ("max", [4, 5]), ("count", [2, 1])],
)
def test_rows_with_the_same_x_are_put_together_and_it_is_said(tmp_path: Path, how: str, wanted: list[float]) -> None:
    chart = draw(tmp_path, "region,n\nnorth,2\nsouth,5\nnorth,4\n", "--combine", how)
    assert [chart.value_at(top) for _, top, _ in chart.bars()] == pytest.approx(wanted, abs=0.05)
    assert ("number of rows by region" if how == "count" else f"{how} of n by region") in chart.said


def test_several_columns_stand_side_by_side_with_a_legend(tmp_path: Path) -> None:
    chart = draw(tmp_path, "m,a,b\n1,10,20\n2,30,40\n", "--x", "m", "--y", "A", "--y", "3")
    assert [text for _, _, text in chart.texts("start")] == ["a", "b"]
    for (first, _, _), (second, _, _) in zip(chart.bars(0), chart.bars(1), strict=True):
        assert first < second
    assert [chart.value_at(top) for _, top, _ in chart.bars(1)] == pytest.approx([20, 40], abs=0.2)


def test_a_drawing_is_readable_on_a_dark_page_and_without_styles(tmp_path: Path) -> None:
    chart = draw(tmp_path, "a,b\nx,1\n")
    assert "@media (prefers-color-scheme: dark)" in chart.source
    for one in (*chart.root.iter(f"{SVG}text"), *chart.root.iter(f"{SVG}rect")):
        assert one.get("fill", "").startswith("#")
    sheet = next(chart.root.iter(f"{SVG}rect"))
    assert (sheet.get("class"), sheet.get("fill"), sheet.get("width")) == ("sheet", "#ffffff", "800")
    assert chart.root.get("role") == "img"
    assert chart.root.findtext(f"{SVG}title") == "b by a (t.csv)"


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    chart = draw(tmp_path, '"<script>alert(1)</script>",n\n"</text>&\x08\x1b",1\n"]]>","2"\n', "--title", "</svg>\x01")
    assert {element.tag for element in chart.root.iter()} <= {
        f"{SVG}{name}" for name in ("svg", "title", "desc", "style", "rect", "text", "line")
    }
    assert "</text>&\ufffd\ufffd" in [text for _, _, text in chart.texts("middle")]


def test_too_many_bars_are_the_largest_ones_and_it_is_said(tmp_path: Path) -> None:
    rows = "".join(f"name {n},{n}\n" for n in range(100))
    chart = draw(tmp_path, "what,n\n" + rows, "--bars", "5")
    assert [chart.value_at(top) for _, top, _ in chart.bars()] == pytest.approx([95, 96, 97, 98, 99], abs=0.6)
    assert "the 5 largest of 100 are shown" in chart.said


def test_many_points_make_a_small_file_that_keeps_the_extremes(tmp_path: Path) -> None:
    rows = "".join(f"{n},{9999 if n == 54321 else n % 100}\n" for n in range(100_000))
    chart = draw(tmp_path, "x,y\n" + rows, "--kind", "line", "--x", "x", "--y", "y")
    assert len(chart.source) < 100_000
    assert chart.value_at(min(y for _, y in chart.points()[0])) == pytest.approx(9999, abs=40)


def test_labels_never_overlap(tmp_path: Path) -> None:
    for table in (
        "x,y\n" + "".join(f"2020-{month:02d}-{day:02d},{day}\n" for month in range(1, 13) for day in range(1, 29)),
        "x,y\n" + "".join(f"{1_000_000 + n},{n}\n" for n in range(30)),
    ):
        chart = draw(tmp_path, table, "--kind", "line", "--x", "x", "--y", "y")
        below = [(x, text) for x, y, text in chart.texts("middle") if 400 < y < 430]
        assert len(below) > 3
        for (left, first), (right, second) in pairwise(below):
            assert right - left > 3.4 * (len(first) + len(second)), (first, second)


def test_labels_that_lean_are_a_line_apart(tmp_path: Path) -> None:
    chart = draw(tmp_path, "what,n\n" + "".join(f"a rather long name {n},{n}\n" for n in range(40)))
    leaning = [x for x, _, text in chart.texts("end") if text.startswith("a rather")]
    assert len(leaning) > 10
    assert all(right - left > 12 / 0.57 for left, right in pairwise(leaning))


def test_cells_that_are_not_numbers_are_counted_not_guessed(tmp_path: Path) -> None:
    chart = draw(tmp_path, 'a,b\nx,"1,000"\ny,2\n,3\n', "--y", "b")
    assert "1 cells are not numbers and were left out" in chart.said
    assert "(empty)" in chart.source
    chart = draw(tmp_path, "a,b\n1,1\n,3\n", "--kind", "line", "--x", "a", "--y", "b")
    assert "rows without a are left out" in chart.said


@pytest.mark.parametrize(
    "values",
    [
        ["5"],
        ["0"],
        ["-5"],
        ["0", "0"],
        ["7", "7"],
        ["-3", "-3"],
        ["1e15", "2e15"],
        ["1e-9", "2e-9"],
        ["-1e-12"],
        ["1e299"],
    ],
)
@pytest.mark.parametrize("kind", ["bar", "line"])
def test_few_or_strange_values_are_drawn(tmp_path: Path, values: list[str], kind: str) -> None:
    draw(tmp_path, "a,b\n" + "".join(f"{n},{value}\n" for n, value in enumerate(values)), "--kind", kind, "--y", "b")


@pytest.mark.parametrize(
    ("table", "arguments", "status", "said"),
    [
        ("a,b\n1,2\n", "--y c", 2, "--y: unknown column 'c'; the table has: a, b"),
        ("a,b\n1,2\n", "--x 3", 2, "--x: unknown column '3'; the table has: a, b"),
        ("a,b\nx,y\n", "", 3, "there is no column of numbers to draw; name one with --y, or use --combine count"),
        ("a,b\nx,y\n", "--y b", 3, "there are no numbers in b"),
        ("a,b\n", "--y b", 3, "there are no rows to draw"),
        ("", "", 3, "t.csv holds no table: it is empty"),
        ("a,b\nx,1\n", "--width 100 --height 100", 2, "--width, --height: there is no room"),
        ("a,b\nx,1e308\n", "", 3, "--y: values from 0 to 1e+308 cannot be drawn on one axis"),
        ("a,b\n0,1\n1e305,2\n", "--kind line --x a --y b", 3, "--x: numbers from 0 to 1e+305 cannot be drawn"),
    ],
)
def test_what_cannot_be_drawn_is_said(tmp_path: Path, table: str, arguments: str, status: int, said: str) -> None:
    (tmp_path / "t.csv").write_text(table)
    assert fault(run_script(SCRIPT, "t.csv", *arguments.split(), cwd=tmp_path), status).startswith(said)
    assert not (tmp_path / "chart.svg").exists()


@pytest.mark.parametrize(
    "wrong", ["--width 0", "--height x", "--bars -1", "--width 99999", "--kind pie", "--combine x"]
)
def test_a_wrong_option_is_refused(tmp_path: Path, wrong: str) -> None:
    assert wrong.split()[0] in misuse(run_script(SCRIPT, "t.csv", *wrong.split(), cwd=tmp_path))


def test_more_columns_than_colours_are_refused(tmp_path: Path) -> None:
    said = misuse(run_script(SCRIPT, "t.csv", *(["--y", "a"] * 7), cwd=tmp_path))
    assert said == "argument --y: at most 6 columns can be told apart"
