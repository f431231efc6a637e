"""A screen, told what to do by its methods. What sequences do to it is in `test_screen_commands`."""

from openskills.executors.processes.screen import Screen


def test_text_goes_on_in_the_next_row_and_scrolls_at_the_bottom() -> None:
    screen = Screen(2, 4)
    screen.text("abcdefghij")
    picture = screen.picture()
    assert picture.lines == ("efgh", "ij")
    assert (picture.row, picture.column) == (1, 2)


def test_a_full_row_does_not_scroll_before_something_follows() -> None:
    screen = Screen(2, 4)
    screen.text("abcdefgh")
    assert screen.picture().lines == ("abcd", "efgh")
    screen.text("i")
    assert screen.picture().lines == ("efgh", "i")


def test_without_wrapping_the_last_column_is_written_again() -> None:
    screen = Screen(2, 4)
    screen.auto_wrap = False
    screen.text("abcdefgh\u0301")
    assert screen.picture().lines == ("abch\u0301", "")


def test_a_wide_character_that_does_not_fit_goes_to_the_next_row() -> None:
    screen = Screen(2, 4)
    screen.text("abc漢字")
    assert screen.picture().lines == ("abc", "漢字")
    narrow = Screen(2, 1)
    narrow.text("漢a字")
    assert narrow.picture().lines == ("a", "")


def test_marks_go_to_the_character_before() -> None:
    screen = Screen(1, 4)
    screen.text("\u0301cafe\u0301")
    assert screen.picture().lines == ("cafe\u0301",)


def test_boxes_are_drawn_in_either_character_set() -> None:
    screen = Screen(1, 20)
    screen.designate(second=True, drawing=True)
    screen.text("lqk")
    screen.shift(second=True)
    screen.text("lqk")
    screen.designate(second=True, drawing=False)
    screen.text("lqk")
    assert screen.picture().lines == ("lqk┌─┐lqk",)


def test_the_other_screen_leaves_the_first_as_it_was() -> None:
    screen = Screen(2, 10)
    screen.text("before")
    screen.use_alternate(True, clear=True)
    assert screen.picture().lines == ("", "")
    screen.text("x")
    assert screen.picture().is_alternate
    screen.use_alternate(False, clear=False)
    assert screen.picture().lines == ("before", "")


def test_only_what_is_put_at_places_makes_a_picture() -> None:
    screen = Screen(3, 10)
    for _ in range(10):
        screen.text("line")
        screen.carriage_return()
        screen.line_feed()
    assert not screen.picture().is_painted
    screen.move_to(1, 3)
    assert screen.picture().is_painted


def test_a_picture_lasts_until_it_has_scrolled_away_or_is_erased() -> None:
    screen = Screen(3, 10)
    screen.text("x")
    screen.up(1)
    for _ in range(4):
        assert screen.picture().is_painted
        screen.line_feed()
    screen.line_feed()
    assert not screen.picture().is_painted
    screen.up(1)
    screen.erase_in_display("all")
    screen.move_to(0, 0)
    assert not screen.picture().is_painted


def test_a_gap_is_said_until_everything_is_drawn_anew() -> None:
    screen = Screen(3, 10)
    screen.lost()
    assert screen.picture().has_gap
    screen.erase_in_display("all")
    assert not screen.picture().has_gap


def test_a_smaller_size_cuts_and_a_larger_one_adds() -> None:
    screen = Screen(3, 10)
    screen.text("0123456789abc")
    screen.resize(1, 4)
    assert screen.picture().lines == ("0123",)
    assert (screen.picture().row, screen.picture().column) == (0, 3)
    screen.resize(3, 20)
    screen.move_to(2, 15)
    screen.text("x")
    assert screen.picture().lines == ("0123", "", " " * 15 + "x")


def test_a_reset_is_a_new_screen() -> None:
    screen = Screen(3, 10)
    screen.use_alternate(True, clear=True)
    screen.insert_mode = True
    screen.designate(second=False, drawing=True)
    screen.text("x")
    screen.reset()
    assert screen.picture() == Screen(3, 10).picture()
    screen.text("q")
    assert screen.picture().lines[0] == "q"
