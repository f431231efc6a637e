"""A complete agent on top of the runtime: a model, a loop, events, sub-agents."""
