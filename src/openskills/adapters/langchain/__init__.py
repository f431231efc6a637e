"""Skills for agents of LangChain, with the extra `langchain`, and of deepagents, with the extra `deepagents`.

Importing this package loads nothing else. Each public name is fetched from its module when it is first used.
"""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from deepagents.middleware.skills import SkillToolResolver, disclosed_skill_tool_names

    from openskills.adapters.langchain.hooks import ExecutorHooks
    from openskills.adapters.langchain.middleware import SkillsMiddleware
    from openskills.adapters.langchain.options import SkillOptions
    from openskills.adapters.langchain.runtime import SkillRuntimeMiddleware, ask_by_interrupt
    from openskills.adapters.langchain.runtime_state import loaded_skills
    from openskills.adapters.langchain.runtime_tools import system_text, tools
    from openskills.adapters.langchain.state import ResourceMetadata, SkillMetadata, SkillsState


__all__ = [
    "ExecutorHooks",
    "ResourceMetadata",
    "SkillMetadata",
    "SkillOptions",
    "SkillRuntimeMiddleware",
    "SkillToolResolver",
    "SkillsMiddleware",
    "SkillsState",
    "ask_by_interrupt",
    "disclosed_skill_tool_names",
    "loaded_skills",
    "system_text",
    "tools",
]

_HOME = {
    "ExecutorHooks": "hooks",
    "ResourceMetadata": "state",
    "SkillMetadata": "state",
    "SkillOptions": "options",
    "SkillRuntimeMiddleware": "runtime",
    "SkillToolResolver": "skill_tools",
    "SkillsMiddleware": "middleware",
    "SkillsState": "state",
    "ask_by_interrupt": "runtime",
    "disclosed_skill_tool_names": "skill_tools",
    "loaded_skills": "runtime_state",
    "system_text": "runtime_tools",
    "tools": "runtime_tools",
}
_FOREIGN = ("deepagents", "langchain", "langchain_core", "langgraph")

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    _fetch, __dir__ = lazy_exports(__name__, _HOME)

    def __getattr__(name: str) -> object:
        """Fetch a public name from its module and remember it; `MissingExtra` without the packages it needs."""
        try:
            return _fetch(name)
        except ModuleNotFoundError as error:
            from openskills.errors import MissingExtra

            if (error.name or "").partition(".")[0] in _FOREIGN:
                # Whichever package was found to be missing first.
                extra = "langchain" if _HOME[name].startswith("runtime") else "deepagents"
                raise MissingExtra(extra, f"{__name__}.{name}") from error
            raise
