"""Results that are right, and refusals that cost nothing."""

import json
from collections.abc import Callable
from fractions import Fraction
from operator import add, mul, sub
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.skills.shipped import fault, misuse, run_script

EXACT = {
    "1/3 + 0.1": "13/30",
    "0.1 + 0.2": "3/10",
    "2**100": str(2**100),
    "2**-3": "1/8",
    "-2**2": "-4",
    "-7 // 2": "-4",
    "-7 % 3": "2",
    "7.5 % 2": "3/2",
    "8**(2/3)": "4",
    "sqrt(9/4)": "3/2",
    "cbrt(-27)": "-3",
    "root(2**40, 40)": "2",
    "log(1/8, 2)": "-3",
    "log10(1e30)": "30",
    "ln(1) + exp(0) + sin(0) + cos(0)": "2",
    "round(2.5) + round(-2.5)": "0",
    "round(1234.5678, 2)": "123457/100",
    "floor(-0.5) + ceil(0.5) + trunc(-1.9)": "-1",
    "factorial(20)": "2432902008176640000",
    "comb(49, 6)": "13983816",
    "perm(5, 2)": "20",
    "gcd(12, 18, 27)": "3",
    "lcm(4, 6)": "12",
    "min(3, 1/2, 2) + max(1, 2)": "5/2",
    "abs(-3.25)": "13/4",
    "0xff + 1_000": "1255",
    "（1＋2）×3".replace("＋", "+"): "9",
    "0**0": "1",
    "(-1)**1000000001": "-1",
    "+".join(["0.5"] * 900): "450",
}
ROUNDED = {
    "sqrt(2)": "1.4142135623730950488",
    "pi": "3.1415926535897932385",
    "e": "2.7182818284590452354",
    "sin(1)": "0.84147098480789650665",
    "cos(2)": "-0.41614683654714238700",
    "tan(0.5)": "0.54630248984379051326",
    "asin(0.3)": "0.30469265401539750797",
    "acos(0.3)": "1.2661036727794991113",
    "atan(10)": "1.4711276743037345919",
    "ln(10)": "2.3025850929940456840",
    "exp(-1)": "0.36787944117144232160",
    "2**0.5": "1.4142135623730950488",
    "sin(pi)": "0",
    "cos(pi/2)": "0",
    "sqrt(2)**2 - 2": "0",
    "sin(1e-30)": "1e-30",
    "degrees(pi)": "180",
    "radians(180) - pi": "0",
    "sin(radians(30))": "0.5",
}
REFUSED = {
    "2**10**9": "the power is too large",
    "9**9**9**9": "the power is too large",
    "(2**60000)*(2**60000)": "the result is too large",
    "1e999999999": "is too large or too small",
    "1e-999999999": "is too large or too small",
    "factorial(5001)": "factorial: a whole number between 0 and 5,000",
    "factorial(2.5)": "factorial: a whole number is needed",
    "comb(10**18, 10**9)": "comb: the result is too large",
    "exp(10**6)": "the result is too large",
    "exp(-10**6)": "the result is too large",
    "1/0": "division by zero",
    "1 % 0": "division by zero",
    "0**-1": "division by zero",
    "sqrt(-1)": "is not real",
    "(-8)**(1/3)": "is not real",
    "ln(0)": "positive number",
    "asin(2)": "between -1 and 1",
    "tan(pi/2)": "not defined",
    "sin(1e10)": "at most 1,000,000,000 radians",
    "log(8)": "say ln(x), log10(x) or log(x, base)",
    "sqrt()": "sqrt: 0 arguments",
    "2^3": "write ** for a power",
    "1 << 99": "unsupported operator LShift",
    "x + 1": "give it a value with --let x=",
    "sqr(2)": "unknown function 'sqr'; use one of abs",
    "__import__('os').system('touch hacked')": "unknown function",
    "(1).__class__": "nothing that can be computed",
    "[1]*10**9": "nothing that can be computed",
    "'a'*10**9": "is not a number",
    "f'{1}'": "nothing that can be computed",
    "lambda: 1": "nothing that can be computed",
    "1 if 1 else 2": "nothing that can be computed",
    "sqrt(*[4])": "write its arguments as plain values",
    "round(1, ndigits=2)": "write its arguments as plain values",
    "True + 1": "'True' is not a number",
    "2j": "'2j' is not a number",
    "1 in 2": "compared with ==",
    "": "cannot be read",
    "1 +": "cannot be read",
    "-" * 3999 + "1": "expression: ",
    "(" * 1900 + "1" + ")" * 1900: "cannot be read",
    "**".join(["1"] * 1300): "nested too deeply",
    "9" * 4001: "more than 4,000 characters",
}


def evaluate(*arguments: str, cwd: Path) -> CompletedProcess[str]:
    return run_script("math/scripts/evaluate.py", *arguments, cwd=cwd)


def test_exact_results_are_exact(tmp_path: Path) -> None:
    found = json.loads(evaluate("--json", "--", *EXACT, cwd=tmp_path).stdout)
    assert [(one["expression"], Fraction(one["exact"])) for one in found] == [
        (text, Fraction(value)) for text, value in EXACT.items()
    ]


def test_rounded_results_have_every_digit_right(tmp_path: Path) -> None:
    found = json.loads(evaluate("--json", "--", *ROUNDED, cwd=tmp_path).stdout)
    for one, (text, value) in zip(found, ROUNDED.items(), strict=True):
        trimmed = value.rstrip("0").rstrip(".") if "." in value else value
        assert (text, one["exact"], one["decimal"]) == (text, None, trimmed)


@pytest.mark.parametrize(("text", "said"), REFUSED.items(), ids=lambda text: text[:30])
def test_what_cannot_be_computed_is_refused_at_once(tmp_path: Path, text: str, said: str) -> None:
    done = run_script("math/scripts/evaluate.py", "--", text, cwd=tmp_path, seconds=20)
    assert said in fault(done, 2)
    assert list(tmp_path.iterdir()) == []


def test_comparisons_and_names(tmp_path: Path) -> None:
    done = evaluate(
        "0.1 + 0.2 == 0.3", "1 < 2 < 2", "sqrt(2)**2 == 2", "b * 2", "--let", "a=1/3", "--let", "b=a+1", cwd=tmp_path
    )
    assert done.stdout.splitlines() == [
        "0.1 + 0.2 == 0.3 is true",
        "1 < 2 < 2 is false",
        "sqrt(2)**2 == 2 is true",
        "b * 2 = 8/3 ≈ 2.6666666666666666667",
    ]
    for wrong in ("a", "2=3", "sqrt=1", "a=1<2", "a=b"):
        assert evaluate("1", "--let", wrong, cwd=tmp_path).returncode == 2


def test_long_results_are_shown_when_asked_for(tmp_path: Path) -> None:
    assert evaluate("3**1000", cwd=tmp_path).stdout.endswith("e+477 (exact, 478 characters; --full shows them)\n")
    assert evaluate("3**1000", "--full", cwd=tmp_path).stdout == f"3**1000 = {3**1000}\n"
    assert evaluate("sqrt(2)", "--digits", "60", cwd=tmp_path).stdout.endswith("87537694807317668\n")
    assert fault(evaluate("1", "--digits", "0", cwd=tmp_path), 2) == "--digits: 0 is not between 1 and 500"


Term = tuple[str, Fraction]
SIGNS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {"+": add, "-": sub, "*": mul}


def joined(parts: tuple[Term, str, Term]) -> Term:
    (left, first), sign, (right, second) = parts
    return f"({left} {sign} {right})", SIGNS[sign](first, second)


numbers = st.integers(-99, 99).map(lambda number: (f"({number})", Fraction(number)))
decimals = st.decimals(-9, 9, places=2).map(lambda number: (f"({number})", Fraction(number)))
terms = st.recursive(numbers | decimals, lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(joined))


@settings(max_examples=5)
@given(st.lists(terms, min_size=40, max_size=80))
def test_arithmetic_agrees_with_fractions(tmp_path_factory: pytest.TempPathFactory, cases: list[Term]) -> None:
    done = evaluate("--json", "--", *(text for text, _ in cases), cwd=tmp_path_factory.mktemp("math"))
    assert [Fraction(one["exact"]) for one in json.loads(done.stdout)] == [value for _, value in cases]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("5 mile km", "5 mile = 8.04672 km"),
        ("98.6 F C", "98.6 F = 37 C"),
        ("-40 C F", "-40 C = -40 F"),
        ("0 K F", "0 K = -459.67 F"),
        ("3/4 inch mm", "3/4 inch = 19.05 mm"),
        ("5 ft in", "5 ft = 60 inch"),
        ("5 ft to in", "5 ft = 60 inch"),
        ("10 GiB GB", "10 GiB = 10.73741824 GB"),
        ("100 Mbps MB/s", "100 Mbit/s = 12.5 MB/s"),
        ("3 亩 m2", "3 亩 = 2000 m2"),
        ("10 斤 公斤", "10 斤 = 5 kg"),
        ("1 KM Miles", "1 km ≈ 0.621371192237334 mile"),
        ("32 psi bar", "32 psi ≈ 2.20632233381388 bar"),
        ("180 deg rad", "180 deg ≈ 3.14159265358979 rad"),
        ("36 km/h m/s", "36 km/h = 10 m/s"),
        ("1 kWh kcal", "1 kWh ≈ 860.420650095602 kcal"),
        ("1 acre m2", "1 acre = 4046.8564224 m2"),
        ("1 gal-us l", "1 gal-us = 3.785411784 l"),
    ],
)
def test_units_are_converted(tmp_path: Path, words: str, said: str) -> None:
    done = run_script("math/scripts/convert.py", "--", *words.split(), cwd=tmp_path)
    assert (done.stdout, done.stderr) == (said + "\n", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("1 km kg", "unit: km is a unit of length, kg one of mass"),
        ("1 gallons l", "unit: 'gallons' may be several things; use gal-us or gal-uk"),
        ("1 month day", "unit: 'month' may be several things; use day; a month has no fixed length"),
        ("1 metr km", "unit: 'metr' is not known (--list shows all)"),
        ("1 kilomiles km", "unit: 'kilomiles' is not known"),
        ("x km m", "expression: 'x' is not known"),
        ("1<2 km m", "amount: expected an amount, not a comparison"),
        ("1e99999 km m", "expression: '1e99999' is too large"),
    ],
)
def test_what_cannot_be_converted_is_said(tmp_path: Path, words: str, said: str) -> None:
    assert fault(run_script("math/scripts/convert.py", *words.split(), cwd=tmp_path), 2).startswith(said)


def test_units_are_listed_by_kind(tmp_path: Path) -> None:
    whole = run_script("math/scripts/convert.py", "--list", cwd=tmp_path).stdout.splitlines()
    assert len(whole) == 15
    assert run_script("math/scripts/convert.py", "--list", "temperature", cwd=tmp_path).stdout.startswith(
        "temperature: K/kelvin, C/"
    )
    assert fault(run_script("math/scripts/convert.py", "--list", "taste", cwd=tmp_path), 2).startswith(
        "--list: unknown kind 'taste'"
    )
    assert misuse(run_script("math/scripts/convert.py", "5", "km", cwd=tmp_path)).startswith("expected an amount")


def describe(place: Path, *arguments: str) -> dict[str, str]:
    done = run_script("math/scripts/describe.py", *arguments, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    return {line[:23].strip(): line[24:] for line in done.stdout.splitlines()}


def test_statistics_are_those_of_the_book(tmp_path: Path) -> None:
    assert describe(tmp_path, "2", "4", "4", "4", "5", "5", "7", "9") == {
        "count": "8",
        "sum": "40",
        "min": "2",
        "quartile 1": "4",
        "median": "4.5",
        "quartile 3": "5.5",
        "max": "9",
        "range": "7",
        "mean": "5",
        "variance (population)": "4",
        "deviation (population)": "2",
        "variance (sample)": "4.57142857143",
        "deviation (sample)": "2.1380899353",
        "modes": "4 (3 times)",
    }


def test_large_numbers_that_differ_little_have_the_right_deviation(tmp_path: Path) -> None:
    found = describe(tmp_path, "1000000000000000.1", "1000000000000000.2", "1000000000000000.3", "--digits", "20")
    assert (found["mean"], found["variance (sample)"]) == ("1000000000000000.2", "0.01")
    assert found["modes"] == "none"


def test_one_number_has_no_sample_deviation(tmp_path: Path) -> None:
    found = describe(tmp_path, "--", "-3e-2")
    assert (found["mean"], found["deviation (population)"], found["modes"]) == ("-0.03", "0", "-0.03 (1 times)")
    assert "variance (sample)" not in found


def test_numbers_come_from_files_and_columns(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("1, 2;3\n\n4\t5\n")
    (tmp_path / "t.csv").write_text('name;amount\n"a;b";1\nc;\nd;x\ne;2,5\nf;3\n')
    assert describe(tmp_path, "--file", "n.txt")["sum"] == "15"
    found = describe(tmp_path, "--file", "t.csv", "--column", "amount", "--skip")
    assert (found["count"], found["sum"], found["left out"]) == ("2", "4", "2 that are not numbers")
    done = run_script("math/scripts/describe.py", "--file", "t.csv", "--column", "amount", cwd=tmp_path)
    assert fault(done, 2) == "line 4: 'x' is not a number; use --skip to leave out such cells"
    done = run_script("math/scripts/describe.py", "--file", "t.csv", "--column", "Amount", cwd=tmp_path)
    assert fault(done, 2) == "--column: unknown column 'Amount'; the file has: name, amount"


@pytest.mark.parametrize(
    ("data", "status"), [(b"", 3), (b"\0\1", 2), (b"1" * 2_000_000, 2), (b"1e99999", 2), (b"9" * 400, 2)]
)
def test_files_without_sensible_numbers_are_refused(tmp_path: Path, data: bytes, status: int) -> None:
    (tmp_path / "n.txt").write_bytes(data)
    fault(run_script("math/scripts/describe.py", "--file", "n.txt", cwd=tmp_path), status)


def test_numbers_and_a_file_exclude_each_other(tmp_path: Path) -> None:
    assert misuse(run_script("math/scripts/describe.py", cwd=tmp_path)) == "give either numbers or --file"
    assert misuse(run_script("math/scripts/describe.py", "1", "--column", "a", cwd=tmp_path)).startswith(
        "argument --column"
    )


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
