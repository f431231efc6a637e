"""A runner as another package would bring it."""

from openskills.host.model import Call, Outcome, Registration, success_outcome
from openskills.settings import Settings


class OwnRunner:
    """Answers with the entry."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def prepare(self, registration: Registration) -> None:
        """Nothing to do."""

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        """The same each time."""
        return success_outcome({"entry": registration.entry, "trace_id": call.trace_id})

    async def forget(self, skill_id: str) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing is kept."""
