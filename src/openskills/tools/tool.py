"""A verb of a model, and what it works with."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict, model_validator

from openskills.artifacts.store import ArtifactStore, Scope
from openskills.catalog.snapshot import Snapshot
from openskills.executors.conversations import Conversations
from openskills.executors.spec import Limits
from openskills.executors.workbench import Workbench
from openskills.session.state import AgentView
from openskills.tools.result import ToolResult
from openskills.tools.shelf import Shelf
from openskills.tools.uploads import Uploads


class Arguments(BaseModel):
    """What a model gives to a tool. Unknown fields are refused with the names of those that there are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        """`null` is the same as leaving a field out."""
        if not isinstance(value, Mapping):
            return value
        given = cast("Mapping[str, object]", value)
        return {name: one for name, one in given.items() if one is not None}


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """How the tools of a session behave.

    `inline_bytes` is how much of stdout and stderr each goes into a result; `primary_bytes` of the primary output;
    `max_inline_bytes` of all other files together, whatever a model asks for.
    `limits` are those of every command; a call may ask for a shorter timeout, and for a longer one up to `max_timeout`.
    """

    require_loaded: bool = True
    force_save: bool = False
    inline_bytes: int = 16 * 1024
    primary_bytes: int = 32 * 1024
    max_inline_bytes: int = 256 * 1024
    limits: Limits = field(default_factory=Limits)
    max_timeout: float = 3600.0
    network: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables of every command; those of a call come on top."""
    secrets: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Per skill (`*` for all): the names of the secrets that its commands get."""
    install: tuple[str, ...] | None = None
    """The hosts that packages of skills may be installed from; None: nothing is installed."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What the tools of one agent in one conversation work with.

    `view` is what the agent has loaded now. `bench` and `talks` open the workspace when they are first awaited, and
    raise `ExecutorUnavailable` when there is no executor. `tools` are the names that the model can call.
    """

    agent: str
    scope: Scope
    skills: Snapshot
    view: Callable[[], AgentView]
    shelf: Shelf
    uploads: Uploads
    bench: Callable[[], Awaitable[Workbench]]
    talks: Callable[[], Awaitable[Conversations]]
    artifacts: ArtifactStore | None
    options: ToolOptions
    tools: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """A verb: its name, what a model is told about it, what it takes, and what it does.

    `run` raises `SkillError`s; the door, `SkillSession.call`, makes results of them.
    """

    name: str
    description: str
    arguments: type[A]
    run: Callable[[ToolContext, A], Awaitable[ToolResult]]


AnyTool = Tool[Any]
