"""The benchmarks of a checkout of this project: where they are, and what each measures. Blocking reads."""

import ast
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from openskills.errors import InvalidArgument

_SECTIONS = "_SECTIONS"
ALIASES = {"request-building": "context"}
"""Other names of benchmarks."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A script, the name by which it is called, and the first line of what it says about itself."""

    name: str
    script: Path
    about: str


@dataclass(frozen=True, slots=True)
class Checkout:
    """A directory `benchmarks`, and what is in it, in the order of the page."""

    directory: Path
    benchmarks: tuple[Benchmark, ...]

    def find(self, name: str) -> Benchmark:
        """The benchmark of this name, with dashes or underscores. Raises `InvalidArgument` that says what there is."""
        wanted = name.replace("_", "-")
        wanted = ALIASES.get(wanted, wanted)
        for benchmark in self.benchmarks:
            if benchmark.name == wanted:
                return benchmark
        names = [benchmark.name for benchmark in self.benchmarks]
        near = get_close_matches(wanted, [*names, *(one for one, meant in ALIASES.items() if meant in names)], 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        raise InvalidArgument("name", f"there is no benchmark {name!r} in {self.directory}; {hint}")


def find_checkout(here: Path) -> Checkout | None:
    """The checkout that `here` is in, else the one that this package is run from; None when there is neither."""
    package = Path(__file__).resolve().parents[1]
    for top in (here, *here.parents, *package.parents[1:2]):
        directory = top / "benchmarks"
        if (directory / "suite.py").is_file() and (top / "src" / "openskills").is_dir():
            return Checkout(directory, tuple(_find_benchmarks(directory)))
    return None


def build_command(benchmark: Benchmark, options: list[str]) -> list[str]:
    """The command line that runs it in this interpreter's environment."""
    return [sys.executable, str(benchmark.script), *options]


def _find_benchmarks(directory: Path) -> list[Benchmark]:
    """Those that have a section of the page and a script."""
    scripts = [(name, directory / f"{name}.py") for name in _read_sections(directory / "report.py")]
    return [
        Benchmark(name.replace("_", "-"), script, _parse_summary(script.read_text("utf-8")))
        for name, script in scripts
        if script.is_file()
    ]


def _read_sections(report: Path) -> list[str]:
    """The sections that the page has, as its writer lists them; read and not run."""
    for node in ast.parse(report.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id == _SECTIONS for one in node.targets
        ):
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def _parse_summary(text: str) -> str:
    said = ast.get_docstring(ast.parse(text)) or ""
    return said.partition("\n")[0].partition(": `make bench`")[0]
