"""The command line: one file per noun. `main` is the door; nothing behind it prints a traceback."""
