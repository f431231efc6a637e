"""`Limits` as the numbers that the kernel keeps for each process."""

import resource

from openskills.executors.spec import Limits

Rlimits = tuple[tuple[int, int, int], ...]
"""(resource, soft, hard), in the order in which they are to be set."""


def rlimits(limits: Limits) -> Rlimits:
    """What every process of a command is held to. The number of processes is not among them.

    The kernel counts those for a user, not for a command: who has a user for each command limits them there.
    """
    wanted = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        # Private writable memory. RLIMIT_AS would also count what is only reserved, as many runtimes do in terabytes.
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
    )
    return tuple((kind, value, value) for kind, value in wanted if value is not None)
