from openskills.executors.processes.tab_stops import TabStops


def test_every_eighth_column_is_a_stop_at_first() -> None:
    stops = TabStops(20)
    assert [stops.after(column, 1) for column in (0, 7, 8, 15, 16, 19)] == [8, 8, 16, 16, 19, 19]
    assert [stops.before(column, 1) for column in (0, 1, 8, 9, 19)] == [0, 0, 0, 8, 16]


def test_any_number_of_tabs_stays_on_the_line() -> None:
    stops = TabStops(20)
    assert (stops.after(0, 9_999), stops.before(19, 9_999)) == (19, 0)


def test_stops_can_be_set_and_cleared() -> None:
    stops = TabStops(20)
    stops.clear(8)
    stops.set(3)
    assert (stops.after(0, 1), stops.after(3, 1)) == (3, 16)
    stops.clear_all()
    assert (stops.after(0, 1), stops.before(19, 1)) == (19, 0)
