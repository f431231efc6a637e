"""The place of every key and value of front matter."""

from openskills.skillmd.fences import Halves
from openskills.skillmd.lines import Lines
from openskills.skillmd.recover import Recovery, record_entries
from openskills.skillmd.value import Place, ValuePath
from openskills.skillmd.yamltree import read_tree

_Span = tuple[int, int, str]


class Places:
    """Collects places while the front matter is read once more; a `Recorder`. Of a key that stands twice, the last."""

    def __init__(self, halves: Halves) -> None:
        self._keys: dict[ValuePath, _Span] = {}
        self._values: dict[ValuePath, _Span] = {}
        self._lines = Lines(halves.front or "")
        self._line = halves.front_line - 1
        self._start = halves.front_start

    def key_at(self, path: ValuePath) -> Place | None:
        """Where a key stands."""
        return self._place(self._keys.get(path))

    def value_at(self, path: ValuePath) -> Place | None:
        """Where a value stands."""
        return self._place(self._values.get(path))

    def key(self, path: ValuePath, start: int, end: int, style: str) -> None:
        """Note where a key stands."""
        self._keys[path] = (start, end, style)

    def value(self, path: ValuePath, start: int, end: int, style: str) -> None:
        """Note where a scalar stands, or where a list or map begins."""
        self._values[path] = (start, end, style)

    def close(self, path: ValuePath, end: int) -> None:
        """Note where a list or map ends."""
        begun = self._values.get(path)
        if begun is not None:
            self._values[path] = (begun[0], end, begun[2])

    def _place(self, span: _Span | None) -> Place | None:
        if span is None:
            return None
        start, end, style = span
        line, column = self._lines.at(start)
        return Place(self._line + line, column, self._start + start, self._start + end, style)


def find_places(halves: Halves, recovery: Recovery | None) -> Places:
    """Where everything stands in front matter that could be read, by itself or by this recovery."""
    places = Places(halves)
    if recovery is None:
        read_tree(halves.front or "", places)
    else:
        record_entries(halves.front or "", recovery, places)
    return places
