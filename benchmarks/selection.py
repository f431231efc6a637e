"""How well the right skill is found, and how often a skill is activated that nobody needs: `make bench`.

Renews its section of docs/benchmarks.md and docs/benchmarks/selection*.svg with `--write`.
"""

import sys

import selection_deciding
import selection_finding
import selection_speed
from suite import Suite, main

SUITE = Suite(
    "selection",
    "Choosing a skill",
    __doc__,
    "Time of a query, with the larger number of skills",
    {
        "finding": selection_finding.measure,
        "deciding": selection_deciding.measure,
        "speed": selection_speed.measure,
    },
    """\
What is found and what is activated is counted, over requests and skills that are in the repository, and is the same in
every run. Only the speed is timed, in turns: there the median counts, and the quartiles say how far to trust it.""",
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
