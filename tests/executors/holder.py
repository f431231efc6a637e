"""A process that has the lease of a workspace until it is killed."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from openskills.executors.records.leases import WorkspaceStore

_PROGRAM = """
import sys
from pathlib import Path
from openskills.executors.records.leases import WorkspaceStore
lease = WorkspaceStore(Path(sys.argv[1])).claim(sys.argv[2], executor="local")
print(lease.id, flush=True)
input()
"""


@contextmanager
def holding(root: Path, key: str) -> "Generator[subprocess.Popen[str]]":
    """Another process claims a workspace, and has it as long as the block lasts or until it is killed."""
    command = [sys.executable, "-c", _PROGRAM, str(root), key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline().strip() == WorkspaceStore.id_from_key(key, "local")
            yield process
        finally:
            process.kill()
