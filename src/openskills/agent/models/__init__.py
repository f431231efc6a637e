"""What providers of language models hear and say over HTTP, and what becomes of it when it goes wrong."""
