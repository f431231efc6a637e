"""`openskills cluster` without a cluster: what it says about hosts, and what it refuses. See tests/executors/ray."""

from pathlib import Path

from tests.cli.command import Command
from tests.host.hosting import eventually, served
from tests.servers.postgres import PostgresServer


def test_hosts_are_listed_with_their_heartbeats_while_they_run(
    openskills: Command, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    url = postgres_server.new_database()
    with served(tmp_path, host_database=url):

        def list_hosts() -> list[bool]:
            shown = openskills("cluster", "status", "--json", OPENSKILL_HOST_DATABASE=url)
            assert shown.code == 0, shown.err
            assert shown.json["cluster"] is None
            return [one["is_alive"] for one in shown.json["hosts"]]

        eventually(lambda: list_hosts() == [True])
        (line,) = openskills("cluster", "status", OPENSKILL_HOST_DATABASE=url).lines
        assert line.split("\t")[1] == "alive"
    after = openskills("cluster", "status", OPENSKILL_HOST_DATABASE=url)
    assert (after.code, after.lines) == (0, [])
    assert "no host uses the database" in after.err


def test_without_a_cluster_and_a_shared_database_it_says_what_to_set(openskills: Command) -> None:
    for line in (("status",), ("drain", "abc")):
        ran = openskills("cluster", *line)
        assert ran.code == 2
        assert "--executor: the executor is 'auto', not a cluster; use --executor ray:HOST:PORT" in ran.err
        ran = openskills("cluster", *line, "--executor", "sandbox")
        assert ran.code == 2
        assert "executor: 'sandbox' is not a cluster" in ran.err
    ran = openskills("cluster", "drain", "abc", "--executor", "ray", "--timeout", "soon")
    assert (ran.code, "--timeout: invalid duration 'soon'" in ran.err) == (2, True)
