"""`trust`: show, trust and remove the skills of a project."""

import json
import subprocess
from pathlib import Path

from tests.cli.command import Command
from tests.cli.ran import Ran
from tests.servers.mcp import McpScenario, digest
from tests.skill_writer import WriteSkill


def test_without_a_terminal_it_shows_and_does_not_agree(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", under="here/.agents/skills")
    ran = openskills("trust")
    assert ran.code == 1
    assert f"project  {openskills.cwd}" in ran.lines
    assert f"place    {folder.parent}" in ran.lines
    assert any(line.startswith("digest   sha256:") for line in ran.lines)
    assert "  alpha  .agents/skills/alpha" in ran.lines
    assert "trust it with `openskills trust --yes`" in ran.err
    assert openskills("list").out == ""


def test_yes_agrees_and_remove_takes_it_back(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    assert "trusted: agents may use these skills" in openskills("trust", "--yes").lines
    assert openskills("list").lines[0].startswith("alpha\t")
    assert "already trusted: agents may use these skills" in openskills("trust").lines
    assert "not be used any more" in openskills("trust", "--remove").out
    assert openskills("list").out == ""
    assert "were not trusted" in openskills("trust", "--remove").out


def test_on_a_terminal_the_answer_decides(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    assert openskills.on_terminal("trust", replies={"[y/N]": "\n"}).code == 1
    assert openskills.on_terminal("trust", replies={"[y/N]": "yes\n"}).code == 0
    assert openskills("list").lines[0].startswith("alpha\t")


def test_json_reports_and_decides_only_on_request(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", "Merges. Use when asked.", under="here/.agents/skills")
    ran = openskills("trust", "--json")
    assert (ran.code, ran.json["trusted"]) == (0, False)
    assert list(ran.json) == ["project", "places", "trusted", "skills", "problems", "grants"]
    (place,) = ran.json["places"]
    assert (ran.json["project"], place.pop("digest", "").isalnum()) == (str(openskills.cwd), True)
    assert place == {"path": str(folder.parent), "trusted": False, "fault": None}
    expected = {"name": "alpha", "description": "Merges. Use when asked.", "location": f"{folder}/SKILL.md"}
    assert ran.json["skills"] == [expected]
    assert openskills("trust", "--json", "--yes").json["trusted"] is True
    assert openskills("trust", "--json").json["trusted"] is True
    removed = {"project": str(openskills.cwd), "places": [str(folder.parent)], "removed": True}
    assert openskills("trust", "--json", "--remove").json == removed


def test_the_list_has_every_project_with_its_places(
    openskills: Command, write_skill: WriteSkill, tmp_path: Path
) -> None:
    assert openskills("trust", "--list", "--json").json == {"projects": []}
    for project in ("here", "other"):
        write_skill("alpha", under=f"{project}/.claude/skills")
        assert openskills("trust", tmp_path / project, "--yes").code == 0
    (first, second) = openskills("trust", "--list", "--json").json["projects"]
    assert (first["path"], second["path"]) == (str(tmp_path / "here"), str(tmp_path / "other"))
    (place,) = first["places"]
    assert (list(place), place["path"]) == (["path", "digest", "at"], str(tmp_path / "here/.claude/skills"))
    lines = openskills("trust", "--list").lines
    assert lines[0] == str(tmp_path / "here")
    assert lines[1].endswith(f"  {tmp_path}/here/.claude/skills")


def test_folders_of_one_project_are_agreed_to_by_themselves(openskills: Command, write_skill: WriteSkill) -> None:
    (openskills.cwd / ".git").mkdir()
    sub = openskills.cwd / "sub"
    write_skill("top", under="here/.agents/skills")
    write_skill("near", under="here/sub/.agents/skills")
    assert openskills("trust", "--yes").code == 0
    ran = openskills("list", cwd=sub)
    assert (ran.lines[0].split("\t")[0], len(ran.lines)) == ("top", 1)
    assert "not trusted yet, or changed since: sub/.agents/skills; review" in ran.err
    assert "agents do not use sub/.agents/skills; trust it" in openskills("trust", cwd=sub).err
    assert openskills("trust", "--yes", cwd=sub).lines[-1].startswith("trusted")
    for folder in (openskills.cwd, sub):
        assert openskills("trust", cwd=folder).lines[-1].startswith("already trusted")
    assert [line.split("\t")[0] for line in openskills("list", cwd=sub).lines] == ["near", "top"]
    assert len(openskills("trust", "--remove", "--json").json["places"]) == 2
    assert openskills("list", cwd=sub).out == ""


def test_every_place_is_shown_with_its_digest_and_every_skill_in_it(
    openskills: Command, write_skill: WriteSkill
) -> None:
    for place in (".claude", ".agents"):
        write_skill("alpha", under=f"here/{place}/skills")
    lines = openskills("trust", "--yes").lines
    assert [line.split()[0] for line in lines[:6]] == ["project", "place", "digest", "place", "digest", "skills"]
    # What is shadowed now counts when the other goes, so whoever agrees must see it.
    assert lines[6:8] == ["  alpha  .agents/skills/alpha", "  alpha  .claude/skills/alpha"]


def test_a_directory_that_cannot_be_trusted_does_not_affect_the_others(
    openskills: Command, write_skill: WriteSkill
) -> None:
    write_skill("alpha", under="here/.agents/skills")
    with (write_skill("huge", under="here/.claude/skills") / "huge.bin").open("wb") as file:
        file.truncate(1 << 40)
    ran = openskills("trust", "--yes")
    assert (ran.code, "digest   none" in ran.lines) == (1, True)
    assert "not trusted: " in ran.err
    assert ".claude/skills has more than 20,000 files and folders or" in ran.err
    assert openskills("list").lines[0].startswith("alpha\t")
    report = openskills("trust", "--json").json
    assert [place["trusted"] for place in report["places"]] == [False, True]
    assert (report["trusted"], "more than" in report["places"][0]["fault"]) == (False, True)


def test_a_no_is_remembered_and_can_be_forgotten(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    assert openskills.on_terminal("trust", replies={"[y/N]": "n\n"}).code == 1
    assert "[y/N]" not in openskills.on_terminal("list").out
    assert "Removed the decision" in openskills("trust", "--remove").out
    assert "[y/N]" in openskills.on_terminal("list", replies={"[y/N]": "y\n"}).out


def test_a_place_that_leads_out_of_the_project_is_named(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="elsewhere")
    (openskills.cwd / ".agents").mkdir()
    (openskills.cwd / ".agents" / "skills").symlink_to("../../elsewhere")
    ran = openskills("trust", "--yes")
    assert (ran.code, "has no skills in the standard directories" in ran.out) == (0, True)
    assert ".agents/skills: warning: a link to a directory outside of the project is not followed" in ran.err


def test_a_decision_that_cannot_be_written_is_an_error_and_leaves_nothing(
    new_openskills: Command, write_skill: WriteSkill
) -> None:
    write_skill("alpha", under="here/.agents/skills")
    line = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *new_openskills.line(["trust", "--yes"])]
    variables = new_openskills.variables({"OPENSKILL_INDEX": "0"})
    ran = subprocess.run(line, cwd=new_openskills.cwd, env=variables, capture_output=True, text=True)
    config = new_openskills.home / ".config" / "openskills"
    assert (ran.returncode, ran.stderr) == (1, f"error: {config}/trust.json: File too large\n")
    assert [path.name for path in config.iterdir()] == ["trust.lock"]


def test_a_folder_of_the_project_stands_for_it(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    (openskills.cwd / ".git").mkdir()
    deep = openskills.cwd / "a" / "b"
    deep.mkdir(parents=True)
    assert openskills("trust", deep, "--json").json["project"] == str(openskills.cwd)


def test_a_project_without_skills_has_nothing_to_decide(openskills: Command) -> None:
    ran = openskills("trust")
    assert (ran.code, "has no skills in the standard directories" in ran.out) == (0, True)
    assert openskills("trust", "--json").json["skills"] == []


def test_wrong_usage_is_reported(openskills: Command) -> None:
    assert openskills("trust", "nowhere").code == 2
    assert openskills("trust", "--yes", "--remove").code == 2


def test_a_broken_list_of_decisions_is_named(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    file = openskills.home / ".config" / "openskills" / "trust.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps([1]))
    ran = openskills("trust", "--list")
    assert ran.code == 2
    assert str(file) in ran.err


GRANTS = '[skills."*"]\nenvironment = { COLOUR = "red" }\n\n[skills.alpha]\nsecrets = ["TOKEN"]\ntimeout = "1m"\n'
SHOW = "echo colour=$COLOUR token=${#TOKEN}"


def run_alpha(openskills: Command, *options: str) -> Ran:
    return openskills("run", "alpha", "skills", *options, "--", SHOW, TOKEN="hunter2")


def test_a_project_file_grants_nothing_until_it_is_trusted_and_again_after_a_change(
    openskills: Command, write_skill: WriteSkill
) -> None:
    write_skill("alpha")
    file = openskills.cwd / "openskills.toml"
    file.write_text(GRANTS)
    ran = run_alpha(openskills)
    assert (ran.code, ran.lines) == (0, ["colour= token=0"])
    (warning,) = [line for line in ran.err.splitlines() if line.startswith("warning")]
    assert warning.startswith(
        f"warning: {file}: not trusted yet, or changed since, so it grants nothing (*: environment"
    )
    assert warning.endswith("alpha: secrets TOKEN; timeout 60 s); review it, then run `openskills trust`")

    ran = openskills("trust")
    assert (ran.code, f"place    {file}" in ran.lines) == (1, True)
    assert {"grants   *: environment COLOUR=red", "grants   alpha: secrets TOKEN; timeout 60 s"} <= set(ran.lines)
    assert "trusted: agents may use these skills and what the project file grants" in openskills("trust", "--yes").lines
    ran = run_alpha(openskills)
    assert (ran.lines, "warning" in ran.err) == (["colour=red token=7"], False)

    file.write_text(GRANTS.replace("red", "blue"))
    assert run_alpha(openskills).lines == ["colour= token=0"]
    assert run_alpha(openskills, "--trust").lines == ["colour=blue token=7"]
    assert run_alpha(openskills).lines == ["colour= token=0"]


def test_removing_trust_takes_the_grants_back(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    (openskills.cwd / "openskills.toml").write_text(GRANTS)
    below = openskills.cwd / "below"
    below.mkdir()
    openskills("trust", "--yes", cwd=below)
    assert run_alpha(openskills).lines == ["colour=red token=7"]
    removed = openskills("trust", "--remove", "--json").json
    assert removed["places"] == [str(openskills.cwd / "openskills.toml")]
    assert run_alpha(openskills).lines == ["colour= token=0"]


def test_a_file_with_options_of_validate_only_needs_no_trust(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    (openskills.cwd / "openskills.toml").write_text('[validate]\nignore = ["link-dead"]\n')
    assert "openskills.toml" not in run_alpha(openskills).err
    assert "no project file with grants" in openskills("trust").out


def test_a_named_project_file_is_trusted_by_its_name(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    (openskills.cwd / "ci.toml").write_text(GRANTS)
    ran = run_alpha(openskills, "--project", "ci.toml")
    assert "run `openskills trust --project ci.toml`" in ran.err
    openskills("trust", "--yes", "--project", "ci.toml")
    assert run_alpha(openskills, "--project", "ci.toml").lines == ["colour=red token=7"]
    assert run_alpha(openskills, "--project", "off").lines == run_alpha(openskills).lines == ["colour= token=0"]


def test_a_broken_project_file_stops_the_command_with_its_line(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    file = openskills.cwd / "openskills.toml"
    for text, message in (
        ("[skills.alpha]\nnetwrk = []\n", f"{file}:2: skills.alpha.netwrk: unknown key; did you mean network?"),
        ('[skills.alpha]\nnetwork = ["a b"]\n', f"{file}:2: skills.alpha: network: invalid host name 'a b'"),
        ('[skills.alpha]\nenvironment = { LD_PRELOAD = "x" }\n', f"{file}:2: skills.alpha: environment: LD_PRELOAD"),
    ):
        file.write_text(text)
        ran = run_alpha(openskills, "--trust")
        assert (ran.code, ran.out) == (2, "")
        assert message in ran.err
        assert openskills("list", "skills").code == 0


def test_a_secret_of_the_project_file_that_is_not_set_is_a_warning(
    openskills: Command, write_skill: WriteSkill
) -> None:
    write_skill("alpha")
    (openskills.cwd / "openskills.toml").write_text(GRANTS)
    ran = openskills("run", "alpha", "skills", "--trust", "--", SHOW)
    assert (ran.code, ran.lines) == (0, ["colour=red token=0"])
    assert "openskills.toml: secrets that are not set: TOKEN" in ran.err


SCRIPT = b"print('said by a server')\n"


def server_in(directory: Path) -> tuple[McpScenario, str]:
    scenario = McpScenario(directory)
    scenario.add("echo", {"scripts/say.py": SCRIPT})
    return scenario, scenario.write()


def test_the_skills_of_a_server_are_shown_trusted_used_and_forgotten(openskills: Command, tmp_path: Path) -> None:
    scenario, server = server_in(tmp_path)
    ran = openskills("list", server)
    assert ran.out == ""
    assert "[mcp-untrusted]" in ran.err
    shown = openskills("trust", server)
    assert shown.code == 1
    assert f"server   {server}" in shown.lines
    assert "  echo  2 files, 75 bytes  skill://echo/SKILL.md" in shown.lines
    assert "trusted: agents may use these skills" in openskills("trust", server, "--yes").lines
    assert openskills("list", server).lines[0].startswith("echo\tDoes it.\tmcp:")
    assert not any(call.startswith("resources/read") for call in scenario.calls)
    assert "said by a server" in openskills("run", "echo", "--skills", server, "--", "python scripts/say.py").out
    assert "scripts/say.py" in openskills("info", "echo", "--skills", server).out
    assert f"{server} skill://echo/SKILL.md" in openskills("trust", "--list").out
    assert "Removed the decisions" in openskills("trust", server, "--remove").out
    assert "There were no decisions" in openskills("trust", server, "--remove").out
    assert openskills("list", SKILLS_ROOT=server).out == ""
    assert openskills("list", "--trust", SKILLS_ROOT=server).lines[0].startswith("echo\t")


def test_trust_in_a_server_is_reported_as_json(openskills: Command, tmp_path: Path) -> None:
    _, server = server_in(tmp_path)
    report = openskills("trust", server, "--json").json
    assert report["trusted"] is False
    assert report["skills"][0]["files"]["scripts/say.py"]["sha256"] == digest(SCRIPT).removeprefix("sha256:")
    pinned = f"{server}#sha256={report['digest']}"
    assert openskills("list", pinned).lines[0].startswith("echo\t")
    agreed = openskills("trust", server, "--json", "--yes").json
    assert (agreed["trusted"], agreed["skills"][0]["trusted"]) == (True, True)
    assert openskills("trust", server, "--json", "--remove").json["removed"] is True


def test_on_a_terminal_the_user_is_asked_about_a_server(openskills: Command, tmp_path: Path) -> None:
    _, server = server_in(tmp_path)
    refused = openskills.on_terminal("list", server, replies={"Use the skills of this server? [y/N]": "\n"})
    assert "Does it." in refused.out
    assert openskills("list", server).out == ""
    assert openskills.on_terminal("trust", server, replies={"[y/N]": "yes\n"}).code == 0
    assert openskills("list", server).lines[0].startswith("echo\t")


def test_removing_trust_in_a_project_keeps_that_in_servers(openskills: Command, tmp_path: Path) -> None:
    _, server = server_in(tmp_path)
    openskills("trust", server, "--yes")
    openskills("trust", "--remove")
    assert openskills("list", server).lines[0].startswith("echo\t")


def test_a_server_that_cannot_be_started_is_an_error(openskills: Command) -> None:
    ran = openskills("trust", "mcp:no-such-server")
    assert ran.code != 0
    assert "the program 'no-such-server' does not exist" in ran.err
