"""Skills for agents of LangChain, with the extra `langchain`, and of deepagents, with the extra `deepagents`.

Importing this package loads nothing else. Each public name is fetched from its module when it is first used.
"""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from deepagents.middleware.skills import SkillToolResolver as SkillToolResolver
    from deepagents.middleware.skills import disclosed_skill_tool_names as disclosed_skill_tool_names

    from openskills.adapters.langchain.hooks import ExecutorHooks as ExecutorHooks
    from openskills.adapters.langchain.middleware import SkillsMiddleware as SkillsMiddleware
    from openskills.adapters.langchain.options import SkillOptions as SkillOptions
    from openskills.adapters.langchain.runtime import SkillRuntimeMiddleware as SkillRuntimeMiddleware
    from openskills.adapters.langchain.runtime import ask_by_interrupt as ask_by_interrupt
    from openskills.adapters.langchain.runtime_state import loaded_skills as loaded_skills
    from openskills.adapters.langchain.runtime_tools import system_text as system_text
    from openskills.adapters.langchain.runtime_tools import tools as tools
    from openskills.adapters.langchain.state import ResourceMetadata as ResourceMetadata
    from openskills.adapters.langchain.state import SkillMetadata as SkillMetadata
    from openskills.adapters.langchain.state import SkillsState as SkillsState

    __all__: list[str]

_MODULES = {
    "hooks": ("ExecutorHooks",),
    "middleware": ("SkillsMiddleware",),
    "options": ("SkillOptions",),
    "runtime": ("SkillRuntimeMiddleware", "ask_by_interrupt"),
    "runtime_state": ("loaded_skills",),
    "runtime_tools": ("system_text", "tools"),
    "skill_tools": ("SkillToolResolver", "disclosed_skill_tool_names"),
    "state": ("ResourceMetadata", "SkillMetadata", "SkillsState"),
}
_FOREIGN = ("deepagents", "langchain", "langchain_core", "langgraph")

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __all__, _fetch, __dir__ = lazy_exports(__name__, _MODULES)

    def __getattr__(name: str) -> object:
        """Fetch a public name from its module and remember it; `MissingExtra` without the packages it needs."""
        try:
            return _fetch(name)
        except ModuleNotFoundError as error:
            from openskills.errors import MissingExtra

            if (error.name or "").partition(".")[0] in _FOREIGN:
                # Whichever package was found to be missing first.
                module = next(module for module, names in _MODULES.items() if name in names)
                extra = "langchain" if module.startswith("runtime") else "deepagents"
                raise MissingExtra(extra, f"{__name__}.{name}") from error
            raise
