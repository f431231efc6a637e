"""`python -m openskills` is the command `openskills`."""

import sys

from openskills.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
