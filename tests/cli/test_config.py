"""`openskills config`, as a user runs it."""

from dataclasses import fields
from pathlib import Path

from openskills.cli.config import find_unread_variables, list_settings
from openskills.settings import VARIABLES, Settings
from tests.cli.command import Command


def test_every_setting_says_what_decided_it(openskills: Command) -> None:
    ran = openskills(
        "config", OPENSKILL_TIMEOUT_MS="700", XDG_CACHE_HOME=str(openskills.home / "c"), XDG_STATE_HOME="relative"
    )
    assert (ran.code, ran.err) == (0, "")
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in ran.lines}
    assert rows["timeout_ms"] == ["700", "OPENSKILL_TIMEOUT_MS"]
    assert rows["cache_dir"] == [str(openskills.home / "c" / "openskills"), "XDG_CACHE_HOME"]
    assert rows["skills_cache_dir"][1] == "XDG_CACHE_HOME"
    assert rows["state_dir"][1] == rows["host_history"][1] == "default"
    assert rows["cli_dir"] == [str(openskills.cwd / "skills_cli"), "default"]
    assert rows["allowed_commands"] == ["none", "default"]


def test_programs_get_values_with_their_types_and_the_variables(openskills: Command) -> None:
    found = openskills(
        "config", "--json", OPENSKILL_HOST_HTTP_TARGETS="a.example b.example", OPENSKILL_TIMOUT_MS="5"
    ).json
    rows = {row["name"]: row for row in found["settings"]}
    assert rows["timeout_ms"] == {
        "name": "timeout_ms",
        "value": 15000,
        "decided_by": "default",
        "variables": ["OPENSKILL_TIMEOUT_MS"],
    }
    assert rows["host_http_targets"]["value"] == ["a.example", "b.example"]
    assert found["unread"] == [{"variable": "OPENSKILL_TIMOUT_MS", "near": "OPENSKILL_TIMEOUT_MS"}]


def test_a_key_and_a_password_are_not_printed(openskills: Command) -> None:
    for arguments in (("config",), ("config", "--json")):
        ran = openskills(*arguments, OPENSKILL_API_KEY="hunter2", SKILLS_ROOT="https://me:hunter3@example.org/s.zip")
        assert "hunter" not in ran.out + ran.err
        assert "(set, not shown)" in ran.out


def test_a_variable_that_nothing_reads_is_a_warning_with_the_one_that_was_meant(openskills: Command) -> None:
    ran = openskills("config", OPENSKILL_TIMOUT_MS="5")
    assert ran.code == 0
    assert ran.err == ("warning: unknown variable OPENSKILL_TIMOUT_MS; did you mean OPENSKILL_TIMEOUT_MS?\n")
    assert list(find_unread_variables({"OPENSKILL_ZZZZZZZZZ": "", "OTHER": "", "openskill_x": ""})) == [
        ("OPENSKILL_ZZZZZZZZZ", None)
    ]


def test_a_bad_value_ends_the_command_with_its_variable(openskills: Command) -> None:
    ran = openskills("config", OPENSKILL_TIMEOUT_MS="soon")
    assert (ran.code, ran.err) == (2, "error: OPENSKILL_TIMEOUT_MS: 'soon' is not an integer from 1 to 86400000\n")


def test_a_hosted_skill_says_which_line_of_its_manifest_decided(openskills: Command) -> None:
    manifest(openskills.cwd, "timeout_ms: 5\nenv: {MODE: fast, API_TOKEN: hunter2}\n")
    ran = openskills("config", "calculator", OPENSKILL_ALLOWED_ROOT=str(openskills.cwd / "skills_cli"))
    assert ran.code == 0
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in ran.lines}
    origin = openskills.cwd / "skills_cli" / "calculator.yaml"
    assert rows["timeout_ms"] == ["5", f"{origin}:4"]
    assert rows["kind"] == ["cli:python", f"{origin}:1"]
    assert rows["allowed_root"] == [str(openskills.cwd / "skills_cli"), "OPENSKILL_ALLOWED_ROOT"]
    assert rows["warm"] == ["fork", "default"]
    assert "hunter2" not in ran.out
    assert "API_TOKEN looks like a secret" in ran.err


def test_a_broken_manifest_is_reported_and_the_command_fails(openskills: Command) -> None:
    manifest(openskills.cwd, "timeout_ms: never\n")
    ran = openskills("config", "calculator")
    assert (ran.code, ran.out) == (1, "")
    assert "skills_cli/calculator.yaml:4:13: error: timeout_ms: 'never' is not an integer" in ran.err
    found = openskills("config", "calculator", "--json").json
    assert (found["status"], found["problems"][0]["line"]) == ("broken", 4)


def test_an_unknown_skill_fails_with_the_nearest(openskills: Command) -> None:
    manifest(openskills.cwd, "")
    ran = openskills("config", "calculater")
    assert (ran.code, ran.err) == (1, "error: unknown skill 'calculater'; did you mean 'calculator'?\n")


def test_the_table_of_variables_has_every_field_and_no_other() -> None:
    assert list(VARIABLES) == [field.name for field in fields(Settings) if field.name != "environment"]
    assert [row.name for row in list_settings(Settings.from_env({}))] == list(VARIABLES)


def manifest(cwd: Path, more: str) -> None:
    directory = cwd / "skills_cli"
    directory.mkdir()
    (directory / "calculator.py").write_text("print()")
    text = "type: cli\nruntime: python\nentry: ./skills_cli/calculator.py\n"
    (directory / "calculator.yaml").write_text(text + more)


def test_the_project_file_is_shown_with_effective_values_and_their_lines(openskills: Command) -> None:
    file = openskills.cwd / "openskills.toml"
    file.write_text(
        '[skills."*"]\nnetwork = ["a.example"]\n[skills.pdf]\nnetwork = ["b.example"]\ntimeout = 5\n'
        '[validate]\nignore = ["link-dead"]\n'
    )
    ran = openskills("config")
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in ran.lines}
    assert rows["project"] == [str(file), "found here or in a parent directory"]
    assert rows["skills.*.network"] == ["a.example", f"{file}:2 (not trusted)"]
    assert rows["skills.pdf.network"] == ["a.example, b.example", f"{file}:2, {file}:4 (not trusted)"]
    assert rows["validate.ignore"] == ["link-dead", f"{file}:7"]
    assert ran.err == f"warning: {file} is not trusted, so it grants nothing; run `openskills trust`\n"

    openskills("trust", "--yes")
    found = openskills("config", "--json").json["project"]
    assert (found["file"], found["trusted"]) == (str(file), True)
    timeout = {"name": "skills.pdf.timeout", "value": 5.0, "decided_by": f"{file}:5", "in_effect": True}
    assert timeout in found["settings"]
    assert openskills("config").err == ""
    assert openskills("config", "--json", "--project", "off").json["project"] is None
    assert openskills("config", "--json", OPENSKILL_PROJECT="off").json["project"] is None


def test_a_hosted_skill_has_the_grants_of_a_trusted_project_file(openskills: Command) -> None:
    (openskills.cwd / "skills_cli").mkdir()
    (openskills.cwd / "skills_cli" / "echo.py").write_text("print('{}')")
    file = openskills.cwd / "openskills.toml"
    file.write_text('[skills.echo]\nnetwork = ["a.example"]\ntimeout = 5\n')

    def rows() -> dict[str, list[str]]:
        return {line.split("\t")[0]: line.split("\t")[1:] for line in openskills("config", "echo").lines}

    assert (rows()["network"], rows()["timeout_ms"]) == (["none", "default"], ["15000", "default"])
    openskills("trust", "--yes")
    assert (rows()["network"], rows()["timeout_ms"]) == (["a.example", str(file)], ["5000", str(file)])


def test_values_in_a_project_file_that_look_like_secrets_are_not_printed(openskills: Command) -> None:
    (openskills.cwd / "openskills.toml").write_text('[skills."*".environment]\nAPI_KEY = "hunter2"\nLEVEL = "3"\n')
    for arguments in (("config",), ("config", "--json"), ("trust",), ("trust", "--json"), ("trust", "--yes")):
        ran = openskills(*arguments)
        assert "hunter2" not in ran.out + ran.err
    assert "grants   *: environment API_KEY=(set, not shown), LEVEL=3" in openskills("trust").lines


def test_escape_codes_in_a_project_file_are_not_printed(openskills: Command) -> None:
    file = openskills.cwd / "openskills.toml"
    file.write_text('[skills."a\\u001b]0;x"]\ntimeout = 5\n')
    for arguments in (("config",), ("trust",), ("run", "x", "--", "true"), ("validate", ".")):
        ran = openskills(*arguments)
        assert "\x1b" not in ran.out + ran.err
    file.write_text('[skills."a\\u001b]0;x"]\nzzz = 5\n')
    ran = openskills("config")
    assert (ran.code, "\x1b" in ran.err, "unknown key" in ran.err) == (2, False, True)
