"""Which libraries to compare with are installed, each in its environment below `.bench`, and why others are not."""

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

from reasons import one_line

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent / ".bench"
_PIN = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==")


def peer_versions(bench: Path = BENCH, pins: Path = HERE) -> dict[str, str]:
    """By library that a `*requirements.txt` names: the version that is installed, or the reason why there is none."""
    return dict(_found(bench, pins))


def why_missing(environment: str, bench: Path = BENCH) -> str:
    """Why what belongs into an environment is not there: what its installation said last, as `make peers` keeps it."""
    kept = bench / f"{environment}.reason"
    said = one_line(kept.read_text("utf-8", "replace")) if kept.is_file() else ""
    return f"its installation failed: {said}" if said else "`make peers` installs it where it can"


def _found(bench: Path, pins: Path) -> Iterator[tuple[str, str]]:
    for file in sorted(pins.glob("*requirements.txt")):
        environment = file.name.removesuffix("requirements.txt").removesuffix("_") or "venv"
        there = {_same(one.name): one.version for one in _installed(bench / environment)}
        for name in _PIN.findall(file.read_text("utf-8")):
            yield name, there.get(_same(name)) or f"not installed: {why_missing(environment, bench)}"


def _installed(environment: Path) -> Iterator[Distribution]:
    return iter(distributions(path=[str(one) for one in environment.glob("lib/python3*/site-packages")]))


def _same(name: str) -> str:
    """A name as all of its spellings have it."""
    return re.sub(r"[-_.]+", "-", name).lower()
