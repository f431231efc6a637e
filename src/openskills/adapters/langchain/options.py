"""Options of the middleware (all off by default), the `allowed-tools` restriction, and the system prompt."""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypeAlias, cast

from langchain_core.language_models import BaseChatModel
from typing_extensions import TypedDict

from openskills.adapters.langchain.hooks import HookRunner
from openskills.adapters.langchain.messages import to_tool_names
from openskills.adapters.langchain.state import SkillMetadata, get_extension
from openskills.arguments import check_arguments
from openskills.tools.approvals import is_preapproved

ALWAYS_ALLOWED = frozenset(
    {
        *("load_skill", "unload_skill", "ls", "read_file", "write_file", "edit_file", "glob", "grep"),
        *("write_todos", "task", "compact_conversation"),
    }
)
"""The built-in tools, except those that run commands or delete files, which a skill must list."""

_PATTERN = re.compile(r"(?P<tool>[^(]+)(?:\((?P<only>.*)\))?", re.DOTALL)


class ToolRule(TypedDict):
    """The tools that a loaded skill allows; None if unknown. `of_caller`: a rule of the calling agent."""

    name: str
    allowed_tools: list[str] | None
    of_caller: NotRequired[bool]


def collect_rules(
    skills: Iterable[Mapping[str, Any]], loaded: Iterable[str], passed_on: Iterable[Mapping[str, Any]] = ()
) -> list[ToolRule]:
    """The rules of loaded skills and those that a caller passed on. Skills without `allowed-tools` have none.

    A loaded skill whose metadata is unknown restricts everything.
    """
    known = {skill["name"]: skill["allowed_tools"] for skill in skills}
    own = [ToolRule(name=name, allowed_tools=known.get(name)) for name in loaded]
    callers = [ToolRule(name=one["name"], allowed_tools=one["allowed_tools"], of_caller=True) for one in passed_on]
    return [rule for rule in (*own, *callers) if rule["allowed_tools"] is None or rule["allowed_tools"]]


def find_refusal(
    tool: str, arguments: Mapping[str, Any], rules: Sequence[ToolRule], free: Collection[str]
) -> str | None:
    """Why a call is not allowed, or None."""
    if not rules or tool in free:
        return None
    patterns = [pattern for rule in rules for pattern in rule["allowed_tools"] or ()]
    if any(_allows(pattern, tool, arguments) for pattern in patterns):
        return None
    names = ", ".join(f"'{rule['name']}'" for rule in rules)
    is_of_caller = any(rule.get("of_caller") for rule in rules)
    unload = "" if is_of_caller else ", or `unload_skill` if the skill is no longer needed"
    if not patterns:
        return f"Error: The allowed tools of the loaded skill(s) {names} are unknown. Do without `{tool}`{unload}."
    return (
        f"Error: The tool `{tool}` is not among the allowed tools of the loaded skill(s) {names}: "
        f"{', '.join(dict.fromkeys(patterns))}. Use one of them{unload}."
    )


def _allows(pattern: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    match = _PATTERN.fullmatch(pattern.strip())
    if match is None or tool not in to_tool_names(pattern):
        return False
    # A pattern is `git *`, or `git:*` for everything that begins with `git`.
    only, command = (match["only"] or "").strip(), arguments.get("command")
    if only in {"", "*"}:
        return True
    return isinstance(command, str) and is_preapproved((f"Bash({only})",), "bash", command)


Models: TypeAlias = Mapping[str, BaseChatModel] | Callable[[str], BaseChatModel | None]
"""Maps names of models in skills to models."""


@check_arguments
@dataclass(frozen=True, slots=True)
class SkillOptions:
    """Support for front matter fields beyond the specification.

    `invocation`: `disable-model-invocation` keeps the model from loading a skill, `argument-hint` is shown in the list,
    and `load_skill` takes `args` for `$ARGUMENTS`. `models`: the `model` of the most recently loaded skill is used.
    `fork`: loading a skill with `context: fork` runs it in a subagent (`agent`, or the general-purpose one) and returns
    its answer. `hooks`: runs the hooks of loaded skills. `inherit`: a subagent starts with the skills of its caller.
    `allowed_tools`: with "restrict", loaded skills with `allowed-tools` restrict the model to those, to the tools they
    disclosed, and to `always_allowed`; also in subagents that have this middleware with this option, but not in others.
    """

    invocation: bool = False
    models: Models | None = None
    fork: bool = False
    hooks: HookRunner | None = None
    inherit: bool = False
    allowed_tools: Literal["recommend", "restrict"] = "recommend"
    always_allowed: frozenset[str] = ALWAYS_ALLOWED

    @property
    def has_extensions(self) -> bool:
        """Whether fields beyond the specification are needed."""
        return self.invocation or self.fork or self.models is not None or self.hooks is not None

    @property
    def can_take_arguments(self) -> bool:
        """Whether `load_skill` takes arguments."""
        return self.invocation or self.fork


logger = logging.getLogger(__name__)

_DEFAULT_MODEL_NAMES = frozenset({"", "inherit", "default"})


def choose_model(models: Models, loaded: Sequence[SkillMetadata]) -> BaseChatModel | None:
    """The model of the most recently loaded skill that names one; None for the agent's own.

    Unknown names are ignored with a warning.
    """
    for skill in reversed(loaded):
        name = get_extension(skill, "model")
        if not isinstance(name, str) or name in _DEFAULT_MODEL_NAMES:
            continue
        model = cast("Mapping[str, BaseChatModel]", models).get(name) if isinstance(models, Mapping) else models(name)
        if model is not None:
            return model
        logger.warning("Skill '%s' asks for the unknown model %r", skill["name"], name)
    return None


SKILLS_SYSTEM_PROMPT = """## Skills System

You have access to a skills library that provides specialized capabilities and domain knowledge.

{skills_locations}{skills_load_warnings}

**Available Skills:**

{skills_list}

**How to Use Skills (Progressive Disclosure):**

Skills follow a **progressive disclosure** pattern - you see their name and description above, but only read full \
instructions when needed:

1. **Recognize when a skill applies**: Check if the user's task matches a skill's description
2. **Load the skill**: Use `load_skill("skill-name")` to read full instructions and discover resources
3. **Follow the skill's instructions**: The loaded content contains step-by-step workflows, best practices, and examples
4. **Access supporting files**: Use the resource paths shown in the loaded skill output with `read_file`
5. **Unload when done**: Use `unload_skill("skill-name")` to free up a loading slot when a skill is no longer needed

**When to Use Skills:**

- User's request matches a skill's domain (e.g., "research X" -> web-research skill)
- You need specialized knowledge or structured workflows
- A skill provides proven patterns for complex tasks

Remember: Skills make you more capable and consistent. When in doubt, check if a skill exists for the task!"""
