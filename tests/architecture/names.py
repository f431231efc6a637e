"""Which dotted names a source file imports and uses, whatever it calls them."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase

from tests.architecture.project import Source


def imported(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Every imported module or member as a dotted name: `os`, `os.path`, `asyncio.create_subprocess_exec`."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield node, f"{node.module}.{alias.name}"


def used(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Every imported name, and every attribute reached from one: `o.environ` after `import os as o` is `os.environ`."""
    meanings = _meanings(source)
    yield from imported(source)
    for node in source.nodes:
        if isinstance(node, ast.Attribute):
            dotted = _dotted(node)
            first, _, rest = dotted.partition(".")
            if first in meanings:
                yield node, f"{meanings[first]}.{rest}"


def uses_of(source: Source, patterns: tuple[str, ...]) -> list[str]:
    """A violation for every used name that matches a pattern, or lies under it; one per line of code."""
    found = {
        source.at(node, name): None
        for node, name in used(source)
        if any(fnmatchcase(name, pattern) or fnmatchcase(name, pattern + ".*") for pattern in patterns)
    }
    return list(found)


def _meanings(source: Source) -> dict[str, str]:
    meanings: dict[str, str] = {}
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                meanings[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                meanings[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return meanings


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"
