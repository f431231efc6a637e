"""How a model reads on in a text that was cut. Pure."""

import json
from collections.abc import Callable, Collection

from openskills.tools.profiles import SELECT


def read_on(tools: Collection[str]) -> Callable[[str, str, int, int], str]:
    """A sentence for a skill, a path in it, a line and a character of it, in terms of the tools that there are."""

    def sentence(skill: str, path: str, line: int, character: int) -> str:
        if SELECT in tools:
            where = f"{path}#L{line}" + (f"C{character}" if character > 1 else "")
            wanted = {"skill": skill, "docs": [where], "mode": "add"}
            return f"to read on, call {SELECT} with {json.dumps(wanted, ensure_ascii=False)}"
        if "read_file" in tools:
            wanted = {"file_name": f"skill://{skill}/{path}", "start_line": line}
            return f"to read on, call read_file with {json.dumps(wanted, ensure_ascii=False)}"
        return "the rest cannot be read with the tools of this conversation"

    return sentence
