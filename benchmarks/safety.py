"""What hostile commands get hold of, under our executors and under others: `make bench`.

Renews its section of docs/benchmarks.md with `--write`.
"""

import sys

import safety_endings
import safety_probes
from suite import Suite, main

SUITE = Suite(
    "safety",
    "Hostile commands",
    __doc__,
    "",
    {"probes": safety_probes.measure, "endings": safety_endings.measure},
    """\
Nothing here is timed: each attack is tried once in each place, in a process of its own, and what is counted is how it
ended.""",
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
