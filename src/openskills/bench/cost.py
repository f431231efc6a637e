"""What requests cost, by layer, and what several of them cost together. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from openskills.prompt.accounting import RequestTokens

TOOLS = "tools"
"""The layer of the descriptions of our tools, which go with every request beside the messages."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The tokens of one request, or of `requests` together. `new` are those that no request before began with."""

    total: int = 0
    new: int = 0
    by_layer: Mapping[str, int] = field(default_factory=dict[str, int])
    requests: int = 1

    @property
    def per_request(self) -> float:
        """The mean of a request."""
        return self.total / self.requests if self.requests else 0.0


def cost_of(request: RequestTokens, tools: int) -> Cost:
    """What a request costs with `tools` tokens of descriptions of tools, which never change in a conversation."""
    layers = {str(layer): tokens for layer, tokens in request.by_layer.items()}
    unchanged = request.unchanged + (tools if request.before else 0)
    total = request.total + tools
    return Cost(total, total - unchanged, {TOOLS: tools, **layers})


def together(costs: Iterable[Cost]) -> Cost:
    """All of them as one."""
    found: Sequence[Cost] = list(costs)
    layers: dict[str, int] = {}
    for cost in found:
        for layer, tokens in cost.by_layer.items():
            layers[layer] = layers.get(layer, 0) + tokens
    return Cost(
        sum(cost.total for cost in found),
        sum(cost.new for cost in found),
        layers,
        sum(cost.requests for cost in found),
    )
