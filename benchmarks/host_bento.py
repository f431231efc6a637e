"""BentoML with a function that gives a text back; `bentoml serve host_bento:Echo`. Has an environment of its own."""

import sys

# A benchmark may have the name of a library: looked for last, it is in nobody's way.
sys.path.append(sys.path.pop(0))

import importlib
from typing import Any

bentoml: Any = importlib.import_module("bentoml")


@bentoml.service
class Echo:
    """One function."""

    @bentoml.api
    def invoke(self, text: str) -> dict[str, str]:
        """Give the text back."""
        return {"echoed": text}
