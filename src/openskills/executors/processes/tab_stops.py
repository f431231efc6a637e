"""Where tabs lead to on a line of a terminal. Pure data."""

_USUAL = b"\1" + bytes(7)


class TabStops:
    """The columns with a tab stop: every eighth one at first."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._stops = bytearray(_USUAL * (columns // len(_USUAL) + 1))[:columns]

    def after(self, column: int, count: int) -> int:
        """The column after `count` tabs; the last one when there are fewer stops."""
        for _ in range(min(count, self._columns)):
            column = self._stops.find(1, column + 1)
            if column < 0:
                return self._columns - 1
        return column

    def before(self, column: int, count: int) -> int:
        """The column after `count` tabs backwards; the first one when there are fewer stops."""
        for _ in range(min(count, self._columns)):
            column = self._stops.rfind(1, 0, column)
            if column < 0:
                return 0
        return column

    def set(self, column: int) -> None:
        """Make a column a stop."""
        self._stops[column] = 1

    def clear(self, column: int) -> None:
        """Let a column be no stop."""
        self._stops[column] = 0

    def clear_all(self) -> None:
        """Let no column be a stop."""
        self._stops = bytearray(self._columns)
