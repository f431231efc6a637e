"""Which counter is used, and how that is said. Pure, but for the import of the exact one."""

from dataclasses import dataclass
from functools import cache

from openskills.errors import MissingExtra
from openskills.tokens import TokenCounter, estimate, exact

ENCODING = "o200k_base"


@dataclass(frozen=True, slots=True)
class Counting:
    """A counter with its name, and whether it agrees with a real tokenizer."""

    count: TokenCounter
    name: str
    exact: bool

    def remembering(self) -> TokenCounter:
        """The counter, which counts each text once: for as long as the result lives it remembers all of them."""
        return cache(self.count)


def estimating() -> Counting:
    """The estimate, which needs nothing."""
    return Counting(estimate, "estimate", exact=False)


def best_counting(encoding: str = ENCODING) -> Counting:
    """The exact counter when it is installed, else the estimate. Raises `InvalidArgument` for an unknown encoding."""
    try:
        return Counting(exact(encoding), encoding, exact=True)
    except MissingExtra:
        return estimating()
