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
    "Usage",
    "open_model",
    "summarise_by_model",
    "summarise_by_rule",
    "tool",
]

_HOME = {
    "Agent": "agent",
    "AnthropicModel": "models.anthropic",
    "Attachment": "runner",
    "Callbacks": "agent",
    "ExtraTool": "agent",
    "Image": "runner",
    "Load": "subagent",
    "Model": "models.model",
    "ModelRequest": "models.model",
    "ModelResponse": "models.model",
    "ModelTimeouts": "models.http",
    "OpenAIModel": "models.openai",
    "Retrier": "models.http",
    "RetryPolicy": "models.http",
    "RuleModel": "rules.model",
    "AgentLimits": "agent",
    "Runner": "runner",
    "Summary": "agent",
    "TextDelta": "models.model",
    "ToolCall": "models.model",
    "Usage": "models.model",
    "open_model": "models.open",
    "summarise_by_model": "agent",
    "summarise_by_rule": "agent",
    "tool": "agent",
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOME)
