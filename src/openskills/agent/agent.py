"""An agent: a model, skills, and how they work together. A value; `Runner` runs it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from openskills.agent.callbacks import Callbacks
from openskills.agent.choose import model_named
from openskills.agent.extra_tool import ExtraTool
from openskills.agent.model import Model
from openskills.agent.summary import Summary
from openskills.errors import InvalidArgument
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.session.plain import checked_id
from openskills.tools.profiles import NAMES

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How much one run may do. A step is an answer of the model with the calls in it.

    `model_calls` are those of the whole run: sub-agents and forks, which have steps of their own, count here.
    """

    steps: int = 50
    model_calls: int = 200
    tool_calls: int = 200
    parallel: int = 8

    def __post_init__(self) -> None:
        for name in ("steps", "model_calls", "tool_calls", "parallel"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"limits.{name}", "is less than 1")


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent with a name, a model, and the skills of a runtime.

    `model` is one, or the name of one (`openai/gpt-5`, `anthropic/claude-opus-5-5`, `rule`). `options` are those of
    its sessions. `sub_agents` are tools to it: each works on a task of its own, in the same workspace, with its own
    loaded skills. `history_turns` is how many turns of the user the model sees, None for all. `code_blocks` runs the
    fenced blocks of its answers.
    """

    name: str
    model: Model | str
    runtime: SkillRuntime
    instructions: str = ""
    description: str = ""
    options: SessionOptions | None = None
    tools: Sequence[ExtraTool] = ()
    sub_agents: Sequence["Agent"] = ()
    limits: RunLimits = field(default_factory=RunLimits)
    callbacks: Callbacks = field(default_factory=Callbacks)
    summary: Summary | None = None
    history_turns: int | None = None
    code_blocks: bool = False
    max_output_tokens: int | None = None
    _made_its_model: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        checked_id("name", self.name)
        if isinstance(self.model, str):
            object.__setattr__(self, "model", _model(self.model, self.runtime))
            object.__setattr__(self, "_made_its_model", True)
        if self.history_turns is not None and self.history_turns < 1:
            raise InvalidArgument("history_turns", "is less than 1; the turn that runs is always seen")
        names = [tool.name for tool in self.tools] + [agent.name for agent in self.sub_agents]
        for name in names:
            if names.count(name) > 1 or name in (*NAMES, self.name):
                raise InvalidArgument("tools", f"two are named {name!r}")
            if not _TOOL_NAME.fullmatch(name):
                raise InvalidArgument(
                    "tools", f"{name[:80]!r} is no name of a tool; use letters, digits, _ and -, at most 64"
                )

    async def close(self) -> None:
        """Give back the connections of a model that was made from its name. The runtime is its maker's to close."""
        if self._made_its_model and not isinstance(self.model, str):
            await self.model.close()


def _model(name: str, runtime: SkillRuntime) -> Model:
    options = {"catalog": runtime.catalog} if name == "rule" else {}
    return model_named(name, runtime.settings, **options)
