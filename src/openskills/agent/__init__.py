"""A complete agent on top of the runtime: a model, a loop, events, sub-agents."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.agent.agent import Agent as Agent
    from openskills.agent.agent import AgentLimits as AgentLimits
    from openskills.agent.agent import Callbacks as Callbacks
    from openskills.agent.agent import ExtraTool as ExtraTool
    from openskills.agent.agent import Summary as Summary
    from openskills.agent.agent import ToolSet as ToolSet
    from openskills.agent.agent import summarise_by_model as summarise_by_model
    from openskills.agent.agent import summarise_by_rule as summarise_by_rule
    from openskills.agent.agent import tool as tool
    from openskills.agent.models.anthropic import AnthropicModel as AnthropicModel
    from openskills.agent.models.http import ModelTimeouts as ModelTimeouts
    from openskills.agent.models.http import Retrier as Retrier
    from openskills.agent.models.http import RetryPolicy as RetryPolicy
    from openskills.agent.models.model import Model as Model
    from openskills.agent.models.model import ModelRequest as ModelRequest
    from openskills.agent.models.model import ModelResponse as ModelResponse
    from openskills.agent.models.model import TextDelta as TextDelta
    from openskills.agent.models.model import ToolCall as ToolCall
    from openskills.agent.models.model import Usage as Usage
    from openskills.agent.models.open import open_model as open_model
    from openskills.agent.models.openai import OpenAIModel as OpenAIModel
    from openskills.agent.rules.model import RuleModel as RuleModel
    from openskills.agent.runner import Attachment as Attachment
    from openskills.agent.runner import Image as Image
    from openskills.agent.runner import Runner as Runner
    from openskills.agent.subagent import Load as Load

_MODULES = {
    "agent": (
        "Agent",
        "AgentLimits",
        "Callbacks",
        "ExtraTool",
        "Summary",
        "ToolSet",
        "summarise_by_model",
        "summarise_by_rule",
        "tool",
    ),
    "models.anthropic": ("AnthropicModel",),
    "models.http": ("ModelTimeouts", "Retrier", "RetryPolicy"),
    "models.model": ("Model", "ModelRequest", "ModelResponse", "TextDelta", "ToolCall", "Usage"),
    "models.open": ("open_model",),
    "models.openai": ("OpenAIModel",),
    "rules.model": ("RuleModel",),
    "runner": ("Attachment", "Image", "Runner"),
    "subagent": ("Load",),
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
