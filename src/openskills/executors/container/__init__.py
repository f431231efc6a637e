"""Commands in a container of the session."""
