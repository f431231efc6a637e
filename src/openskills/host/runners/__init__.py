"""How hosted skills are called: one runner for each kind, and what comes back made one form."""
