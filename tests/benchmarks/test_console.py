import pytest

from tests.benchmarks.programs import measured, row_of


@pytest.mark.slow
def test_pages_are_timed_and_the_bytes_of_a_visit_counted() -> None:
    found = measured("console")
    assert row_of(found, "first page with 24 skills")
    assert row_of(found, "bytes of a first visit")
    assert {"console.css", "htmx.min.js", "/"} <= set(found["pages"]["numbers"]["bytes"])
