"""Numbers: fractions as long as a result is exact, decimals of a chosen precision when it is not; none too large."""

from __future__ import annotations

import decimal
import io
import re
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any, Union

Value = Union[Fraction, Decimal]  # noqa: UP007 - Python 3.9

BITS = 1 << 16
"""The most that the numerator or denominator of a number may have: about 19,700 digits."""
LONG = 60
"""More digits than these are shown only when somebody asks."""
GUARD = 15
"""Digits that are carried along and not shown, so that those that are shown are right."""
MAX_EXPONENT = 5000
"""Of a number that somebody writes."""
MAX_POWER = 20_000
"""Of ten, in a rounded number."""
MAX_DIGITS = 500

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")


class Fault(Exception):
    """What keeps a result from being found, in one line, with the exit status that says so."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


def prepare(digits: int) -> None:
    """Compute with so many digits from here on, and print UTF-8."""
    if not 1 <= digits <= MAX_DIGITS:
        raise Fault(f"--digits: {digits} is not between 1 and {MAX_DIGITS}")
    context = decimal.getcontext()
    context.prec, context.Emax, context.Emin = digits + GUARD, MAX_POWER, -MAX_POWER
    context.traps[decimal.Underflow] = True
    # Python 3.11 refuses to print long integers; ours are bounded.
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    for stream in (sys.stdout, sys.stderr):
        out: Any = stream
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(encoding="utf-8", errors="backslashreplace")


def exact_number(text: str, field: str) -> Fraction:
    """A decimal number as it is written, without rounding. Raises `Fault` for anything else and for huge ones."""
    plain = text.strip().replace("_", "")
    found = _NUMBER.fullmatch(plain)
    if not found:
        raise Fault(f"{field}: {text[:60]!r} is not a number")
    if len(plain) > MAX_EXPONENT or abs(int((found[1] or "0")[:8])) > MAX_EXPONENT:
        raise Fault(f"{field}: {text[:60]!r} is too large or too small; exponents go to {MAX_EXPONENT:,}")
    return Fraction(plain)


def bounded(value: Fraction) -> Fraction:
    """The number, when it is not too large to work with."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > BITS:
        raise Fault("the result is too large; numbers have at most about 19,000 digits")
    return value


def approximate(value: Value) -> Decimal:
    """As a decimal of the precision that is in use."""
    if isinstance(value, Decimal):
        return value
    return Decimal(value.numerator) / Decimal(value.denominator)


def settled(value: Decimal, size: Decimal) -> Decimal:
    """Zero, when nothing is left of numbers of this size but the errors of rounding."""
    noise = abs(size).scaleb(GUARD - 5 - decimal.getcontext().prec)
    return Decimal(0) if abs(value) < noise else value


def rounded(value: Value, digits: int) -> str:
    """So many digits that matter, without zeros at the end."""
    number = approximate(value)
    with decimal.localcontext() as context:
        context.prec = digits
        number = +number
    if not number:
        return "0"
    if -7 <= number.adjusted() < max(digits, 21):
        text = f"{number:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = f"{number:e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{exponent}"


def terminates(value: Fraction) -> bool:
    """Whether the number can be written with a finite number of decimals, not too many to read."""
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1 and len(plain_decimal(value)) <= LONG


def plain_decimal(value: Fraction) -> str:
    """A number with a finite number of decimals, all of them."""
    places = value.denominator.bit_length()
    scaled = abs(value.numerator) * 10**places // value.denominator
    text = f"{scaled:0{places + 1}d}"
    whole, part = text[: len(text) - places], text[len(text) - places :].rstrip("0")
    return ("-" if value < 0 else "") + whole + ("." + part if part else "")


def shown(value: Value, digits: int, *, full: bool = False) -> str:
    """What comes after the expression: `= 13/30 ≈ 0.4333`, `= 1/8 = 0.125`, `= 42`, `≈ 1.4142`."""
    if isinstance(value, Decimal):
        return f"≈ {rounded(value, digits)}"
    text = str(value)
    if not full and len(text) > LONG:
        return f"≈ {rounded(value, digits)} (exact, {len(text):,} characters; --full shows them)"
    if value.denominator == 1:
        return f"= {text}"
    return f"= {text} = {plain_decimal(value)}" if terminates(value) else f"= {text} ≈ {rounded(value, digits)}"


def as_data(value: Value, digits: int) -> dict[str, object]:
    """The same for a program."""
    if isinstance(value, Decimal):
        return {"exact": None, "decimal": rounded(value, digits)}
    return {"exact": str(value), "decimal": rounded(value, digits)}
