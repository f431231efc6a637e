"""What it costs to build requests, and how much of them a prompt cache keeps: `make bench`.

Renews its section of docs/benchmarks.md and docs/benchmarks/context.svg with `--write`.
"""

import sys

import context_building
import context_files
import context_prefix
from suite import Suite, main

SUITE = Suite(
    "context",
    "Building requests",
    __doc__,
    "Time to build a request: 1,000 skills, 10 of them loaded, 40 messages",
    {
        "building": context_building.measure,
        "files": context_files.measure,
        "prefix": context_prefix.measure,
    },
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
