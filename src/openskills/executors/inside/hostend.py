"""Ends the process of a call as the interpreter would, at a tenth of the price when there is nothing unusual about it.

A part of `hostmother.py`: it runs in the interpreter of a skill, so it imports nothing of ours.
"""

from __future__ import annotations

import _thread
import atexit
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    # At run time all parts are in one namespace.
    from openskills.executors.inside.forkend import Attempt, QuickEnd  # noqa: TC004

_threads: Callable[[], int] = vars(_thread)["_count"]
_callbacks: Callable[[], int] = vars(atexit)["_ncallbacks"]
_YOUNG, _ALL = 0, 2


class CallEnd(QuickEnd):
    """What is done last in the process of a call."""

    def __init__(self) -> None:
        super().__init__()
        self._modules = 0
        self._registered = 0
        self.tell: Callable[[list[str]], None] | None = None

    def prepare(self, work: list[Any]) -> None:
        """This work will be done; all modules but the main one are loaded."""
        super().prepare(work)
        self._modules = len(sys.modules)
        self._registered = _callbacks()

    def leave(self, error: SystemExit | None) -> None:
        """The script has come to its end, or asked for it. Returns when the interpreter has to see to it itself."""
        if error is not None:
            self.failed()
            if not (error.code is None or isinstance(error.code, int)):
                # It is a message, to be printed.
                return
            error.__traceback__ = None
        if _threads() or self._imported_others() or _callbacks() != self._registered or not _written():
            return
        names: dict[str, Any] = self._work[2]
        self._work.clear()
        # Files that nobody closed are written now, as at the end of an interpreter.
        names.clear()
        # When the collector has never run here, all that this call has made is young.
        gc.collect(_ALL if any(gc.get_count()[1:]) else _YOUNG)
        if _written():
            os._exit(self._status)

    def _imported_others(self) -> bool:
        """Whether modules were imported that may want to be taken down; those of Python itself do not.

        Which those were is told: the next calls can have them ready.
        """
        if len(sys.modules) == self._modules or self._loaded is None:
            return False
        new = [name for name in sys.modules if name not in self._loaded and name != "__main__"]
        if self.tell is not None:
            self.tell(new)
        return any(name.partition(".")[0] not in sys.stdlib_module_names for name in new)


def _written() -> bool:
    """Whether everything that was printed is written; when not, the interpreter is to find out and complain."""
    with Attempt() as attempt:
        sys.stdout.flush()
        sys.stderr.flush()
    return not attempt.failed
