"""Functions and constants: exact where the result is a fraction, otherwise to the precision in use."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from exact.values import BITS, Fault, Value, approximate, bounded, settled

MAX_FACTORIAL = 5000
MAX_ANGLE = 10**9


def whole(value: Value, name: str) -> int:
    """The integer that a function needs."""
    if isinstance(value, Decimal) or value.denominator != 1:
        raise Fault(f"{name}: a whole number is needed")
    return value.numerator


def power(base: Value, exponent: Value) -> Value:
    """`base ** exponent`, exact for whole exponents and for roots that come out."""
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if exponent.denominator == 1:
            return integer_power(base, exponent.numerator)
        if base >= 0 and exponent.denominator <= 64:
            found = exact_root(base, exponent.denominator)
            if found is not None:
                return integer_power(found, exponent.numerator)
    if base == 0:
        if exponent < 0:
            raise Fault("division by zero")
        return Fraction(0)
    if base < 0:
        raise Fault("a power of a negative number with a fraction as exponent is not real")
    return approximate(base) ** approximate(exponent)


def integer_power(base: Fraction, exponent: int) -> Fraction:
    if base == 0 and exponent < 0:
        raise Fault("division by zero")
    if abs(base) == 1:
        return base ** (exponent % 2)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if base and (bits - 1) * abs(exponent) > BITS:
        raise Fault("the power is too large; numbers have at most about 19,000 digits")
    return bounded(base**exponent)


def exact_root(value: Fraction, degree: int) -> Fraction | None:
    """The root of a number that is not negative, when it is a fraction."""
    top, bottom = integer_root(value.numerator, degree), integer_root(value.denominator, degree)
    return Fraction(top, bottom) if top**degree == value.numerator and bottom**degree == value.denominator else None


def integer_root(value: int, degree: int) -> int:
    """The largest integer whose power is not larger than the value."""
    if degree == 2:
        return math.isqrt(value)
    guess = 1 << -(-value.bit_length() // degree)
    while True:
        better = ((degree - 1) * guess + value // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better


def root(value: Value, degree: Value) -> Value:
    number = whole(degree, "root")
    if not 1 <= number <= 1000:
        raise Fault("root: the degree must be between 1 and 1000")
    if value < 0:
        if number % 2 == 0:
            raise Fault("an even root of a negative number is not real")
        return -root(-value, degree)
    found = exact_root(value, number) if isinstance(value, Fraction) else None
    return found if found is not None else approximate(value) ** (1 / Decimal(number)) if value else Fraction(0)


def logarithm(value: Value, base: Value) -> Value:
    if value <= 0 or base <= 0 or base == 1:
        raise Fault("a logarithm needs a positive number and a positive base other than 1")
    found = approximate(value).ln() / approximate(base).ln()
    near = found.to_integral_value()
    if isinstance(value, Fraction) and isinstance(base, Fraction) and abs(near) < BITS:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if (bits - 1) * abs(int(near)) <= BITS and base ** int(near) == value:
            return Fraction(int(near))
    return found


def natural(value: Value) -> Value:
    if value <= 0:
        raise Fault("a logarithm needs a positive number")
    return Fraction(0) if value == 1 else approximate(value).ln()


def exponential(value: Value) -> Value:
    return Fraction(1) if value == 0 else approximate(value).exp()


def pi() -> Decimal:
    """By Machin's formula, in integers."""
    digits = decimal.getcontext().prec + 15
    one = 10**digits

    def inverse_tangent(number: int) -> int:
        term = total = one // number
        place = 3
        while term:
            term //= -number * number
            total += term // place
            place += 2
        return total

    return +Decimal(4 * (4 * inverse_tangent(5) - inverse_tangent(239))).scaleb(-digits)


def sine(value: Value) -> Value:
    if value == 0:
        return Fraction(0)
    if abs(value) > MAX_ANGLE:
        raise Fault(f"an angle is at most {MAX_ANGLE:,} radians; take out whole turns first")
    with decimal.localcontext() as context:
        context.prec += 15
        angle = approximate(value) % (2 * pi())
        term = total = angle
        place = 1
        while abs(term) > Decimal(10) ** -context.prec:
            term *= -angle * angle / ((place + 1) * (place + 2))
            total += term
            place += 2
    return settled(+total, approximate(value))


def cosine(value: Value) -> Value:
    return Fraction(1) if value == 0 else sine(approximate(value) + pi() / 2)


def tangent(value: Value) -> Value:
    below = cosine(value)
    if below == 0:
        raise Fault("the tangent is not defined there")
    return Fraction(0) if value == 0 else approximate(sine(value)) / approximate(below)


def arc_tangent(value: Value) -> Value:
    if value == 0:
        return Fraction(0)
    with decimal.localcontext() as context:
        context.prec += 15
        number = approximate(value)
        for _ in range(4):
            number /= 1 + (1 + number * number).sqrt()
        term = total = number
        place = 1
        while abs(term) > Decimal(10) ** -context.prec:
            place += 2
            term *= -number * number
            total += term / place
        total *= 16
    return +total


def arc_sine(value: Value) -> Value:
    if abs(value) > 1:
        raise Fault("asin and acos need a number between -1 and 1")
    if abs(value) == 1:
        return approximate(value) * pi() / 2
    number = approximate(value)
    return arc_tangent(number / (1 - number * number).sqrt()) if value else Fraction(0)


def arc_cosine(value: Value) -> Value:
    return Fraction(0) if value == 1 else pi() / 2 - approximate(arc_sine(value))


def nearest(value: Value, places: Value = Fraction(0)) -> Value:
    """Half goes away from zero, as on paper."""
    number = whole(places, "round")
    if abs(number) > 1000:
        raise Fault("round: at most 1,000 places")
    scale = Fraction(10) ** number
    scaled = abs(Fraction(value)) * scale + Fraction(1, 2)
    return (1 if value >= 0 else -1) * Fraction(math.floor(scaled)) / scale


def factorial(value: Value) -> Value:
    number = whole(value, "factorial")
    if not 0 <= number <= MAX_FACTORIAL:
        raise Fault(f"factorial: a whole number between 0 and {MAX_FACTORIAL:,} is needed")
    return Fraction(math.factorial(number))


def selections(name: str, count: Callable[[int, int], int]) -> Callable[[Value, Value], Value]:
    def selected(all_of: Value, some: Value) -> Value:
        total, part = whole(all_of, name), whole(some, name)
        if total < 0 or part < 0:
            raise Fault(f"{name}: whole numbers that are not negative are needed")
        if min(part, abs(total - part) if name == "comb" else part) * total.bit_length() > 4 * BITS:
            raise Fault(f"{name}: the result is too large")
        return bounded(Fraction(count(total, part)))

    return selected


def divisor(*values: Value) -> Value:
    found = 0
    for value in values:
        found = math.gcd(found, whole(value, "gcd"))
    return Fraction(found)


def multiple(*values: Value) -> Value:
    found = 1
    for value in values:
        number = whole(value, "lcm")
        if not number:
            return Fraction(0)
        found = abs(bounded(Fraction(found * number // math.gcd(found, number))).numerator)
    return Fraction(found)


CONSTANTS: dict[str, Callable[[], Value]] = {
    "pi": pi,
    "tau": lambda: 2 * pi(),
    "e": lambda: Decimal(1).exp(),
}
FUNCTIONS: dict[str, tuple[int, int, Callable[..., Value]]] = {
    "abs": (1, 1, abs),
    "min": (1, 1000, lambda *values: min(values)),
    "max": (1, 1000, lambda *values: max(values)),
    "floor": (1, 1, lambda value: Fraction(math.floor(value))),
    "ceil": (1, 1, lambda value: Fraction(math.ceil(value))),
    "trunc": (1, 1, lambda value: Fraction(math.trunc(value))),
    "round": (1, 2, nearest),
    "gcd": (1, 1000, divisor),
    "lcm": (1, 1000, multiple),
    "factorial": (1, 1, factorial),
    "comb": (2, 2, selections("comb", math.comb)),
    "perm": (2, 2, selections("perm", math.perm)),
    "sqrt": (1, 1, lambda value: root(value, Fraction(2))),
    "cbrt": (1, 1, lambda value: root(value, Fraction(3))),
    "root": (2, 2, root),
    "exp": (1, 1, exponential),
    "ln": (1, 1, natural),
    "log": (2, 2, logarithm),
    "log2": (1, 1, lambda value: logarithm(value, Fraction(2))),
    "log10": (1, 1, lambda value: logarithm(value, Fraction(10))),
    "sin": (1, 1, sine),
    "cos": (1, 1, cosine),
    "tan": (1, 1, tangent),
    "asin": (1, 1, arc_sine),
    "acos": (1, 1, arc_cosine),
    "atan": (1, 1, arc_tangent),
    "degrees": (1, 1, lambda value: approximate(value) * 180 / pi()),
    "radians": (1, 1, lambda value: approximate(value) * pi() / 180),
}
