"""Watch the directories of a catalog in a thread, and refresh it when they change."""

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

from openskills.catalog.root import Root
from openskills.catalog.snapshot import CatalogChanges

# The events of one save or one checkout come within this time and cause one refresh.
_DEBOUNCE_MS = 150
_LOOK_FOR_NEW_ROOTS_MS = 500

_RootState = tuple[Path, str, int, int]


class CatalogWatcher:
    """Calls `refresh` when the directories of a catalog change, until it is closed. Use it in a `with` statement.

    Roots that appear later are watched too. `error` is the last error: of `on_change`, after which watching continues,
    or of the file system, which ends it.
    """

    def __init__(
        self,
        list_roots: Callable[[], Iterable[Root]],
        refresh: Callable[[], CatalogChanges],
        on_change: Callable[[CatalogChanges], None] | None = None,
    ) -> None:
        self._list_roots = list_roots
        self._refresh_catalog = refresh
        self._on_change = on_change
        self._stop = threading.Event()
        self._started = threading.Event()
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="openskills-watch", daemon=True)
        self._thread.start()
        self._started.wait()

    def close(self) -> None:
        """Stop watching and wait for the thread to end. Safe to call twice."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._watch_roots(self._read_root_states())
        except OSError as error:
            self.error = error
        finally:
            self._started.set()

    def _watch_roots(self, places: frozenset[_RootState]) -> None:
        """Watch until the existing directories differ from `places`."""
        from watchfiles import watch

        if not places:
            self._started.set()
            self._stop.wait(_LOOK_FOR_NEW_ROOTS_MS / 1000)
            self._refresh()
            return
        unseen = True
        for changes in watch(
            *(path for path, *_ in places),
            stop_event=self._stop,
            step=50,
            debounce=_DEBOUNCE_MS,
            rust_timeout=_LOOK_FOR_NEW_ROOTS_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
        ):
            # Changes before the watch began were not reported.
            if changes or unseen:
                self._refresh()
            unseen = False
            self._started.set()
            if self._read_root_states() != places:
                self._refresh()
                return

    def _refresh(self) -> None:
        changes = self._refresh_catalog()
        if changes and self._on_change is not None:
            try:
                self._on_change(changes)
            except Exception as error:  # noqa: BLE001
                # An error of the caller's function must not end the watching.
                self.error = error

    def _read_root_states(self) -> frozenset[_RootState]:
        """The existing roots with their identity: a folder that was replaced must be watched again."""
        places: set[_RootState] = set()
        for root in self._list_roots():
            with suppress(OSError):
                if root.watch and root.path.is_dir():
                    status = root.path.stat()
                    places.add((root.path, os.path.realpath(root.path), status.st_dev, status.st_ino))
        return frozenset(places)
