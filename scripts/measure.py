"""Report how long files and functions are. The goals are in AGENTS.md; only the length of files is a gate."""

import ast
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Print one line per tree, then the longest functions of the package."""
    for name in ("src", "tests", "benchmarks", "scripts"):
        report(name, sorted((ROOT / name).rglob("*.py")))
    print("\nlongest functions of the package")
    longest = sorted(functions(sorted((ROOT / "src").rglob("*.py"))), reverse=True)[:10]
    for length, place in longest:
        print(f"  {length:4} {place}")


def report(name: str, files: Sequence[Path]) -> None:
    """One line: files, their median and longest, functions, their median and ninetieth percentile."""
    lines = [len(file.read_text("utf-8").splitlines()) for file in files]
    lengths = [length for length, _ in functions(files)]
    if not lines:
        return
    print(
        f"{name:11} {len(files):4} files, {sum(lines):6} lines, median {statistics.median(lines):.0f},"
        f" longest {max(lines)}; {len(lengths):4} functions, median {percentile(lengths, 50)},"
        f" p90 {percentile(lengths, 90)}"
    )


def functions(files: Sequence[Path]) -> Iterator[tuple[int, str]]:
    """The length and place of every function."""
    for file in files:
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                yield length, f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"


def percentile(values: Sequence[int], part: int) -> int:
    """The value that `part` percent do not exceed; 0 for no values."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, len(ranked) * part // 100)] if ranked else 0


if __name__ == "__main__":
    main()
