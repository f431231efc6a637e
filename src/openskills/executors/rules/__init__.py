"""Which commands may run, with which variables."""
