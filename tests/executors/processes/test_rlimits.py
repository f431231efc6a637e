import resource

from openskills.executors.processes.rlimits import rlimits
from openskills.executors.spec import Limits


def test_every_limit_becomes_one_of_the_kernels() -> None:
    limits = Limits(open_files=99, file_bytes=8, memory_bytes=77_000_000, cpu_seconds=6)
    assert set(rlimits(limits)) == {
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NOFILE, 99, 99),
        (resource.RLIMIT_FSIZE, 8, 8),
        (resource.RLIMIT_DATA, 77_000_000, 77_000_000),
        (resource.RLIMIT_CPU, 6, 6),
    }


def test_no_limit_leaves_only_that_nothing_dumps_core() -> None:
    limits = Limits(open_files=None, file_bytes=None, memory_bytes=None, cpu_seconds=None)
    assert rlimits(limits) == ((resource.RLIMIT_CORE, 0, 0),)
