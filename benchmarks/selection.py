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
Results are counted over requests and skills in the repository, and are the same in every run. Only query times are
measured, in rounds; their tables show the median and the interquartile range.""",
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
