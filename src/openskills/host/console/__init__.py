"""The web console: pages, rendered on the server, about skills, runs, conversations and the host itself."""
