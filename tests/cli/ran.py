"""How a command ended, and how long a test waits for that."""

import json
import re
from dataclasses import dataclass
from typing import Any

TIMEOUT = 60.0
"""Seconds after which a test gives up on a command that should have ended."""


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it wrote; on a terminal `out` holds both streams unless stdout was a pipe."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What was written for a program."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """The lines of the answer, without what gives them style."""
        return re.sub("\x1b\\[[0-9;]*m", "", self.out).splitlines()
