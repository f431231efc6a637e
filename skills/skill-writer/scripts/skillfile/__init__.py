"""The parts of scaffold.py and check.py."""
