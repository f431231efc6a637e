"""How quickly skills are found, by us and by other libraries: `make bench`.

Renews its section of docs/benchmarks.md and docs/benchmarks/discovery.svg with `--write`.
"""

import sys

import discovery_finding
import discovery_keys
import discovery_others
from suite import Suite, main

SUITE = Suite(
    "discovery",
    "Finding skills",
    __doc__,
    "Time to find 5,000 skills",
    {
        "finding": discovery_finding.measure,
        "others": discovery_others.measure,
        "keys": discovery_keys.measure,
    },
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
