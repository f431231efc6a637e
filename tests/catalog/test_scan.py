"""A scan knows whether anything had to be read."""

from openskills.catalog.scan import Scan


def test_a_scan_that_read_nothing_has_not_changed() -> None:
    assert not Scan().changed
    assert Scan(read=1).changed
