"""How often models may be asked in one run, by the agent and by all that work for it."""

from openskills.errors import LimitExceeded


class ModelCalls:
    """Counts the requests of one run. What a callback answers in the place of a model is none."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made = 0

    def one_more(self) -> None:
        """A model is about to be asked. Raises `LimitExceeded` when that is one too many."""
        if self._made >= self._most:
            raise LimitExceeded(
                f"more than {self._most} model calls were wanted in this run; it was ended", limit="model_calls"
            )
        self._made += 1
