"""Formats of logs: a line to a record. The parts of `log_transform.py`, which lies beside this folder."""
