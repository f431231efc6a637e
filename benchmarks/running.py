"""How quickly commands are run, as ratios measured in one run: `make bench`.

Renews its section of docs/benchmarks.md and docs/benchmarks/running.svg with `--write`.
"""

import sys

import running_collecting
import running_commands
import running_first
import running_growth
import running_held
import running_interactive
import running_staging
import running_warm
from suite import Suite, main

SUITE = Suite(
    "running",
    "Running commands",
    __doc__,
    "Time to run the command true, result and output included",
    {
        "commands": running_commands.measure,
        "first": running_first.measure,
        "staging": running_staging.measure,
        "warm": running_warm.measure,
        "interactive": running_interactive.measure,
        "held": running_held.measure,
        "collecting": running_collecting.measure,
        "growth": running_growth.measure,
    },
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
