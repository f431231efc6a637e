"""The other side: a client of the host, and the choice of a skill for a request in words."""
