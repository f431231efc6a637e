"""`doctor`: what is there, what is missing, and what to install."""

from pathlib import Path

from tests.cli.command import Command


def test_a_good_machine_is_exit_code_0(openskills: Command) -> None:
    ran = openskills("doctor")
    assert (ran.code, ran.err, ran.lines[-1]) == (0, "", "everything required is there")
    sections = [line for line in ran.lines if line and not line.startswith(" ")]
    assert sections[:-1] == ["basics", "sources", "directories", "watching", "extras", "isolation"]


def test_json_names_every_check(openskills: Command) -> None:
    answer = openskills("doctor", "--json").json
    assert answer["ok"] is True
    assert list(answer["checks"][0]) == ["section", "name", "ok", "detail", "required", "fix"]
    assert all(check["fix"] is None for check in answer["checks"] if check["ok"])


def test_something_required_that_is_missing_is_exit_code_1(openskills: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    openskills.environment["OPENSKILL_CONFIG_DIR"] = str(tmp_path / "file")
    ran = openskills("doctor")
    assert ran.code == 1
    assert ran.lines[-1] == "something required is missing: configuration"
    assert any("fix: make " in line and "OPENSKILL_CONFIG_DIR" in line for line in ran.lines)
    assert openskills("doctor", "--json").json["ok"] is False


def test_nothing_is_created(openskills: Command) -> None:
    openskills("doctor")
    assert not list(openskills.home.iterdir())
