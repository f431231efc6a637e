import pytest

from tests.benchmarks.programs import evaluated

SHOWN = """
import json, sys
from report import Target
from running_part import Part, raw_series, series_table, shown, without_numbers
from sampling import Series

series = {name: Series(tuple(times)) for name, times in json.loads(sys.argv[1]).items()}
old = Target("faster", 3.0, 2)
print(json.dumps({
    "table": series_table(series),
    "raw": raw_series(series),
    "missing": shown(without_numbers("load", "a peer:\\n  it | died", [old])),
}))
"""


@pytest.mark.parametrize(
    ("series", "said"),
    [
        ('{"a": [1, 2, 3], "b": [1, 2, 3]}', "Each was measured 3 times."),
        ('{"a": [1, 2, 3], "b": [1]}', "Each was measured 1 to 3 times."),
        ('{"a": [1]}', "Each was measured once."),
    ],
)
def test_a_table_says_how_often_things_were_measured(series: str, said: str) -> None:
    found = evaluated(SHOWN, series)
    assert found["table"].splitlines()[-1] == said
    assert found["raw"]["a"]["repeats"] in (1, 3)


def test_a_part_that_could_not_be_measured_answers_for_its_promises_with_the_reason() -> None:
    text = evaluated(SHOWN, '{"a": [1]}')["missing"]
    assert "| faster | ≥ 2x | not measured: a peer: it / died | |" in text
    assert "Not measured: a peer: it / died." in text
