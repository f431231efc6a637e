"""Commands in a sandbox made by bubblewrap, or under Landlock."""
