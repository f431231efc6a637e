"""`load_skill` and `unload_skill` as tools of LangChain."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol

# StructuredTool reads the annotations of the functions below, so this is needed when they are defined.
from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field

from openskills.adapters.langchain.calls import LOAD, UNLOAD
from openskills.adapters.langchain.loading import Answer

LOAD_DESCRIPTION = (
    "Load a skill's full instructions and discover its resources. Use this instead of read_file when you need to "
    "activate a skill from the available skills list."
)
UNLOAD_DESCRIPTION = (
    "Unload a previously loaded skill to free up a loading slot. Use this when you have reached the maximum number of "
    "loaded skills and need to load a different one."
)

ToLoad = Annotated[str, "Name of the skill to load from the available skills list."]
ToUnload = Annotated[str, "Name of the loaded skill to unload."]
Runtime = ToolRuntime[Any, Any]


class LoadArguments(BaseModel):
    """What `load_skill` takes when skills can be loaded for something in particular.

    Written out because LangChain cannot work it out for a parameter that is called `args`.
    """

    skill_name: str = Field(description="Name of the skill to load from the available skills list.")
    args: str = Field(
        "", description="What to apply the skill to, if its entry in the list shows that it takes arguments."
    )


class Door(Protocol):
    """Both ways into the same work."""

    def load(self, skill: str, args: str, runtime: Runtime) -> Answer:
        """Load a skill while the caller waits."""
        ...

    def loading(self, skill: str, args: str, runtime: Runtime) -> Awaitable[Answer]:
        """Load a skill while the caller does something else."""
        ...

    def unload(self, skill: str, runtime: Runtime) -> Answer:
        """Unload a skill."""
        ...


def skill_tools(door: Door, *, with_arguments: bool) -> list[BaseTool]:
    """The two tools. With `with_arguments` a skill can be loaded for something in particular."""
    load = _load_with_arguments(door) if with_arguments else _load(door)
    return [load, _unload(door)]


def _load(door: Door) -> BaseTool:
    def load_skill(skill_name: ToLoad, runtime: Runtime) -> Any:
        return door.load(skill_name, "", runtime)

    async def loading_skill(skill_name: ToLoad, runtime: Runtime) -> Any:
        return await door.loading(skill_name, "", runtime)

    return _tool(LOAD, LOAD_DESCRIPTION, load_skill, loading_skill)


def _load_with_arguments(door: Door) -> BaseTool:
    def load_skill(skill_name: str, runtime: Runtime, args: str = "") -> Any:
        return door.load(skill_name, args, runtime)

    async def loading_skill(skill_name: str, runtime: Runtime, args: str = "") -> Any:
        return await door.loading(skill_name, args, runtime)

    return _tool(LOAD, LOAD_DESCRIPTION, load_skill, loading_skill, LoadArguments)


def _unload(door: Door) -> BaseTool:
    def unload_skill(skill_name: ToUnload, runtime: Runtime) -> Any:
        return door.unload(skill_name, runtime)

    async def unloading_skill(skill_name: ToUnload, runtime: Runtime) -> Any:
        return door.unload(skill_name, runtime)

    return _tool(UNLOAD, UNLOAD_DESCRIPTION, unload_skill, unloading_skill)


def _tool(
    name: str,
    description: str,
    func: Callable[..., Any],
    coroutine: Callable[..., Awaitable[Any]],
    schema: type[BaseModel] | None = None,
) -> BaseTool:
    return StructuredTool.from_function(func, coroutine, name=name, description=description, args_schema=schema)
