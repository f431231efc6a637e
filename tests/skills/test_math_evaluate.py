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

from tests.skills.shipped import fault, run_script

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
    "1 << 99": "no operator LShift",
    "x + 1": "give it a value with --let x=",
    "sqr(2)": "'sqr' is no function; there are abs",
    "__import__('os').system('touch hacked')": "is no function",
    "(1).__class__": "nothing that can be computed",
    "[1]*10**9": "nothing that can be computed",
    "'a'*10**9": "is no number",
    "f'{1}'": "nothing that can be computed",
    "lambda: 1": "nothing that can be computed",
    "1 if 1 else 2": "nothing that can be computed",
    "sqrt(*[4])": "write its arguments as plain values",
    "round(1, ndigits=2)": "write its arguments as plain values",
    "True + 1": "'True' is no number",
    "2j": "'2j' is no number",
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
