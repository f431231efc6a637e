"""Solutions of linear systems and of quadratic equations, exact."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from exact.functions import exact_root
from exact.polynomial import ONE, Polynomial
from exact.values import approximate, bounded, rounded

SQUARES = 1000
"""Squares of numbers up to this are taken out of a root."""


@dataclass(frozen=True)
class Lines:
    """What a linear system says: nothing at all, or each unknown as a number and a part of each free one."""

    solvable: bool
    found: dict[str, dict[str, Fraction]]
    free: tuple[str, ...] = ()


def linear(equations: list[Polynomial], names: list[str]) -> Lines:
    """Gauss and Jordan, with fractions. The part under "" is the number without an unknown."""
    rows = [[one.get(((name, 1),), Fraction(0)) for name in names] + [-one.get(ONE, Fraction(0))] for one in equations]
    pivots: list[int] = []
    for column in range(len(names)):
        row = next((number for number in range(len(pivots), len(rows)) if rows[number][column]), None)
        if row is None:
            continue
        top = len(pivots)
        rows[top], rows[row] = rows[row], rows[top]
        rows[top] = [bounded(value / rows[top][column]) for value in rows[top]]
        for number, other in enumerate(rows):
            if number != top and other[column]:
                factor = other[column]
                rows[number] = [bounded(value - factor * above) for value, above in zip(other, rows[top])]  # noqa: B905
        pivots.append(column)
    if any(row[-1] and not any(row[:-1]) for row in rows):
        return Lines(solvable=False, found={})
    free = [number for number in range(len(names)) if number not in pivots]
    found = {
        names[column]: {"": rows[row][-1], **{names[other]: -rows[row][other] for other in free if rows[row][other]}}
        for row, column in enumerate(pivots)
    }
    return Lines(solvable=True, found=found, free=tuple(names[number] for number in free))


@dataclass(frozen=True)
class Root:
    """`middle + side * sqrt(under)`; an imaginary one when `under` is negative."""

    middle: Fraction
    side: Fraction
    under: int

    def exact(self) -> str:
        if not self.side:
            return str(self.middle)
        sign = "-" if self.side < 0 else "+"
        parts = [str(abs(self.side))] if abs(self.side) != 1 or self.under == -1 else []
        parts += [f"sqrt({abs(self.under)})"] if abs(self.under) != 1 else []
        parts += ["i"] if self.under < 0 else []
        if parts[0] == "1" and len(parts) > 1:
            parts = parts[1:]
        start = f"{self.middle} {sign} " if self.middle else "-" if sign == "-" else ""
        return start + "*".join(parts)

    def decimal(self, digits: int) -> str:
        part = approximate(self.side) * Decimal(abs(self.under)).sqrt()
        if self.under >= 0:
            return self._sum(digits)
        sign = "-" if part < 0 else "+"
        return f"{rounded(self.middle, digits)} {sign} {rounded(abs(part), digits)}i"

    def _sum(self, digits: int) -> str:
        # Numbers that nearly cancel each other need all their digits.
        bits = max(part.bit_length() for part in (self.middle.numerator, self.middle.denominator, self.under))
        with decimal.localcontext() as context:
            context.prec += bits // 2
            value = approximate(self.middle) + approximate(self.side) * Decimal(self.under).sqrt()
        return rounded(value, digits)


def quadratic(polynomial: Polynomial, name: str) -> list[Root]:
    """The roots of a*x**2 + b*x + c, the smaller one first; one when they are the same."""
    a, b, c = (polynomial.get(((name, power),) if power else ONE, Fraction(0)) for power in (2, 1, 0))
    under = b * b - 4 * a * c
    middle = -b / (2 * a)
    if not under:
        return [Root(middle, Fraction(0), 0)]
    root = exact_root(under, 2) if under > 0 else None
    if root is not None:
        side = abs(root / (2 * a))
        return [Root(middle - side, Fraction(0), 0), Root(middle + side, Fraction(0), 0)]
    # sqrt(n/d) is sqrt(n*d)/d; what is a square in n*d comes out.
    inside, outside = taken_out(abs(under.numerator) * under.denominator)
    side = abs(Fraction(outside, under.denominator) / (2 * a))
    signed = inside if under > 0 else -inside
    return [Root(middle, -side, signed), Root(middle, side, signed)]


def taken_out(number: int) -> tuple[int, int]:
    """`inside, outside` with `number == inside * outside**2`."""
    outside = 1
    for factor in range(2, SQUARES + 1):
        while number % (factor * factor) == 0:
            number //= factor * factor
            outside *= factor
    return number, outside
