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
Nothing is timed: each attack is tried once with each executor or library, in a separate process, and its outcome is
counted.""",
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
