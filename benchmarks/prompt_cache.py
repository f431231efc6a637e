"""How much of each request a prompt cache has already, ours beside other libraries: `make bench`.

Renews its section of docs/benchmarks.md, its pictures and its raw numbers with `--write`.
"""

import sys

import cache_curves
import cache_modes
from suite import COUNTED, Suite, main

SUITE = Suite(
    "prompt_cache",
    "Prompt cache reuse",
    __doc__,
    "Uncached tokens",
    {"modes": cache_modes.measure, "curves": cache_curves.measure},
    COUNTED,
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
