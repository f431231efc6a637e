"""How quickly skills are found, as ratios measured in one run: `make bench`.

Every measurement is a fresh process; rounds are interleaved so that a busy moment of the machine hits everybody, and
the best of the rounds counts. `--write` renews its section of docs/benchmarks.md and docs/benchmarks/discovery.svg.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from baseline import regressions, stored
from discovery_page import write_discovery
from report import Target, promises
from suite import write_numbers

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
OURS = sys.executable
PEERS = ROOT / ".bench" / "venv" / "bin" / "python"


def probe(name: str, skills: Path, *, peer: bool = False, cache: Path | None = None) -> dict[str, Any]:
    """Run one measurement in a fresh process; adds the wall time of the whole process as `process`."""
    environment = {"HOME": str(cache or skills.parent), "PATH": os.defpath, "PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}
    if cache:
        environment["PROBE_CACHE"] = str(cache)
    begin = time.perf_counter()
    done = subprocess.run(
        [str(PEERS if peer else OURS), str(HERE / "probe.py"), name, str(skills)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    return {**json.loads(done.stdout.splitlines()[-1]), "process": wall}


def measure(count: int, rounds: int) -> dict[str, dict[str, Any]]:
    """The best of `rounds` for every probe, by its name; names that end in `_json` are of JSON-style metadata."""
    with tempfile.TemporaryDirectory(prefix="openskills-bench-") as scratch:
        skills, json_style, cache = (Path(scratch) / name for name in ("skills", "json-style", "cache"))
        make = [OURS, str(HERE / "corpus.py"), "--count", str(count)]
        subprocess.run([*make, str(skills)], check=True)
        subprocess.run([*make, str(json_style), "--json-style"], check=True)
        cache.mkdir()
        probe("openskills_indexed", skills, cache=cache)  # writes the index that later processes find
        best: dict[str, dict[str, Any]] = {}
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for name in ("bare", "files_read", "openskills_first", "openskills_keys"):
                keep(best, name, probe(name, skills))
            keep(best, "openskills_indexed", probe("openskills_indexed", skills, cache=cache))
            keep(best, "deepagents", probe("deepagents", skills, peer=True))
            keep(best, "openskills_first_json", probe("openskills_first", json_style))
            keep(best, "deepagents_json", probe("deepagents", json_style, peer=True))
            if number == 0:
                keep(best, "skills_ref", probe("skills_ref", skills, peer=True))
                keep(best, "skills_ref_keys", probe("skills_ref_keys", skills, peer=True))
        return best


def keep(best: dict[str, dict[str, Any]], name: str, measured: dict[str, Any]) -> None:
    """Take every number of `measured` that is better than what was known."""
    known = best.setdefault(name, measured)
    for key, value in measured.items():
        known[key] = min(known[key], value) if key != "found" else value


def targets(best: dict[str, dict[str, Any]]) -> list[Target]:
    """What we promise, and what was measured."""
    ours, peer = best["openskills_first"], best["deepagents"]
    indexed = best["openskills_indexed"]
    memory = (ours["peak_kb"] - best["bare"]["peak_kb"]) / 1024
    keys = best["openskills_keys"]
    files = best["files_read"]["seconds"]
    first, json_style = ours["seconds"], best["openskills_first_json"]["seconds"]
    return [
        Target("first discovery, faster than deepagents", peer["seconds"] / first, 5),
        Target("first discovery, faster than skills-ref validates", best["skills_ref"]["seconds"] / first, 20),
        Target("unchanged refresh, faster than the first discovery", first / ours["refresh"], 10),
        Target("new process with the index, faster than deepagents", peer["seconds"] / indexed["seconds"], 20),
        Target("first discovery, times of only reading the files", first / files, 8, at_least=False),
        Target("peak memory over a bare interpreter", memory, 60, at_least=False, unit="MB"),
        Target("4,000 keys against 80", keys["many"] / keys["few"], 50, at_least=False),
        Target(
            "JSON-style metadata in two of five: faster than deepagents",
            best["deepagents_json"]["seconds"] / json_style,
            5,
        ),
    ]


def main() -> int:
    """Measure, print, and with `--write` renew the documents. Exit 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="how many skills")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a rough look: 500 skills, one round, nothing is written")
    parser.add_argument("--write", action="store_true", help="renew the section of docs/benchmarks.md and its picture")
    parser.add_argument("--json", action="store_true", help="print the raw numbers")
    parser.add_argument("--accept", action="store_true", help="write ratios that are worse than the stored ones, too")
    options = parser.parse_args()
    if options.quick:
        options.count, options.rounds = 500, 1
    best = measure(options.count, options.rounds)
    if options.json:
        print(json.dumps(best, indent=2))
    found = targets(best)
    print(promises(found))
    worse = [] if options.quick else regressions(stored(ROOT / "docs", "discovery"), found)
    for one in worse:
        print(f"{'accepted' if options.accept else 'WORSE'}: {one}", file=sys.stderr)
    if options.write and not options.quick and (options.accept or not worse):
        write_discovery(ROOT / "docs", options.count, found, best)
        write_numbers(ROOT / "docs", "discovery", found, best)
    return 1 if any(target.broken for target in found) or (worse and not options.accept) else 0


if __name__ == "__main__":
    sys.exit(main())
