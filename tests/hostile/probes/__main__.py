"""Run probes and print one line of JSON for each: `python -m tests.hostile.probes WORLD.json`."""

import json
import os
import sys

from tests.hostile.probes.battery import PROBES
from tests.hostile.probes.probe import attempt
from tests.hostile.probes.world import load


def main(path: str) -> None:
    """Run all that this place allows: those for a terminal only when there is one."""
    world = load(path)
    terminal = os.isatty(0)
    if terminal:
        _take_terminal()
    for one in list(PROBES.values()):
        if (not world.only or one.id in world.only) and (terminal or not one.on_terminal):
            sys.stdout.write("\n" + json.dumps(attempt(one, world)) + "\n")
            sys.stdout.flush()
    sys.stdout.write('\n{"done": true}\n')


def _take_terminal() -> None:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        # The leader of a session that has no terminal gets the first one that it opens.
        os.close(os.open(os.ttyname(0), os.O_RDWR))


if __name__ == "__main__":
    main(sys.argv[1])
