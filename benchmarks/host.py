"""What the HTTP skill host can serve, as ratios measured in one run: `make bench`.

Renews its section of docs/benchmarks.md and docs/benchmarks/host.svg with `--write`.
"""

import sys

import host_load
import host_memory
from suite import Suite, main

SUITE = Suite(
    "host",
    "Hosting skills",
    __doc__,
    "Time for each call at 8 connections",
    {"load": host_load.measure, "memory": host_memory.measure},
    """\
The hosts run in rounds, one after the other. Tables show the median of the rounds, and the lowest and the highest.""",
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
