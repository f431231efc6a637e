"""`keys`: make, list, revoke."""

from pathlib import Path

from openskills.host.books.key_file import read_keys
from openskills.host.books.keys import KeyRing
from tests.cli.command import Command


def path_of(openskills: Command) -> Path:
    return openskills.home / ".config" / "openskills" / "keys.json"


def test_a_new_key_is_printed_alone_so_that_a_shell_can_take_it(openskills: Command) -> None:
    ran = openskills("keys", "new", "ci")
    assert ran.code == 0
    key = ran.out.removesuffix("\n")
    assert "only time" in ran.err
    assert key not in ran.err
    assert KeyRing.open(path_of(openskills), required=True).check(f"Bearer {key}").name == "ci"
    assert path_of(openskills).stat().st_mode & 0o777 == 0o600


def test_what_a_key_may_do_is_kept_and_listed(openskills: Command) -> None:
    limits = ("--rate", "2.5", "--burst", "9", "--concurrency", "2", "--expires", "30d")
    made = openskills("keys", "new", "partner", "--scope", "file_*", "--scope", "echo", *limits, "--json").json
    assert made["key"].startswith(made["begins"])
    (kept,) = read_keys(path_of(openskills))
    assert (kept.scopes, kept.rate_per_second, kept.burst, kept.concurrency) == (("file_*", "echo"), 2.5, 9, 2)
    (line,) = openskills("keys", "list").lines
    name, begins, scopes, said, created, expires = line.split("\t")
    assert (name, begins, scopes) == ("partner", kept.hint, "file_* echo")
    assert said == "2.5/s, burst 9, 2 at a time"
    assert (created, expires) == (kept.created, kept.expires)
    listed = openskills("keys", "list", "--json")
    assert listed.json["keys"] == [{key: value for key, value in made.items() if key != "key"}]
    assert made["key"] not in listed.out


def test_a_person_sees_which_keys_end(openskills: Command) -> None:
    openskills("keys", "new", "old", "--expires", "0s")
    openskills("keys", "new", "lasting")
    shown = openskills.on_terminal("keys", "list").lines
    assert [line.split()[-1] for line in shown[-2:]] == ["expired", "never"]


def test_a_revoked_key_is_gone(openskills: Command) -> None:
    key = openskills("keys", "new", "ci").out.strip()
    openskills("keys", "new", "other")
    assert openskills("keys", "revoke", "ci").out == "revoked ci\n"
    assert [line.split("\t")[0] for line in openskills("keys", "list").lines] == ["other"]
    assert key[8:] not in path_of(openskills).read_text()
    assert openskills("keys", "revoke", "other", "--json").json == {"revoked": ["other"]}
    again = openskills("keys", "revoke", "ci")
    assert (again.code, again.err) == (
        2,
        "error: name: there is no key named 'ci'; `openskills keys list` shows them\n",
    )


def test_without_keys_there_is_a_hint(openskills: Command) -> None:
    ran = openskills("keys", "list")
    assert (ran.code, ran.out, ran.err) == (0, "", "there are no keys; `openskills keys new NAME` makes one\n")
    assert openskills("keys", "list", "--json").json == {"keys": []}


def test_wrong_values_are_named(openskills: Command) -> None:
    openskills("keys", "new", "ci")
    for arguments, said in (
        (("ci",), "there is a key named 'ci'"),
        (("two words",), "is no name of a key"),
        (("a", "--rate", "0"), "rate: 0.0 is out of range"),
        (("a", "--scope", "x y"), "scope: 'x y' is no skill"),
        (("a", "--expires", "soon"), "--expires: 'soon' is no length of time"),
    ):
        ran = openskills("keys", "new", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err


def test_the_file_can_be_elsewhere(openskills: Command, tmp_path: Path) -> None:
    openskills("keys", "new", "ci", OPENSKILL_HOST_KEYS=str(tmp_path / "mine.json"))
    assert [key.name for key in read_keys(tmp_path / "mine.json")] == ["ci"]
