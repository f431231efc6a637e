"""`openskills db`, and the commands for keys and runs on PostgreSQL, as a user types them."""

from openskills.sync import run
from tests.cli.command import Command
from tests.host.results import record, succeeded
from tests.servers.postgres import PostgresServer


def test_a_host_moves_to_postgresql_with_its_keys_and_history(
    openskills: Command, postgres_server: PostgresServer
) -> None:
    from openskills.host.history import History

    key = openskills("keys", "new", "ci").out.strip()
    path = openskills.home / ".local" / "state" / "openskills" / "host.db"
    history, one = History(path), record(succeeded())
    history.record(one)
    run(history.close())
    url = postgres_server.new_database()
    done = openskills("db", "copy", f"sqlite:///{path}", url, "--json")
    assert done.code == 0, done.err
    copied = {(table["component"], table["table"]): table["copied"] for table in done.json["tables"]}
    assert copied["host", "history"] == copied["host", "keys of the key file"] == 1

    checked = openskills("db", "check", url, "--json")
    assert checked.code == 0
    assert [state["missing"] for state in checked.json["databases"]] == [0, 0, 0]
    assert [line.split("\t")[0] for line in openskills("keys", "list", OPENSKILL_HOST_DATABASE=url).lines] == ["ci"]
    assert one.id in openskills("runs", "list", OPENSKILL_HOST_DATABASE=url).out
    assert openskills("keys", "revoke", "ci", OPENSKILL_HOST_DATABASE=url).code == 0
    assert openskills("keys", "list", OPENSKILL_HOST_DATABASE=url).lines == []
    # The key file stays as it was.
    assert openskills("keys", "list").lines != []
    assert key not in done.out

    again = openskills("db", "copy", f"sqlite:///{path}", url)
    assert again.code == 2
    assert "has rows already" in again.err
    merged = openskills("db", "copy", f"sqlite:///{path}", url, "--merge")
    assert merged.code == 0, merged.err
    assert "copied and compared" in merged.out


def test_what_cannot_be_reached_is_said_without_the_password(openskills: Command) -> None:
    url = "postgresql://me:hidden-word@127.0.0.1:1/skills"
    for line in (("db", "check", url), ("keys", "list"), ("serve", "--port", "0")):
        ran = openskills(*line, OPENSKILL_HOST_DATABASE=url)
        assert ran.code == 1, line
        assert "postgresql://127.0.0.1:1/skills cannot be reached" in ran.err
        assert "hidden-word" not in ran.err
    assert "hidden-word" not in openskills("config", OPENSKILL_HOST_DATABASE=url).out


def test_a_wrong_address_is_refused(openskills: Command) -> None:
    ran = openskills("serve", "--database", "mysql://me:hidden-word@host/x")
    assert (ran.code, "hidden-word" in ran.err) == (2, False)
    assert "use postgresql://" in ran.err
    ran = openskills(
        "runs", "list", OPENSKILL_HOST_DATABASE="sqlite:////a/host.db", OPENSKILL_HOST_HISTORY="/b/host.db"
    )
    assert ran.code == 2
    assert "OPENSKILL_HOST_HISTORY: is set, and OPENSKILL_HOST_DATABASE names another file" in ran.err
