"""What goes into a workspace and what comes out of it."""
