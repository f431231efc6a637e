"""The `/etc` of a backend's sandboxes: made when it is first needed, and held as long as the backend lives."""

import os
from pathlib import Path

from openskills.artifacts.threads import to_the_end
from openskills.executors.across_loops import AcrossLoops
from openskills.executors.sandbox.etc_entries import Entries, etc_entries
from openskills.executors.sandbox.etc_store import EtcStore


class HeldEtc:
    """One directory for each store; `more` is what it holds besides the usual things."""

    def __init__(self, more: Entries) -> None:
        self._more = more
        self._entries: Entries | None = None
        self._held: dict[Path, int] = {}
        self._replaced: list[int] = []
        self._opening = AcrossLoops()

    async def descriptor(self, store: Path) -> int:
        """The directory in this store; it stays ours. A new one when somebody has removed it.

        Raises `ExecutorUnavailable` when it cannot be made.
        """
        found = self._held.get(store)
        if found is not None and not _is_gone(found):
            return found
        async with self._opening:
            found = self._held.get(store)
            if found is None or _is_gone(found):
                self._held[store] = await to_the_end(lambda: EtcStore(store).open(self._all()), undo=os.close)
                if found is not None:
                    # Somebody may be about to hand it on.
                    self._replaced.append(found)
            return self._held[store]

    def close(self) -> None:
        """Let all of them go."""
        for descriptor in (*self._held.values(), *self._replaced):
            os.close(descriptor)
        self._held.clear()
        self._replaced.clear()

    def _all(self) -> Entries:
        if self._entries is None:
            self._entries = etc_entries(self._more)
        return self._entries


def _is_gone(descriptor: int) -> bool:
    return os.fstat(descriptor).st_nlink == 0
