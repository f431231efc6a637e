"""The verbs of a model."""
