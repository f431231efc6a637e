"""Equations as people write them (2x + 3(y - 1) = x²), as polynomials with exact coefficients."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from fractions import Fraction

from exact.values import Fault, bounded, exact_number

MAX_LENGTH, MAX_TERMS, MAX_DEGREE = 2000, 500, 8

# The key has the unknowns of a term with their powers, sorted by name.
Polynomial = Mapping["tuple[tuple[str, int], ...]", Fraction]

SIGNS = str.maketrans(
    {
        "×": "*",
        "·": "*",
        "÷": "/",
        "−": "-",
        "–": "-",
        "（": "(",
        "）": ")",
        "＝": "=",
        "²": "**2",
        "³": "**3",
        "^": "**",
    }
)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|(?P<name>[^\W\d]\w*)|(?P<sign>\*\*|[-+*/()]))"
)
ONE = ()


def equation(text: str) -> Polynomial:
    """Left side minus right side: the equation holds where this is zero."""
    sides = text.translate(SIGNS).replace("==", "=").split("=")
    if len(text) > MAX_LENGTH or len(sides) != 2:
        raise Fault(f"equation: {text[:60]!r} needs one = and at most {MAX_LENGTH:,} characters")
    left, right = (side_of(side, text) for side in sides)
    return added(left, right, -1)


def side_of(side: str, text: str) -> Polynomial:
    try:
        tree = ast.parse(explicit(side, text), mode="eval")
        return walked(tree.body)
    except (SyntaxError, ValueError, MemoryError):
        raise Fault(f"equation: {text[:60]!r} cannot be read; write it like 2x + 3(y - 1) = 7") from None
    except RecursionError:
        raise Fault(f"equation: {text[:60]!r} is nested too deeply") from None


def explicit(side: str, text: str) -> str:
    """With the signs of multiplication that people leave out."""
    out: list[str] = []
    before, place = "", 0
    while place < len(side.rstrip()):
        found = _TOKEN.match(side, place)
        if not found:
            raise Fault(f"equation: {text[:60]!r} has {side[place:].strip()[:1]!r}, which has no meaning here")
        place = found.end()
        kind, part = str(found.lastgroup), found.group().strip()
        if kind == before == "number":
            raise Fault(f"equation: {text[:60]!r} has two numbers side by side")
        begins = kind in ("number", "name") or part == "("
        if begins and (before in (")", "number") or (before == "name" and part == "(")):
            out.append("*")
        # Numbers keep their digits: one in quotes is read exactly.
        out.append(repr(part) if kind == "number" else part)
        before = kind if kind != "sign" else part
    return " ".join(out)


def walked(node: ast.expr) -> Polynomial:
    """The polynomial of a syntax tree. Nothing is executed."""
    if isinstance(node, ast.Constant):
        return {ONE: exact_number(str(node.value), "equation")}
    if isinstance(node, ast.Name):
        return {((node.id, 1),): Fraction(1)}
    if isinstance(node, ast.UnaryOp):
        return added({}, walked(node.operand), -1 if isinstance(node.op, ast.USub) else 1)
    if isinstance(node, ast.BinOp):
        return chained(node)
    raise Fault("equation: only numbers, unknowns, + - * / ** and brackets can be used")


def chained(node: ast.expr) -> Polynomial:
    """A long sum leans to the left; it is worked off without going deep."""
    waiting: list[ast.BinOp] = []
    while isinstance(node, ast.BinOp):
        waiting.append(node)
        node = node.left
    found = walked(node)
    for one in reversed(waiting):
        found = combined(one.op, found, walked(one.right))
    return found


def combined(sign: ast.operator, left: Polynomial, right: Polynomial) -> Polynomial:
    if isinstance(sign, (ast.Add, ast.Sub)):
        return added(left, right, -1 if isinstance(sign, ast.Sub) else 1)
    if isinstance(sign, ast.Mult):
        return multiplied(left, right)
    constant = right.get(ONE, Fraction(0)) if set(right) <= {ONE} else None
    if isinstance(sign, ast.Div):
        if constant is None:
            raise Fault("equation: nothing is divided by an unknown here; multiply it out first")
        if not constant:
            raise Fault("equation: division by zero")
        return multiplied(left, {ONE: 1 / constant})
    if constant is None or constant.denominator != 1 or not 0 <= constant <= MAX_DEGREE:
        raise Fault(f"equation: an exponent is a whole number between 0 and {MAX_DEGREE}")
    found: Polynomial = {ONE: Fraction(1)}
    for _ in range(int(constant)):
        found = multiplied(found, left)
    return found


def added(left: Polynomial, right: Polynomial, factor: int) -> Polynomial:
    found = dict(left)
    for term, number in right.items():
        found[term] = bounded(found.get(term, Fraction(0)) + factor * number)
    return {term: number for term, number in found.items() if number}


def multiplied(left: Polynomial, right: Polynomial) -> Polynomial:
    found: dict[tuple[tuple[str, int], ...], Fraction] = {}
    for one, first in left.items():
        for two, second in right.items():
            powers = dict(one)
            for name, power in two:
                powers[name] = powers.get(name, 0) + power
            term = tuple(sorted(powers.items()))
            found[term] = bounded(found.get(term, Fraction(0)) + first * second)
        if len(found) > MAX_TERMS:
            raise Fault(f"equation: more than {MAX_TERMS} terms")
    return {term: number for term, number in found.items() if number}


def degree(polynomial: Polynomial) -> int:
    return max((sum(power for _, power in term) for term in polynomial), default=0)


def unknowns(texts: list[str]) -> list[str]:
    """The names in equations, in the order in which they come."""
    names = (match["name"] for text in texts for match in _TOKEN.finditer(text.translate(SIGNS)) if match["name"])
    return list(dict.fromkeys(names))
