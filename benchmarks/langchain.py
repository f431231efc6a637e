"""What skills cost in agents of LangChain and deepagents, as ratios measured in one run: `make bench`.

Renews its section of docs/benchmarks.md and docs/benchmarks/langchain.svg with `--write`.
"""

import sys

# This file has the name of the library that it measures: looked for last, it is in nobody's way.
sys.path.append(sys.path.pop(0))

import langchain_calls
import langchain_discovery
import langchain_prefix
import langchain_state
from suite import Suite, main

SUITE = Suite(
    "langchain",
    "LangChain and deepagents",
    __doc__,
    "Time to find 1,000 skills at the beginning of a thread",
    {
        "discovery": langchain_discovery.measure,
        "calls": langchain_calls.measure,
        "state": langchain_state.measure,
        "prefix": langchain_prefix.measure,
    },
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
