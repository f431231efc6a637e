from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from openskills.executors.processes.screen_grid import Grid


def row(grid: Grid) -> str:
    return grid.lines()[0]


def grid_of(text: str, columns: int = 8) -> Grid:
    grid = Grid(2, columns)
    grid.put(0, 0, text)
    return grid


def test_text_is_where_it_was_put_and_blank_before() -> None:
    grid = Grid(2, 8)
    assert grid.is_blank
    grid.put(1, 3, "abc")
    assert grid.lines() == ("", "   abc")
    assert not grid.is_blank


def test_erasing_leaves_blanks_and_forgets_those_at_the_end() -> None:
    grid = grid_of("abcdef")
    grid.erase(0, 1, 3)
    assert row(grid) == "a  def"
    grid.erase(0, 3, 8)
    assert row(grid) == "a"


def test_inserted_cells_push_the_last_ones_out() -> None:
    grid = grid_of("abcdefgh")
    grid.insert(0, 1, 3)
    assert row(grid) == "a   bcde"
    grid.insert(0, 0, 8)
    assert row(grid) == ""


def test_deleted_cells_make_the_others_come_nearer() -> None:
    grid = grid_of("abcdefgh")
    grid.delete(0, 1, 3)
    assert row(grid) == "aefgh"
    grid.delete(0, 2, 100)
    assert row(grid) == "ae"


def test_half_of_a_wide_character_is_none() -> None:
    changes: tuple[tuple[Callable[[Grid], None], str], ...] = (
        (lambda grid: grid.put(0, 2, "x"), "a x d"),
        (lambda grid: grid.put(0, 1, "x"), "ax  d"),
        (lambda grid: grid.erase(0, 2, 3), "a   d"),
        (lambda grid: grid.delete(0, 1, 1), "a  d"),
        (lambda grid: grid.insert(0, 2, 1), "a    d"),
        (lambda grid: grid.put_wide(0, 0, "字"), "字  d"),
        (lambda grid: grid.resize(2, 2), "a"),
    )
    for change, expected in changes:
        grid = Grid(2, 8)
        grid.put(0, 0, "a")
        grid.put_wide(0, 1, "漢")
        grid.put(0, 4, "d")
        change(grid)
        assert row(grid) == expected


def test_a_wide_character_that_is_pushed_over_the_edge_is_gone() -> None:
    grid = Grid(2, 4)
    grid.put_wide(0, 2, "漢")
    grid.insert(0, 0, 1)
    assert row(grid) == ""


def test_marks_stand_on_their_character_and_are_bounded() -> None:
    grid = grid_of("e")
    grid.put_wide(0, 1, "漢")
    grid.combine(0, 0, "\u0301")
    grid.combine(0, 2, "\u0301")
    grid.combine(0, 7, "\u0301")
    assert row(grid) == "e\u0301漢\u0301"
    for _ in range(1000):
        grid.combine(0, 0, "\u0301")
    assert len(row(grid)) < 20


def test_lines_scroll_within_a_region() -> None:
    grid = Grid(5, 4)
    for number in range(5):
        grid.put(number, 0, str(number))
    grid.scroll_up(1, 3, 1)
    assert grid.lines() == ("0", "2", "3", "", "4")
    grid.scroll_down(1, 3, 2)
    assert grid.lines() == ("0", "", "", "2", "4")
    grid.scroll_up(1, 3, 9_999)
    assert grid.lines() == ("0", "", "", "", "4")


_PLACE = st.integers(0, 7)
_CHANGES = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 6), st.just("ab")),
    st.tuples(st.just("put_wide"), st.integers(0, 6), st.just("漢")),
    st.tuples(st.just("erase"), _PLACE, st.integers(0, 8)),
    st.tuples(st.just("insert"), _PLACE, st.integers(0, 8)),
    st.tuples(st.just("delete"), _PLACE, st.integers(0, 9)),
)


@given(st.lists(_CHANGES, max_size=30))
def test_after_any_changes_the_line_has_whole_characters_and_fits(changes: list[tuple[str, int, str | int]]) -> None:
    grid = Grid(1, 8)
    for name, column, argument in changes:
        if name == "erase" and isinstance(argument, int) and argument < column:
            continue
        getattr(grid, name)(0, column, argument)
    text = row(grid)
    assert len(text) + text.count("漢") <= 8
    # A character that comes after a wide one is where it was put only if both halves are there.
    grid.put(0, 7, "|")
    text = row(grid)
    assert len(text) + text.count("漢") == 8
