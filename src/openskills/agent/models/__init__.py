"""Models: clients of OpenAI, Anthropic and compatible servers, with retries and error handling."""
