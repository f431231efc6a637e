"""The command line: one file per noun. `main` turns every error into a message, so that none prints a traceback."""
