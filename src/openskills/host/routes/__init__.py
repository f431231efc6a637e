"""The addresses of the host, and what each does."""
