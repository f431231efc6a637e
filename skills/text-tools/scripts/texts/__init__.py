"""The parts of text.py and parts.py."""
