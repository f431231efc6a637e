"""Running commands in a workspace."""
