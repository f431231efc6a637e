"""What every format makes of a line."""

from typing import Any

Record = dict[str, Any]
"""`line_no`, `timestamp`, `level`, `message`, and what else the format has."""

BASE = ("line_no", "timestamp", "level", "message")
"""What every record has, in this order."""


def record(timestamp: str | None, level: str | None, message: str, **more: Any) -> Record:
    """A record; its number is put in when it is kept."""
    return {"line_no": 0, "timestamp": timestamp, "level": level, "message": message, **more}
