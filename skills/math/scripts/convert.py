#!/usr/bin/env python3
"""Convert an amount from one unit to another, exactly: length, mass, time, temperature, data and more.

Exit status: 0 done, 2 wrong argument, unknown unit or units of different kinds.
"""

from __future__ import annotations

import argparse
import json
import sys
from fractions import Fraction
from pathlib import Path

# The parts lie beside this file, and the folder of a skill stays as it is.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from exact.expression import computed  # noqa: E402
from exact.units import TABLE, Unit, convert, find, rows, units  # noqa: E402
from exact.values import Fault, Value, approximate, as_data, plain_decimal, prepare, rounded, terminates  # noqa: E402

EXAMPLES = """examples:
  convert.py 5 mile km                  8.04672 km
  convert.py 98.6 F C
  convert.py 3/4 inch mm                an amount may be an expression
  convert.py 10 GiB GB
  convert.py 3 亩 m2
  convert.py --list length              the units of one kind; without a kind, of all
An amount below zero comes after --, as in: convert.py -- -40 F C
"""


def listed(kind: str) -> list[str]:
    if kind and kind not in TABLE:
        raise Fault(f"--list: unknown kind {kind!r}; use {', '.join(TABLE)}")
    kinds = [kind] if kind else list(TABLE)
    return [f"{one}: " + ", ".join("/".join(names) for names, _ in rows(one)) for one in kinds]


def converted(amount: str, source: str, target: str) -> tuple[Unit, Unit, Value]:
    """Both units, and the amount in the second; a decimal when it is not exact."""
    known = units()
    value = computed(amount)
    if isinstance(value, bool):
        raise Fault("amount: expected an amount, not a comparison")
    first, second = find(source, known), find(target, known)
    found = convert(Fraction(value), first, second)
    exact = isinstance(value, Fraction) and not (first.rounded or second.rounded)
    return first, second, found if exact else approximate(found)


def amount_of(value: Value, digits: int) -> str:
    """A decimal number; fractions are nothing to measure with."""
    if isinstance(value, Fraction) and terminates(value):
        return f"= {plain_decimal(value)}"
    return f"≈ {rounded(value, digits)}"


def main() -> int:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=shape)
    parser.add_argument("words", nargs="*", metavar="AMOUNT FROM TO", help="such as: 5 mile km (or: 5 mile to km)")
    parser.add_argument("--list", nargs="?", const="", metavar="KIND", help="show units")
    parser.add_argument("--digits", type=int, default=15, metavar="N", help="of rounded results (default: 15)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    words: list[str] = options.words
    if len(words) == 4 and words[2] in ("to", "in", "="):
        words = [*words[:2], words[3]]
    if options.list is None and len(words) != 3:
        parser.error("expected an amount, the unit that it has and the unit that it is to have")
    try:
        prepare(options.digits)
        if options.list is not None:
            print(*listed(options.list), sep="\n")
            return 0
        source, target, value = converted(*words)
    except Fault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return fault.status
    if options.json:
        named = {"from": source.name, "to": target.name, "kind": source.kind}
        print(json.dumps({**named, **as_data(value, options.digits)}, ensure_ascii=False))
    else:
        print(f"{words[0]} {source.name} {amount_of(value, options.digits)} {target.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
