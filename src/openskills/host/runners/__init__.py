"""Runners of hosted skills: one for each kind; they normalize the results."""
