"""What a tool answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openskills.errors import SkillError, UnknownSkill
from openskills.session.changes import Change


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`text` is for the model, `data` for programs (plain JSON values). `error` says what kept the tool from its work.

    `changes` are what the call means for the state of the conversation; a tool never writes state itself.
    """

    text: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: SkillError | None = None
    changes: tuple[Change, ...] = ()

    def checked(self) -> "ToolResult":
        """The result itself; raises its `error` when it has one. For programs that call tools by themselves."""
        if self.error is not None:
            raise self.error
        return self

    @classmethod
    def json(cls, data: Mapping[str, Any], changes: tuple[Change, ...] = ()) -> "ToolResult":
        """A result whose text is its data."""
        return cls(json.dumps(data, ensure_ascii=False), data, changes=changes)

    @classmethod
    def failed(cls, error: SkillError) -> "ToolResult":
        """What the model reads when it, or somebody, made a mistake: the reason, and what to do next."""
        details = {**error.details, "reason": error.reason}
        data = {"error": {"code": error.code, "message": error.message, "details": details}}
        hint = ""
        if isinstance(error, UnknownSkill) and not error.near:
            hint = "; use a name from the list of available skills"
        return cls(f"error: {error.message}{hint}", data, error)
