"""Which modules of the standard library a script imports, so that they can be loaded once for all its calls. Pure."""

import ast
import sys
from collections.abc import Iterable, Iterator

from openskills.executors.processes.warm_protocol import is_module_name

_ALWAYS = ("json", "re")
_OURS = "openskills.skillkit"
_NOT_AHEAD = frozenset(
    {
        # They show windows or pages, change the terminal, or belong to those who develop Python.
        *("antigravity", "this", "turtle", "turtledemo", "tkinter", "idlelib", "curses", "readline", "rlcompleter"),
        *("test", "lib2to3", "pydoc_data", "__main__", "__future__", "__hello__", "__phello__", "site", "venv"),
    }
)
_MOST = 64


def modules_ahead(source: bytes) -> tuple[str, ...]:
    """What a script imports of the standard library, and of ours for skills; nothing of what cannot be read."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    wanted = (name for name in _imported(tree) if _is_wanted(name))
    return tuple(dict.fromkeys((*_ALWAYS, *wanted)))[:_MOST]


def worth_loading(names: Iterable[str]) -> tuple[str, ...]:
    """Those that can be loaded ahead of modules that a call says it has imported: whoever calls may say anything."""
    return tuple(name for name in names if is_module_name(name) and _is_wanted(name))[:_MOST]


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _is_wanted(name: str) -> bool:
    top = name.partition(".")[0]
    standard = top in sys.stdlib_module_names and top not in _NOT_AHEAD
    return standard or name == _OURS or name.startswith(f"{_OURS}.")
