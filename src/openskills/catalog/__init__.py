"""Which skills exist: sources, discovery, precedence, visibility, search. Blocking reads, no async."""
