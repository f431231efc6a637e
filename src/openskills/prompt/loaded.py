"""Loaded texts as the model reads them: blocks with the markers of the mission documents. Pure."""

import json
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from openskills.prompt.escape import one_line
from openskills.prompt.shown import Piece

CONTEXT = "Loaded skill context:"
"""The first line of the message that carries what has no other place."""


class Block(NamedTuple):
    """Texts of one skill that stand together: its body, unless that stands elsewhere, and documents."""

    skill: str
    body: Piece | None = None
    docs: tuple[Piece, ...] = ()

    def text(self) -> str:
        """`[Loaded] name`, a blank line, the body; `Docs loaded:` and the paths; each document under `[Doc] path`."""
        head = "" if self.body is None else _headed(f"[Loaded] {one_line(self.skill)}", self.body.text)
        docs = [_headed(f"[Doc] {one_line(doc.path)}", doc.text) for doc in self.docs]
        return "\n".join([f"{head}{docs_line(self.docs)}\n", *docs]).rstrip("\n")


Addition: TypeAlias = tuple[str | Block, ...]
"""What is put at the end of a message, a blank line before each."""


def rendered(added: Addition) -> str:
    """An addition as one text."""
    return "\n\n".join(part if isinstance(part, str) else part.text() for part in added)


def docs_line(docs: Sequence[Piece]) -> str:
    """`Docs loaded: a.md, b.md`, or `none`."""
    return f"Docs loaded: {', '.join(_listed(doc.path) for doc in docs) or 'none'}"


def docs_of(skill: str) -> str:
    """Stands above documents whose skill's body is somewhere else."""
    return f"Documents of {one_line(skill)}, whose instructions stand in their own place:"


def in_context(skill: str) -> str:
    """Stands in the result of a load of what was loaded already."""
    return f"Already in context: the instructions of {one_line(skill)} stand above."


def withdrawn(skill: str) -> str:
    """Stands in a result whose texts have gone. It stays true when the skill is loaded again further below."""
    return f"[Unloaded] {one_line(skill)}: no longer in context here; unless it is loaded again below, call skill_load."


def _headed(head: str, text: str) -> str:
    if not text:
        return f"{head}\n"
    return f"{head}\n\n{text}" if text.endswith("\n") else f"{head}\n\n{text}\n"


def _listed(path: str) -> str:
    """A path in a list of paths, in quotes if it could be taken for two."""
    line = one_line(path)
    return json.dumps(line, ensure_ascii=False) if "," in line or '"' in line else line
