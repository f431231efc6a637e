"""What every place brings."""

from openskills.executors.spec import Limits
from openskills.host.registration import HostLimits
from openskills.host.running.place import process_limits


def test_the_limits_of_a_skill_are_those_of_its_processes() -> None:
    limits = process_limits(HostLimits(memory_bytes=2**30, processes=5, file_bytes=7, cpu_seconds=9))
    assert (limits.memory_bytes, limits.processes, limits.file_bytes, limits.cpu_seconds) == (2**30, 5, 7, 9)


def test_no_limit_is_no_limit() -> None:
    limits = process_limits(HostLimits(memory_bytes=None, processes=None, file_bytes=None))
    assert isinstance(limits, Limits)
    assert (limits.memory_bytes, limits.processes, limits.file_bytes, limits.cpu_seconds) == (None, None, None, None)
