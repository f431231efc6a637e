"""An expression as people and programs write it, computed step by step from its syntax tree. Nothing is executed."""

from __future__ import annotations

import ast
import decimal
import difflib
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Union

from exact.functions import CONSTANTS, FUNCTIONS, power
from exact.values import Fault, Value, approximate, bounded, exact_number, settled

MAX_LENGTH = 4000
Result = Union[Value, bool]  # noqa: UP007 - Python 3.9

SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "（": "(", "）": ")", "，": ",", "π": "pi"})
COMPARE: dict[type[ast.cmpop], Callable[[Value, Value], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def computed(text: str, names: Mapping[str, Value] | None = None) -> Result:
    """The value of an expression. Raises `Fault` for what is none, cannot be computed, or would be too large."""
    if len(text) > MAX_LENGTH:
        raise Fault(f"expression: more than {MAX_LENGTH:,} characters")
    source = " ".join(text.translate(SIGNS).split())
    try:
        tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Fault(f"expression: {text[:60]!r} cannot be read: {getattr(error, 'msg', error)}") from None
    try:
        return Evaluation(source, names or {}).any(tree.body)
    except RecursionError:
        raise Fault("expression: it is nested too deeply") from None
    except (decimal.DecimalException, OverflowError):
        raise Fault("the result is too large, or not defined") from None
    except ZeroDivisionError:
        raise Fault("division by zero") from None


class Evaluation:
    """One walk through one tree."""

    def __init__(self, source: str, names: Mapping[str, Value]) -> None:
        self.source = source.encode()
        self.names = names

    def any(self, node: ast.expr) -> Result:
        if not isinstance(node, ast.Compare):
            return self.value(node)
        values = [self.value(one) for one in (node.left, *node.comparators)]
        pairs = zip(node.ops, values, values[1:])  # noqa: B905 - Python 3.9
        return all(compared(one, left, right) for one, left, right in pairs)

    def value(self, node: ast.expr) -> Value:
        if isinstance(node, ast.BinOp):
            return self.chain(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
            found = self.value(node.operand)
            return -found if isinstance(node.op, ast.USub) else found
        if isinstance(node, ast.Constant):
            return self.constant(node)
        if isinstance(node, ast.Name):
            return self.named(node.id)
        if isinstance(node, ast.Call):
            return self.call(node)
        raise Fault(f"expression: {self.text(node)!r} is nothing that can be computed here")

    def chain(self, node: ast.expr) -> Value:
        """A long sum leans to the left; it is worked off without going deep."""
        waiting: list[ast.BinOp] = []
        while isinstance(node, ast.BinOp):
            waiting.append(node)
            node = node.left
        found = self.value(node)
        for one in reversed(waiting):
            found = combined(one.op, found, self.value(one.right))
        return found

    def constant(self, node: ast.Constant) -> Value:
        if type(node.value) is int:
            return bounded(Fraction(node.value))
        if type(node.value) is float:
            # As it is written: 0.1 is one tenth.
            return exact_number(self.text(node), "expression")
        raise Fault(f"expression: {self.text(node)!r} is not a number")

    def named(self, name: str) -> Value:
        if name in self.names:
            return self.names[name]
        if name in CONSTANTS:
            return CONSTANTS[name]()
        known = [*self.names, *CONSTANTS]
        raise Fault(f"expression: {name!r} is not known{nearest(name, known)}; give it a value with --let {name}=…")

    def call(self, node: ast.Call) -> Value:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS:
            known = ", ".join(FUNCTIONS)
            raise Fault(f"expression: unknown function {self.text(node.func)!r}; use one of {known}")
        fewest, most, function = FUNCTIONS[name]
        if node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
            raise Fault(f"{name}: write its arguments as plain values")
        if not fewest <= len(node.args) <= most:
            hint = "; say ln(x), log10(x) or log(x, base)" if name == "log" else ""
            raise Fault(f"{name}: {len(node.args)} arguments, where {fewest} to {most} are needed{hint}")
        return limited(function(*(self.value(one) for one in node.args)))

    def text(self, node: ast.expr) -> str:
        part = self.source[node.col_offset : node.end_col_offset].decode("utf-8", "replace")
        return part if len(part) <= MAX_LENGTH else part[:60]


def combined(sign: ast.operator, left: Value, right: Value) -> Value:
    """Two numbers and what stands between them."""
    if isinstance(sign, ast.Pow):
        return limited(power(left, right))
    plain: dict[type[ast.operator], Callable[..., Value]] = {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: lambda one, two: Fraction((Fraction(one) / Fraction(two)).__floor__()),
        ast.Mod: lambda one, two: one - two * (Fraction(one) / Fraction(two)).__floor__(),
    }
    if type(sign) not in plain:
        hint = "; write ** for a power" if isinstance(sign, ast.BitXor) else ""
        raise Fault(f"expression: unsupported operator {type(sign).__name__}{hint}")
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return bounded(plain[type(sign)](left, right))
    one, two = approximate(left), approximate(right)
    found = plain[type(sign)](one, two)
    if isinstance(sign, (ast.Add, ast.Sub)) and isinstance(found, Decimal):
        return settled(found, max(abs(one), abs(two)))
    return limited(found)


def compared(sign: ast.cmpop, left: Value, right: Value) -> bool:
    if type(sign) not in COMPARE:
        raise Fault("expression: numbers are compared with ==, !=, <, <=, > and >=")
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return COMPARE[type(sign)](left, right)
    one, two = approximate(left), approximate(right)
    return COMPARE[type(sign)](settled(one - two, max(abs(one), abs(two))), Decimal(0))


def limited(value: Value) -> Value:
    return bounded(value) if isinstance(value, Fraction) else value


def nearest(name: str, known: list[str]) -> str:
    found = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {found[0]!r}?" if found else ""
