"""The middleware that is compared, and a chat model that says what it was told to say."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from deepagents.backends import FilesystemBackend
from deepagents.middleware.skills import SkillsMiddleware as Upstream
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr
from running_part import Extent

from openskills.adapters.langchain.middleware import SkillsMiddleware
from openskills.adapters.langchain.runtime import SkillRuntimeMiddleware
from openskills.artifacts.memory import MemoryArtifactStore
from openskills.catalog.catalog import Catalog
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime

BARE, UPSTREAM = "no middleware", "deepagents"
MARKED, STABLE = "OpenSkill, marked list", "OpenSkill, stable list"
RUNTIME = "OpenSkill, SkillRuntimeMiddleware"
SOURCES = ["/skills/"]

# Not by an import statement: in this directory that name is a file of ours.
agents: Any = import_module("langchain.agents")
types: Any = import_module("langchain.agents.middleware.types")


class Told(BaseChatModel):
    """Says one line of `lines` after the other, and remembers what it was asked."""

    lines: list[Any]
    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list[list[BaseMessage]])

    @property
    def requests(self) -> list[list[BaseMessage]]:
        """The messages of every request."""
        return self._requests

    @property
    def _llm_type(self) -> str:
        return "told"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        """See `BaseChatModel`."""
        del tools, more
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self._requests.append(list(messages))
        number = len(self._requests) - 1
        line = self.lines[number] if number < len(self.lines) else AIMessage("done")
        return ChatResult(generations=[ChatGeneration(message=line)])


def few_skills(extent: Extent) -> tuple[int, ...]:
    """Over how many skills it is measured; the promises are about 1,000."""
    return tuple(count for count in extent.skills if count <= 1000)


def backend_of(root: Path) -> Any:
    """A backend of deepagents over a directory."""
    return FilesystemBackend(root_dir=root, virtual_mode=True)


def ways(root: Path) -> Mapping[str, Callable[[], Any]]:
    """What makes each middleware for the skills in `skills` below a directory."""
    backend = backend_of(root)
    return {
        UPSTREAM: lambda: Upstream(backend=backend, sources=SOURCES),
        MARKED: lambda: SkillsMiddleware(backend=backend, sources=SOURCES),
        STABLE: lambda: SkillsMiddleware(backend=backend, sources=SOURCES, listing="stable"),
        RUNTIME: lambda: SkillRuntimeMiddleware(runtime_of(root)),
    }


def runtime_of(root: Path) -> SkillRuntime:
    """A runtime of ours over the same skills, all of them listed, as the others list them."""
    options = SessionOptions(load_mode="session", overview_tokens=None)
    return SkillRuntime(Catalog.from_paths(root / "skills"), artifacts=MemoryArtifactStore(), options=options)


def calls(*wanted: tuple[str, str, Mapping[str, Any]]) -> AIMessage:
    """A message of a model that makes calls: id, tool, arguments."""
    made: Sequence[Any] = [
        {"name": tool, "args": dict(args), "id": call_id, "type": "tool_call"} for call_id, tool, args in wanted
    ]
    return AIMessage("", tool_calls=list(made))
