#!/usr/bin/env python3
"""Solve linear equations and systems of them, and one quadratic equation, exactly.

Exit status: 0 solved, 1 there is no solution, 2 wrong argument or an equation of another kind.
"""

from __future__ import annotations

import argparse
import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

# The parts lie beside this file, and the folder of a skill stays as it is.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from exact.polynomial import Polynomial, degree, equation, unknowns  # noqa: E402
from exact.solutions import Lines, linear, quadratic  # noqa: E402
from exact.values import Fault, as_data, prepare, shown  # noqa: E402

EXAMPLES = """examples:
  solve.py "3x + 4 = 10"
  solve.py "2x + 3y = 5" "x - y = 1/2"
  solve.py "x^2 - x - 1 = 0"                    both roots, exact and rounded; imaginary ones, too
  solve.py "a + b = 10" "b + c = 12" "a + c = 8" --json

The sign of multiplication may be left out (2x, 3(y - 1)); ^ and ² are powers. Names of unknowns are words.
An equation that begins with a minus comes after --, as in: solve.py -- "-x = 3"
"""
MAX_EQUATIONS = 50


def solved(texts: list[str], digits: int) -> dict[str, Any]:
    """`kind` is one, two, none or infinite; `solutions` is a list of values by name."""
    if len(texts) > MAX_EQUATIONS:
        raise Fault(f"equation: more than {MAX_EQUATIONS}")
    equations = [equation(text) for text in texts]
    names = unknowns(texts)
    if len(names) > MAX_EQUATIONS:
        raise Fault(f"equation: more than {MAX_EQUATIONS} unknowns")
    highest = max(map(degree, equations))
    if highest <= 1:
        return told(linear(equations, names), digits)
    if highest == 2 and len(equations) == len(names) == 1:
        return roots(equations[0], names[0], digits)
    raise Fault("equation: only linear systems, and one quadratic equation with one unknown, can be solved here")


def told(lines: Lines, digits: int) -> dict[str, Any]:
    if not lines.solvable:
        return {"kind": "none", "solutions": []}
    if lines.free:
        general = {name: formula(parts) for name, parts in lines.found.items()}
        return {"kind": "infinite", "solutions": [], "free": list(lines.free), "general": general}
    values = {name: parts[""] for name, parts in lines.found.items()}
    solution = {name: as_data(value, digits) for name, value in values.items()}
    said = {name: shown(value, digits) for name, value in values.items()}
    return {"kind": "one", "solutions": [solution], "said": [said]}


def formula(parts: dict[str, Fraction]) -> str:
    """A number and parts of free unknowns, as text."""
    text = str(parts[""]) if parts[""] or len(parts) == 1 else ""
    for name, factor in parts.items():
        if name:
            size = "" if abs(factor) == 1 else f"{abs(factor)}*"
            text += (f" {'-' if factor < 0 else '+'} " if text else "-" if factor < 0 else "") + size + name
    return text


def roots(polynomial: Polynomial, name: str, digits: int) -> dict[str, Any]:
    found = quadratic(polynomial, name)
    solutions = [{name: {"exact": root.exact(), "decimal": root.decimal(digits)}} for root in found]
    said = [
        {name: shown(root.middle, digits) if not root.side else f"= {root.exact()} ≈ {root.decimal(digits)}"}
        for root in found
    ]
    return {"kind": "one" if len(found) == 1 else "two", "solutions": solutions, "said": said}


def printed(result: dict[str, Any]) -> list[str]:
    if result["kind"] == "none":
        return ["no solution: the equations contradict each other"]
    if result["kind"] == "infinite":
        first = f"infinitely many solutions; {', '.join(result['free'])} can be any number"
        return [first, *(f"{name} = {text}" for name, text in result["general"].items())]
    rows = [f"{name} {value}" for solution in result["said"] for name, value in solution.items()]
    return rows or ["true: there is nothing to find"]


def main() -> int:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=shape)
    parser.add_argument("equations", nargs="+", metavar="EQUATION")
    parser.add_argument("--digits", type=int, default=20, metavar="N", help="of rounded results (default: 20)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    try:
        prepare(options.digits)
        result = solved(options.equations, options.digits)
    except Fault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return fault.status
    if options.json:
        result.pop("said", None)
        print(json.dumps(result, ensure_ascii=False, indent=2))
    else:
        print(*printed(result), sep="\n")
    return 1 if result["kind"] == "none" else 0


if __name__ == "__main__":
    sys.exit(main())
