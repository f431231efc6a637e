import pytest

from tests.benchmarks.programs import measured, row_of

CURVES = {
    "skills": ("first discovery, by skills", {"refresh", "list", "search", "request"}),
    "sessions": ("load a skill, memory, by sessions", {"open, memory", "load a skill, SQLite", "memory"}),
    "clients": ("calls that failed", {"a call, function", "time for each call, script"}),
    "transcripts": ("append, by events", {"next request", "open", "turn of an agent"}),
    "files": ("collect and keep, by bytes", {"copy by hand", "memory of the process"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", list(CURVES))
def test_a_cost_is_followed_over_its_sizes_and_has_an_exponent(part: str) -> None:
    promise, curves = CURVES[part]
    found = measured("scale", "--only", part)
    assert row_of(found, promise)
    numbers = found[part]["numbers"]
    assert curves <= set(numbers)
    for curve in curves:
        assert isinstance(numbers[curve]["exponent"], float)
        sizes = [int(size) for size in numbers[curve]["points"]]
        assert len(sizes) >= 2
        assert sizes == sorted(sizes)
        for point in numbers[curve]["points"].values():
            low, high = point["quartiles"]
            assert 0 < low <= point["median"] <= high
