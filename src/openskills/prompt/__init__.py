"""What the model sees. Pure."""
