"""Statistics and comparisons, exact on decimals: 0.1 + 0.2 is 0.3.

Numbers become integers over one power of ten, so sums, means and variances are exact; only the last step rounds, to
the nearest number that JSON readers can hold. Whole results are exact up to 64 bits. A result above 2**53 that had to
be rounded is named in `meta.rounded`; if it is a whole number, `meta.exact` has all its digits as text.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from math import isqrt

from openskills.skillkit.entry import Answer, SkillRefusal, main

MAX_NUMBERS = 100_000
MAX_OPS = 100
MAX_DIGITS = 100
MAX_EXPONENT = 308
SAFE = 2**63
EVERY_WHOLE = 2**53
MANY_BITS = 160

Number = int | float


class Rounded(float):
    """A number too large to be exact as a float. `exact` has all digits, if it is whole."""

    exact: str = ""


class Scaled:
    """Numbers as integers: each is `values[i] / unit`, and `unit` is a power of ten."""

    def __init__(self, numbers: Sequence[int | Decimal]) -> None:
        parts = [_parts(number) for number in numbers]
        places = max(0, -min(exponent for _, exponent in parts))
        self.unit = 10**places
        self.values = [digits * 10 ** (exponent + places) for digits, exponent in parts]
        self.sorted = sorted(self.values)
        self.total = sum(self.values)

    def __len__(self) -> int:
        return len(self.values)


def calculate(numbers: list[int | Decimal], ops: list[str], compare: dict[str, int | Decimal] | None = None) -> Answer:
    """Apply each operation to the numbers; with `compare` say which of `a` and `b` is larger, and by how much."""
    if not numbers:
        raise _invalid("numbers", "must not be empty")
    if len(numbers) > MAX_NUMBERS:
        raise _invalid("numbers", f"has {len(numbers)} numbers; the maximum is {MAX_NUMBERS}")
    if not 0 < len(ops) <= MAX_OPS:
        raise _invalid("ops", f"has {len(ops)} operations; use 1 to {MAX_OPS} of: {', '.join(OPERATIONS)}, p90")
    for place, number in enumerate(numbers):
        _check(f"numbers[{place}]", number)
    operations = [(op, _operation(op, f"ops[{place}]")) for place, op in enumerate(ops)]
    data = Scaled(numbers)
    results: dict[str, object] = {}
    for op, operation in operations:
        with _bounded("numbers", op):
            results[op] = operation(data)
    if compare is None:
        return Answer({"results": results}, notes=_notes(results))
    with _bounded("compare", "the difference or the ratio"):
        comparison = _compared(compare)
    told = {**results, **{f"comparison.{name}": value for name, value in comparison.items()}}
    return Answer({"results": results, "comparison": comparison}, notes=_notes(told))


def _notes(results: dict[str, object]) -> dict[str, object]:
    """The names of rounded results, and the exact digits of whole ones."""
    rounded = [name for name, value in results.items() if _is_rounded(value)]
    exact = {name: value.exact for name, value in results.items() if isinstance(value, Rounded) and value.exact}
    return {**({"rounded": rounded} if rounded else {}), **({"exact": exact} if exact else {})}


def _is_rounded(value: object) -> bool:
    if isinstance(value, list):
        return any(isinstance(one, Rounded) for one in value)  # pyright: ignore[reportUnknownVariableType]
    return isinstance(value, Rounded)


def mean(data: Scaled) -> Number:
    """The sum divided by the count."""
    return _number(data.total, len(data) * data.unit)


def median(data: Scaled) -> Number:
    """The middle number; of an even count, the mean of the two in the middle."""
    return _percentile(data, 1, 2)


def mode(data: Scaled) -> Number:
    """The number that occurs most often; of several, the one that comes first."""
    counts = _counts(data)
    return _number(max(counts, key=lambda value: counts[value]), data.unit)


def modes(data: Scaled) -> list[Number]:
    """All numbers that occur most often, smallest first."""
    counts = _counts(data)
    highest = max(counts.values())
    return [_number(value, data.unit) for value in sorted(counts) if counts[value] == highest]


def variance(data: Scaled) -> Number:
    """The variance of a sample (divided by n - 1)."""
    return _number(*_sample_variance(data, "variance"))


def pvariance(data: Scaled) -> Number:
    """The variance of a population (divided by n)."""
    return _number(*_squares(data, len(data)))


def stdev(data: Scaled) -> Number:
    """The standard deviation of a sample."""
    return _root(*_sample_variance(data, "stdev"))


def pstdev(data: Scaled) -> Number:
    """The standard deviation of a population."""
    return _root(*_squares(data, len(data)))


OPERATIONS: dict[str, Callable[[Scaled], object]] = {
    "mean": mean,
    "median": median,
    "mode": mode,
    "modes": modes,
    "min": lambda data: _number(data.sorted[0], data.unit),
    "max": lambda data: _number(data.sorted[-1], data.unit),
    "sum": lambda data: _number(data.total, data.unit),
    "count": len,
    "range": lambda data: _number(data.sorted[-1] - data.sorted[0], data.unit),
    "variance": variance,
    "stdev": stdev,
    "pvariance": pvariance,
    "pstdev": pstdev,
}
ALIASES = {
    "average": "mean",
    "avg": "mean",
    "minimum": "min",
    "maximum": "max",
    "total": "sum",
    "std": "stdev",
    "stddev": "stdev",
    "standard_deviation": "stdev",
    "sample_variance": "variance",
    "sample_stdev": "stdev",
    "population_variance": "pvariance",
    "population_stdev": "pstdev",
}


def _operation(op: str, field: str) -> Callable[[Scaled], object]:
    name = op.strip().lower()
    known = OPERATIONS.get(ALIASES.get(name, name))
    if known is not None:
        return known
    rank = name.removeprefix("percentile:") if name.startswith("percentile:") else name.removeprefix("p")
    if rank == name or not rank.replace(".", "", 1).isdecimal() or not rank.isascii() or len(rank) > MAX_DIGITS:
        raise _invalid(field, f"unknown operation {op[:60]!r}; {_near(name)}")
    percent, exponent = _parts(Decimal(rank))
    if Decimal(rank) > 100:
        raise _invalid(field, f"invalid percentile {op!r}; use p0 to p100")
    return lambda data: _percentile(data, percent, 100 * 10 ** -min(exponent, 0))


def _near(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name[:60], [*OPERATIONS, *ALIASES], n=3)
    known = f"known operations: {', '.join(OPERATIONS)}, and percentiles such as p90 or percentile:99.9"
    return f"did you mean {' or '.join(near)}? {known}" if near else known


def _compared(compare: dict[str, int | Decimal]) -> dict[str, object]:
    if set(compare) != {"a", "b"}:
        raise _invalid("compare", 'expected exactly "a" and "b"')
    for name, number in compare.items():
        _check(f"compare.{name}", number)
    pair = Scaled([compare["a"], compare["b"]])
    a, b = pair.values
    relation = "=" if a == b else "<" if a < b else ">"
    return {
        "a": _number(a, pair.unit),
        "b": _number(b, pair.unit),
        "relation": relation,
        "larger": {"=": None, "<": "b", ">": "a"}[relation],
        "difference": _number(a - b, pair.unit),
        "ratio": _number(a, b) if b else None,
        "conclusion": {"=": "a equals b", "<": "a is less than b", ">": "a is greater than b"}[relation],
    }


@contextmanager
def _bounded(field: str, what: str) -> Generator[None]:
    try:
        yield
    except OverflowError:
        raise _invalid(field, f"{what} is out of range (maximum 1e308)") from None


def _check(field: str, number: int | Decimal) -> None:
    """Refuse numbers that would need too much memory."""
    if isinstance(number, int):
        if number.bit_length() > MAX_DIGITS * 4:
            raise _invalid(field, f"has more than {MAX_DIGITS} digits")
        return
    if len(number.as_tuple().digits) > MAX_DIGITS:
        raise _invalid(field, f"has more than {MAX_DIGITS} digits")
    if number and abs(number.adjusted()) > MAX_EXPONENT:
        raise _invalid(field, f"{number:.3E} is out of range; use numbers from 1e-308 to 1e308")


def _parts(number: int | Decimal) -> tuple[int, int]:
    """An integer and a power of ten, whose product is the number."""
    if isinstance(number, int):
        return number, 0
    if not number:
        return 0, 0
    sign, digits, exponent = number.as_tuple()
    value = int("".join(map(str, digits)))
    return (-value if sign else value), int(exponent)


def _counts(data: Scaled) -> dict[int, int]:
    counts: dict[int, int] = {}
    for value in data.values:
        counts[value] = counts.get(value, 0) + 1
    return counts


def _squares(data: Scaled, divisor: int) -> tuple[int, int]:
    """The sum of squared distances from the mean over `divisor`, as a fraction."""
    count = len(data)
    squares = count * sum(value * value for value in data.values) - data.total * data.total
    return squares, count * divisor * data.unit * data.unit


def _sample_variance(data: Scaled, op: str) -> tuple[int, int]:
    if len(data) == 1:
        raise _invalid("numbers", f"{op} needs at least two numbers; p{op} works with one")
    return _squares(data, len(data) - 1)


def _percentile(data: Scaled, part: int, whole: int) -> Number:
    """The value below which part/whole of the numbers lie, interpolated between neighbours (as spreadsheets do)."""
    place, rest = divmod(part * (len(data) - 1), whole)
    low = data.sorted[place]
    high = data.sorted[min(place + 1, len(data) - 1)]
    return _number(low * whole + (high - low) * rest, whole * data.unit)


def _root(part: int, whole: int) -> Number:
    """The square root of a fraction, to the last digit of a float."""
    shift = max(0, MANY_BITS - (part.bit_length() - whole.bit_length()) // 2)
    root = isqrt((part << 2 * shift) // whole)
    return _number(root, 1 << shift)


def _number(part: int, whole: int) -> Number:
    """A fraction as an integer, if it is whole and fits in 64 bits, otherwise the nearest float."""
    quotient, rest = divmod(part, whole)
    if rest == 0 and -SAFE <= quotient < SAFE:
        return quotient
    nearest = part / whole
    if abs(nearest) < EVERY_WHOLE or (rest == 0 and int(Decimal(repr(nearest))) == quotient):
        return nearest
    found = Rounded(nearest)
    found.exact = "" if rest else str(quotient)
    return found


def _invalid(field: str, message: str) -> SkillRefusal:
    return SkillRefusal("INVALID_ARGUMENT", f"{field}: {message}", field=field)


if __name__ == "__main__":
    main(calculate, version="0.1.0", exact=True)
