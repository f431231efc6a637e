"""Equations: solved exactly, or refused with the reason."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from tests.skills.shipped import fault, run_script


def solve(*equations: str, cwd: Path) -> str:
    done = run_script("math/scripts/solve.py", "--", *equations, cwd=cwd)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("equations", "said"),
    [
        (["3x + 4 = 10"], "x = 2\n"),
        (["0.1x = 0.3"], "x = 3\n"),
        (["2(x + 1)(x - 1) = 0"], "x = -1\nx = 1\n"),
        (["x(x+1) = 6"], "x = -3\nx = 2\n"),
        (["x² − 2x + 1 ＝ 0"], "x = 1\n"),
        (
            ["x^2 - x - 1 = 0"],
            "x = 1/2 - 1/2*sqrt(5) ≈ -0.6180339887498948482\nx = 1/2 + 1/2*sqrt(5) ≈ 1.6180339887498948482\n",
        ),
        (["x^2 = 8"], "x = -2*sqrt(2) ≈ -2.8284271247461900976\nx = 2*sqrt(2) ≈ 2.8284271247461900976\n"),
        (["2x^2 = 1/3"], "x = -1/6*sqrt(6) ≈ -0.40824829046386301637\nx = 1/6*sqrt(6) ≈ 0.40824829046386301637\n"),
        (["x^2 + 4 = 0"], "x = -2*i ≈ 0 - 2i\nx = 2*i ≈ 0 + 2i\n"),
        (
            ["x^2 + x + 1 = 0"],
            (
                "x = -1/2 - 1/2*sqrt(3)*i ≈ -0.5 - 0.86602540378443864676i\n"
                "x = -1/2 + 1/2*sqrt(3)*i ≈ -0.5 + 0.86602540378443864676i\n"
            ),
        ),
        (["x**2 - x**2 + x = 5"], "x = 5\n"),
        (["2x + 3y = 5", "x - y = 1/2"], "x = 13/10 = 1.3\ny = 4/5 = 0.8\n"),
        (["a + b = 10", "b + c = 12", "a + c = 8"], "a = 3\nb = 7\nc = 5\n"),
        (["价格 * 2 = 3"], "价格 = 3/2 = 1.5\n"),
        (["x + y - z = 2"], "infinitely many solutions; y, z can be any number\nx = 2 - y + z\n"),
        (["x = x"], "infinitely many solutions; x can be any number\n"),
        (["1 = 1"], "true: there is nothing to find\n"),
        (["+".join(["x"] * 900) + " = 1800"], "x = 2\n"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_equations_are_solved_exactly(tmp_path: Path, equations: list[str], said: str) -> None:
    assert solve(*equations, cwd=tmp_path) == said


def test_a_root_that_nearly_cancels_keeps_its_digits(tmp_path: Path) -> None:
    assert solve("x^2 + 1e40 x = 1", cwd=tmp_path).splitlines()[1].endswith("≈ 1e-40")


def test_a_contradiction_has_a_status_of_its_own(tmp_path: Path) -> None:
    done = run_script("math/scripts/solve.py", "x + y = 2", "x + y = 3", "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)) == (1, {"kind": "none", "solutions": []})


@pytest.mark.parametrize(
    ("equation", "said"),
    [
        ("x^3 = 1", "only linear systems, and one quadratic equation"),
        ("x*y = 1", "only linear systems, and one quadratic equation"),
        ("1/x = 2", "nothing is divided by an unknown"),
        ("x/0 = 2", "division by zero"),
        ("x**99 = 1", "an exponent is a whole number between 0 and 8"),
        ("x", "needs one ="),
        ("x = 1 = 2", "needs one ="),
        ("2 3 = x", "two numbers side by side"),
        ("x; y = 1", "has ';', which has no meaning here"),
        ("x + = 3", "cannot be read"),
        ("1e99999x = 1", "is too large or too small"),
        ("(a+b+c+d+e+f+g+h)**8 = (i+j+k+l)**8", "more than 500 terms"),
        ("x" * 3000 + "=1", "at most 2,000 characters"),
    ],
)
def test_other_equations_are_refused_with_the_reason(tmp_path: Path, equation: str, said: str) -> None:
    assert said in fault(run_script("math/scripts/solve.py", "--", equation, cwd=tmp_path, seconds=20), 2)


def test_a_large_system_is_solved(tmp_path: Path) -> None:
    texts = [
        " + ".join(f"{(row * 7 + column * 3) % 11 + (50 if row == column else 0)} x{column}" for column in range(20))
        + f" = {row}"
        for row in range(20)
    ]
    done = run_script("math/scripts/solve.py", "--json", *texts, cwd=tmp_path)
    (solution,) = json.loads(done.stdout)["solutions"]
    values = [Fraction(solution[f"x{column}"]["exact"]) for column in range(20)]
    for row in range(20):
        total = sum(
            ((row * 7 + column * 3) % 11 + (50 if row == column else 0)) * values[column] for column in range(20)
        )
        assert total == row
