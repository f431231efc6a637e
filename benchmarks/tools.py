"""What the tools of a model cost, as ratios measured in one run: `make bench`.

Renews its section of docs/benchmarks.md and docs/benchmarks/tools.svg with `--write`.
"""

import sys

import tools_calls
import tools_contained
import tools_layers
from suite import Suite, main

SUITE = Suite(
    "tools",
    "Calling tools",
    __doc__,
    "Time of a call of skill_run with the command true",
    {"calls": tools_calls.measure, "contained": tools_contained.measure, "layers": tools_layers.measure},
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
