#!/usr/bin/env python3
"""Compute expressions exactly: fractions stay fractions, 0.1 + 0.2 is 0.3, integers have as many digits as they need.

Results say whether they are exact (=) or rounded (≈). Nothing of the input is executed.
Exit status: 0 done, 2 wrong argument or nothing that can be computed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

# The parts lie beside this file, and the folder of a skill stays as it is.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from exact.expression import computed  # noqa: E402
from exact.functions import CONSTANTS, FUNCTIONS  # noqa: E402
from exact.values import Fault, Value, as_data, prepare, shown  # noqa: E402

EXAMPLES = f"""examples:
  evaluate.py "1/3 + 0.1"                       13/30
  evaluate.py "2**100 - 1" "comb(49, 6)"        several at once
  evaluate.py "p * (1 + r/100)**n" --let p=1000 --let r=3.5 --let n=10
  evaluate.py "sqrt(2)" --digits 50
  evaluate.py "0.1 + 0.2 == 0.3"                true

operators: + - * / // % ** and == != < <= > >=; also × ÷ π
functions: {", ".join(FUNCTIONS)}
constants: {", ".join(CONSTANTS)}; angles are in radians: sin(radians(30))
An expression that begins with a minus comes after --, as in: evaluate.py -- "-2**2"
"""


def named(texts: list[str]) -> dict[str, Value]:
    """The values of --let; each may use those before it."""
    names: dict[str, Value] = {}
    for text in texts:
        name, sign, expression = text.partition("=")
        name = name.strip()
        if not sign or not name.isidentifier() or name in FUNCTIONS:
            raise Fault(f"--let: {text[:60]!r} is not NAME=VALUE")
        value = computed(expression, names)
        if isinstance(value, bool):
            raise Fault(f"--let: {name} needs a number")
        names[name] = value
    return names


def main() -> int:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=shape)
    parser.add_argument("expressions", nargs="+", metavar="EXPRESSION")
    parser.add_argument("--let", action="append", default=[], metavar="NAME=VALUE", help="a name for a value")
    parser.add_argument("--digits", type=int, default=20, metavar="N", help="of rounded results (default: 20)")
    parser.add_argument("--full", action="store_true", help="show exact results of any length")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    options = parser.parse_args()
    try:
        prepare(options.digits)
        names = named(options.let)
        found = [(text, computed(text, names)) for text in options.expressions]
    except Fault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return fault.status
    if options.json:
        rows = [
            {"expression": text, **({"result": value} if isinstance(value, bool) else as_data(value, options.digits))}
            for text, value in found
        ]
        print(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
    for text, value in found:
        result = (
            f"is {str(value).lower()}" if isinstance(value, bool) else shown(value, options.digits, full=options.full)
        )
        print(f"{text} {result}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
