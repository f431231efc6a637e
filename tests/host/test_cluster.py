"""What a host says about a cluster that cannot be reached. Real nodes are in tests/executors/ray."""

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.host.cluster import ClusterMonitor
from openskills.host.database import Database
from openskills.settings import Settings


def monitor_of(executor: str) -> ClusterMonitor:
    return ClusterMonitor(Settings.from_env({"OPENSKILL_EXECUTOR": executor}), Database(None), None)


async def test_an_unreachable_cluster_is_an_error_for_people_and_nothing_for_metrics() -> None:
    # Nothing listens on port 1.
    monitor = monitor_of("ray:127.0.0.1:1")
    assert monitor.is_used
    assert monitor.get_latest() == {}
    with pytest.raises(ExecutorUnavailable, match=r"cannot use the Ray cluster at '127.0.0.1:1': .*refused"):
        await monitor.read_nodes()
    with pytest.raises(ExecutorUnavailable, match="refused"):
        await monitor.drain("abc", is_draining=True)
    assert monitor.get_latest() == {}
    assert await monitor.read_hosts() is None
    await monitor.close()


async def test_a_host_without_a_cluster_reports_none() -> None:
    monitor = monitor_of("sandbox")
    assert not monitor.is_used
    assert (monitor.get_latest(), await monitor.read_nodes(), await monitor.read_hosts()) == (None, None, None)
    with pytest.raises(InvalidArgument, match="set OPENSKILL_EXECUTOR=ray"):
        await monitor.drain("abc", is_draining=True)
    await monitor.close()
