"""What one conversation has loaded, and the log of it."""
