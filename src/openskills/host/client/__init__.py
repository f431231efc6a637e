"""Client of the host, and the routing of a request in natural language to a skill."""
