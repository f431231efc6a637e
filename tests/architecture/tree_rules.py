"""Rules about files and their places. Each takes paths or texts and returns its violations, worded for a person."""

import ast
import re
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath

from tests.architecture.project import Source

DRAWERS = re.compile(r"_*(utils?|commons?|helpers?|misc|shared)\d*")
MACHINE_PATH = re.compile(r"(?<![\w./~$}-])/(?:work|root|home/(?!user\b|you\b)[a-z_][\w-]*)(?=/)")
DELIBERATE = "a path on purpose"
README_LINES = 150
README_FIRST = ("make demo", "make test")


def drawers(paths: Iterable[str]) -> list[str]:
    """A module is named after a concept; `utils` is a drawer."""
    return [
        f"{path}: {part!r} names no concept; name the noun it is about"
        for path in paths
        for part in PurePosixPath(path).with_suffix("").parts
        if DRAWERS.fullmatch(part)
    ]


def untested(modules: Iterable[Source], tests: Iterable[str], elsewhere: Mapping[str, str]) -> list[str]:
    """`catalog/unpack.py` is tested in `catalog/test_unpack.py`, or in the file that `elsewhere` names.

    A module without statements to run needs no test.
    """
    present = set(tests)
    expected = ((module, elsewhere.get(module.path, mirror_of(module.path))) for module in modules)
    return [
        f"{module.path}: there is no tests/{test}"
        for module, test in expected
        if test not in present and _has_code(module)
    ]


def twin_classes(modules: Iterable[Source]) -> list[str]:
    """No class exists once for waiting and once for awaiting, wherever the two are kept."""
    names = {
        node.name: module.at(node, node.name)
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.ClassDef)
    }
    return [
        f"{place} is the twin of {stem}"
        for name, place in names.items()
        if (stem := re.sub(r"^(Async|Sync)|(Async|Sync)$", "", name)) != name and stem in names
    ]


def cycle(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """The modules of one import cycle, first and last being the same; empty when there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def machine_paths(path: str, text: str) -> list[str]:
    """No file names a place on somebody's machine; a test that needs one says `a path on purpose` on that line."""
    return [
        f"{path}:{number}: names {match.group()}/, a place on somebody's machine"
        for number, line in enumerate(text.splitlines(), 1)
        if (match := MACHINE_PATH.search(line)) and not (path.startswith("tests/") and DELIBERATE in line)
    ]


def impure_pins(path: str, text: str) -> list[str]:
    """Constraints hold names and versions; never where a package came from."""
    pin = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.!+-]+(\s*;.*)?")
    return [
        f"{path}:{number}: {line!r} is not name==version"
        for number, line in enumerate(text.splitlines(), 1)
        if "://" in line or (line.strip() and not line.startswith("#") and not pin.fullmatch(line))
    ]


def addresses(path: str, text: str) -> list[str]:
    """Nothing that pip or another installer reads names a registry."""
    words = re.compile(r"://|--(extra-)?index-url|--find-links|--trusted-host")
    return [
        f"{path}:{number}: names a place to download from"
        for number, line in enumerate(text.splitlines(), 1)
        if words.search(line)
    ]


def readme(text: str) -> list[str]:
    """Short, and the first thing to try comes first."""
    lines = text.splitlines()
    faults = [f"README.md: {len(lines)} lines, {README_LINES} is the most"] if len(lines) > README_LINES else []
    if commands(text)[:2] != list(README_FIRST):
        faults.append(f"README.md: the first two commands are {commands(text)[:2]}, not {list(README_FIRST)}")
    return faults


def commands(markdown: str) -> list[str]:
    """The commands in fenced shell blocks, without prompts and comments."""
    found: list[str] = []
    fence: str | None = None
    for line in markdown.splitlines():
        if line.startswith("```"):
            fence = line.removeprefix("```").strip() if fence is None else None
        elif fence in {"", "bash", "sh", "shell", "console"}:
            found.append(line.removeprefix("$ ").partition(" #")[0].strip())
    return [line for line in found if line and not line.startswith("#")]


def undocumented(names: Iterable[str], reference: str) -> list[str]:
    """Every public name is a heading of the reference or stands there in a code span."""
    lines = reference.splitlines()
    places = [line for line in lines if line.startswith("#")]
    places += [span for line in lines for span in re.findall(r"`([^`]+)`", line)]
    words = {word for place in places for word in re.findall(r"\w+", place)}
    return [f"{name} is in no heading and no code span of docs/reference/" for name in names if name not in words]


def mirror_of(module: str) -> str:
    """The path of the test file of a module."""
    path = PurePosixPath(module)
    return str(path.with_name(f"test_{path.stem}.py"))


def _has_code(module: Source) -> bool:
    return any(_does_something(node) for node in module.nodes)


def _does_something(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return any(not (isinstance(step, ast.Pass) or _is_constant(step)) for step in node.body)


def _is_constant(step: ast.stmt) -> bool:
    return isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant)
