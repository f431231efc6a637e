"""How long work tells whoever waits for it that it goes on."""

from typing import Protocol


class Progress(Protocol):
    """Called now and then with what is being done, how much is done, and the whole if it is known."""

    def __call__(self, what: str, done: int, total: int | None) -> None: ...


def silent(what: str, done: int, total: int | None) -> None:
    """Progress for those who do not watch."""
