"""Where things are in this repository, and how the rules read them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "openskills"
TESTS = ROOT / "tests"

_NOT_OURS = {"__pycache__", "node_modules", "dist", "build", "fixtures", "tmp"}
_HIDDEN_BUT_OURS = {".ci", ".github", ".gitignore", ".editorconfig"}


@dataclass(frozen=True)
class Source:
    """A Python file as a rule sees it: its path relative to the tree it belongs to, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed text."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Everything in the tree."""
        return tuple(ast.walk(self.tree))

    def at(self, node: ast.AST, what: str) -> str:
        """A violation: file, line, and what is wrong."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {what}"


@cache
def package_sources() -> list[Source]:
    """Every module of the package, with paths such as `catalog/unpack.py`."""
    return _sources(PACKAGE)


def tool_sources() -> list[Source]:
    """Every Python file beside the package and the tests: benchmarks, examples, scripts and hosted skills."""
    return [source for name in ("benchmarks", "examples", "scripts", "skills_cli") for source in _sources(ROOT / name)]


def sources_of_tests() -> list[Source]:
    """Every Python file of the tests, with paths such as `catalog/test_unpack.py`."""
    return _sources(TESTS)


def texts() -> Iterator[tuple[str, str]]:
    """Path and content of every text file that is ours; fixtures are other people's words."""
    for path in _walk(ROOT):
        content = path.read_bytes()
        if b"\0" not in content:
            yield path.relative_to(ROOT).as_posix(), content.decode("utf-8", errors="replace")


def _sources(root: Path) -> list[Source]:
    files = (path for path in _walk(root) if path.suffix == ".py")
    return [Source(path.relative_to(root).as_posix(), path.read_text("utf-8")) for path in files]


def _walk(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        if path.name in _NOT_OURS or (path.name.startswith(".") and path.name not in _HIDDEN_BUT_OURS):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        elif path.is_file():
            yield path
