"""Staging: skills and input files into a workspace, output files out of it."""
