"""Token costs, disclosed when they are needed or all in the prompt: `make bench`.

Renews its section of docs/benchmarks.md, its pictures and its raw numbers with `--write`. For skills of your own:
`openskills token-report --skills DIR`.
"""

import sys

import token_report_growth
import token_report_layers
from suite import COUNTED, Suite, main

SUITE = Suite(
    "token_report",
    "Token costs",
    __doc__,
    "Tokens of a request, 134 skills, mean of all tasks",
    {"layers": token_report_layers.measure, "growth": token_report_growth.measure},
    COUNTED,
    "for skills of your own there is `openskills token-report`",
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
