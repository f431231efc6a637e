import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.programs import evaluated

COMPARE = """
import json, sys
from pathlib import Path
from baseline import promised, regressions, renewed, runs, stored, unmeasured, vanished
from report import Target

docs, accept, rows = Path(sys.argv[1]), sys.argv[2] == "yes", json.loads(sys.argv[3])
targets = [Target(name, value, 5, at_least=more, unit=unit, why="gone") for name, value, more, unit in rows]
before = stored(docs, "host")
print(json.dumps({
    "worse": list(regressions(before, targets, earlier=runs(docs, "host")).values()),
    "vanished": vanished(before, targets),
    "renewed": renewed(before, targets, accept=accept),
    "unmeasured": unmeasured(before, targets),
    "promised": {part: [one.promise for one in those] for part, those in promised(docs, "host").items()},
}))
"""

Row = tuple[str, float | None, bool, str]


def remember(docs: Path, before: dict[str, float | None], runs: tuple[float, ...] = (), **parts: list[str]) -> None:
    """Baselines as they are stored; the value of the last run is another one."""
    rows = [
        {"promise": name, "value": None if known is None else known + 1, "bound": 5, "baseline": known, "runs": runs}
        for name, known in before.items()
    ]
    numbers = {part: {"promises": names} for part, names in parts.items()}
    (docs / "benchmarks").mkdir(exist_ok=True)
    text = json.dumps({"promises": rows, "parts": numbers})
    (docs / "benchmarks" / "host.json").write_text(text, "utf-8")


def compared(docs: Path, *rows: Row, accept: bool = False) -> dict[str, Any]:
    return evaluated(COMPARE, docs, "yes" if accept else "no", json.dumps(rows))


@pytest.mark.parametrize(
    ("unit", "more", "before", "kept", "worse"),
    [
        ("x", True, 10.0, 8.6, 8.4),
        ("x", False, 2.0, 2.2, 2.4),
        # What is paid, and not what is saved, is what may grow by 15 %.
        ("%", True, 90.0, 88.6, 88.4),
        ("%", True, 100.0, 99.6, 99.4),
        ("%", False, 8.0, 9.1, 9.3),
        ("MB", False, 20.0, 22.9, 23.1),
        ("MB", False, 0.5, 1.4, 1.6),
        ("(exponent)", False, 1.0, 1.14, 1.16),
        ("(exponent)", False, -0.3, 0.14, 0.16),
    ],
)
def test_worse_by_more_than_the_tolerance_is_named_in_every_unit_that_can_be_compared(
    tmp_path: Path, unit: str, more: bool, before: float, kept: float, worse: float
) -> None:
    remember(tmp_path, {"it": before})
    assert compared(tmp_path, ("it", kept, more, unit))["worse"] == []
    (sentence,) = compared(tmp_path, ("it", worse, more, unit))["worse"]
    assert sentence.startswith("it: ")


def test_a_difference_within_the_spread_of_earlier_runs_is_noise(tmp_path: Path) -> None:
    remember(tmp_path, {"it": 10.0}, runs=(7.5, 10.0, 8.0))
    assert compared(tmp_path, ("it", 7.6, True, "x"))["worse"] == []
    assert len(compared(tmp_path, ("it", 7.4, True, "x"))["worse"]) == 1


@pytest.mark.parametrize("unit", ["ms", "processes"])
def test_what_depends_on_the_machine_or_has_to_be_zero_is_not_compared(tmp_path: Path, unit: str) -> None:
    remember(tmp_path, {"it": 1.0})
    found = compared(tmp_path, ("it", 50.0, False, unit))
    assert (found["worse"], found["renewed"]) == ([], {"it": None})


def test_small_steps_down_are_found_because_the_baseline_stays_where_it_was(tmp_path: Path) -> None:
    remember(tmp_path, {"faster": 10.0})
    first = compared(tmp_path, ("faster", 8.6, True, "x"))
    assert first == {**first, "worse": [], "renewed": {"faster": 10.0}}
    remember(tmp_path, first["renewed"])
    assert compared(tmp_path, ("faster", 7.4, True, "x"))["worse"] != []


@pytest.mark.parametrize(("more", "better", "worse"), [(True, 12.0, 9.0), (False, 9.0, 12.0)])
def test_the_better_of_stored_and_new_is_the_next_baseline_unless_worse_is_accepted(
    tmp_path: Path, more: bool, better: float, worse: float
) -> None:
    remember(tmp_path, {"it": 10.0})
    assert compared(tmp_path, ("it", better, more, "x"))["renewed"] == {"it": better}
    assert compared(tmp_path, ("it", worse, more, "x"))["renewed"] == {"it": 10.0}
    assert compared(tmp_path, ("it", worse, more, "x"), accept=True)["renewed"] == {"it": worse}


@pytest.mark.parametrize("accept", [False, True])
def test_what_was_not_measured_keeps_its_baseline_and_that_is_said(tmp_path: Path, accept: bool) -> None:
    remember(tmp_path, {"faster": 10.0, "never": None})
    found = compared(tmp_path, ("faster", None, True, "x"), ("never", None, True, "x"), accept=accept)
    assert (found["worse"], found["renewed"]) == ([], {"faster": 10.0, "never": None})
    assert found["unmeasured"] == ["faster: not measured (gone); its baseline stays 10.00x"]


def test_a_stored_promise_that_no_part_of_a_whole_run_has_any_more_is_named(tmp_path: Path) -> None:
    remember(tmp_path, {"old name": 10.0, "never measured": None, "kept": 1.0})
    rows: tuple[Row, ...] = (("new name", 10.0, True, "x"), ("kept", 1.0, True, "x"))
    gone = [one.partition(":")[0] for one in compared(tmp_path, *rows)["vanished"]]
    assert gone == ["old name", "never measured"]


def test_a_lucky_ratio_below_zero_never_becomes_what_others_are_compared_with(tmp_path: Path) -> None:
    remember(tmp_path, {"over": 0.5})
    assert compared(tmp_path, ("over", -0.1, False, "x"))["renewed"] == {"over": 0.5}
    remember(tmp_path, {"over": -0.1})
    assert compared(tmp_path, ("over", 0.5, False, "x"))["renewed"] == {"over": 0.5}


def test_numbers_from_before_there_were_baselines_are_compared_by_their_values(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    old = {"promises": [{"promise": "faster", "value": 10.0, "bound": 5}], "parts": {"load": {"numbers": 1}}}
    (tmp_path / "benchmarks" / "host.json").write_text(json.dumps(old), "utf-8")
    assert compared(tmp_path, ("faster", 8.4, True, "x"))["worse"] != []


def test_the_promises_of_each_part_are_remembered(tmp_path: Path) -> None:
    remember(tmp_path, {"a": 1.0, "b": 2.0, "c": None}, load=["a", "c"], memory=["b"])
    rows: tuple[Row, ...] = (("a", 1.0, True, "x"),)
    assert compared(tmp_path, *rows)["promised"] == {"load": ["a", "c"], "memory": ["b"]}


def test_where_nothing_was_stored_nothing_can_be_worse(tmp_path: Path) -> None:
    found = compared(tmp_path, ("faster", 1.0, True, "x"))
    assert found == {"worse": [], "vanished": [], "renewed": {"faster": 1.0}, "unmeasured": [], "promised": {}}
