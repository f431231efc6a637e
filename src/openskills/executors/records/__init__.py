"""Who has which workspace, what was run, and what may be held."""
