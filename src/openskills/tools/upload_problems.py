"""Files of a conversation that are no use, and why: few sentences, however many files. Pure."""

from dataclasses import dataclass, field

NAMED = 3
"""So many files are named for one reason; the others are counted."""
MOST = 10
"""So many reasons are told; for the others, the files are counted."""


@dataclass(slots=True)
class _Files:
    """Those that are no use for one reason."""

    names: list[str] = field(default_factory=list[str])
    count: int = 0


class Problems:
    """What is wrong with files, by reason."""

    def __init__(self) -> None:
        self._by_reason: dict[str, _Files] = {}

    def add(self, name: str, reason: str) -> None:
        """One more file; `name` is as it can be shown."""
        files = self._by_reason.setdefault(reason, _Files())
        files.count += 1
        if len(files.names) < NAMED:
            files.names.append(name)

    def sentences(self) -> tuple[str, ...]:
        """One for each reason, in the order in which they were met."""
        told = [_sentence(files, reason) for reason, files in self._by_reason.items()]
        rest = sum(files.count for files in list(self._by_reason.values())[MOST:])
        return (*told[:MOST], *([f"{rest:,} more files of the conversation are not there"] if rest else []))


def _sentence(files: _Files, reason: str) -> str:
    names = ", ".join(files.names)
    more = files.count - len(files.names)
    if more:
        names = f"{names} and {more:,} more"
    return f"{names} of the conversation {'is' if files.count == 1 else 'are'} not there: {reason}"
