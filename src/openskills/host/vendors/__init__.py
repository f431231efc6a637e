"""The skills and files APIs of Anthropic and OpenAI, below `/v1`."""
