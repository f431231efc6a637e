"""A complete agent on top of the runtime: a model, a loop, events, sub-agents."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.agent.agent import (
        Agent,
        AgentLimits,
        Callbacks,
        ExtraTool,
        Summary,
        ToolSet,
        summarise_by_model,
        summarise_by_rule,
        tool,
    )
    from openskills.agent.models.anthropic import AnthropicModel
    from openskills.agent.models.http import ModelTimeouts, Retrier, RetryPolicy
    from openskills.agent.models.model import Model, ModelRequest, ModelResponse, TextDelta, ToolCall, Usage
    from openskills.agent.models.open import open_model
    from openskills.agent.models.openai import OpenAIModel
    from openskills.agent.rules.model import RuleModel
    from openskills.agent.runner import Attachment, Image, Runner
    from openskills.agent.subagent import Load

__all__ = [
    "Agent",
    "AgentLimits",
    "AnthropicModel",
    "Attachment",
    "Callbacks",
    "ExtraTool",
    "Image",
    "Load",
    "Model",
    "ModelRequest",
    "ModelResponse",
    "ModelTimeouts",
    "OpenAIModel",
    "Retrier",
    "RetryPolicy",
    "RuleModel",
    "Runner",
    "Summary",
    "TextDelta",
    "ToolCall",
    "ToolSet",
    "Usage",
    "open_model",
    "summarise_by_model",
    "summarise_by_rule",
    "tool",
]

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
    __getattr__, __dir__ = lazy_exports(__name__, {name: home for home, names in _MODULES.items() for name in names})
