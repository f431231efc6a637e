"""What the middleware can do beyond loading and unloading; everything is off by default."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from langchain_core.language_models import BaseChatModel

from openskills.adapters.langchain.hook_runs import HookRunner
from openskills.adapters.langchain.restriction import ALWAYS_ALLOWED

Models: TypeAlias = Mapping[str, BaseChatModel] | Callable[[str], BaseChatModel | None]
"""The model that a skill means by a name, if any."""


@dataclass(frozen=True, slots=True)
class SkillOptions:
    """How fields of a skill's front matter beyond the specification are treated.

    `invocation`: `disable-model-invocation` keeps the model from loading a skill, `argument-hint` shows in the list,
    and `load_skill` takes `args` for `$ARGUMENTS`. `models`: while a skill with `model` is loaded, that model answers;
    the skill that was loaded last decides. `fork`: loading a skill with `context: fork` runs it in a subagent (`agent`,
    or the general-purpose one) and gives its answer. `hooks`: runs those of a skill while it is loaded.
    `inherit`: a subagent begins with the skills that its caller has loaded. `allowed_tools`: with "restrict" the skills
    that are loaded and name `allowed-tools` leave the model with those, what they disclosed, and `always_allowed`; so
    do they in subagents that have this middleware and this option. A subagent without them is not restricted.
    """

    invocation: bool = False
    models: Models | None = None
    fork: bool = False
    hooks: HookRunner | None = None
    inherit: bool = False
    allowed_tools: Literal["recommend", "restrict"] = "recommend"
    always_allowed: frozenset[str] = ALWAYS_ALLOWED

    def __post_init__(self) -> None:
        """Raises `ValueError` for a policy that does not exist."""
        if self.allowed_tools not in {"recommend", "restrict"}:
            raise ValueError(f"allowed_tools must be 'recommend' or 'restrict', not {self.allowed_tools!r}")

    @property
    def extended(self) -> bool:
        """Whether fields beyond the specification are needed."""
        return self.invocation or self.fork or self.models is not None or self.hooks is not None

    @property
    def takes_arguments(self) -> bool:
        """Whether a skill can be loaded for something in particular."""
        return self.invocation or self.fork
