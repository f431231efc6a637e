"""`packages`: install, list and remove packages; `doctor --skill` and `info` show what a skill needs."""

import os
import time
from dataclasses import replace

import pytest

from openskills.cli.packages import app
from tests.cli.command import Command
from tests.executors.wheels import wheel
from tests.skill_writer import WriteSkill


@pytest.fixture
def openskills(openskills: Command) -> Command:
    """The command, with a directory of one wheel as the only index."""
    directory = openskills.home / "wheels"
    directory.mkdir()
    name, data = wheel("tiny", "1.0", "VERSION = '1.0'\n")
    (directory / name).write_bytes(data)
    index = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(directory)}
    return replace(openskills, environment=index)


def test_packages_are_installed_listed_and_removed(openskills: Command) -> None:
    assert openskills("packages", "list").err == (
        "no packages are installed; openskills packages add PACKAGE installs some\n"
    )
    ran = openskills("packages", "add", "tiny>=1")
    assert (ran.code, ran.out) == (0, "installed: tiny==1.0\n")
    assert openskills("packages", "add", "tiny>=1").code == 0
    (found,) = openskills("packages", "list", "--json").json["environments"]
    assert (found["requested"], found["packages"]) == (["tiny>=1"], ["tiny==1.0"])
    assert openskills("packages", "list").lines[0].split("\t")[:2] == [found["id"], "tiny>=1"]
    assert openskills("packages", "clean").err == "nothing to remove\n"
    assert openskills("packages", "clean", "--all").code == 1
    refused = openskills("packages", "clean", "--all", "--json")
    assert (refused.code, refused.out, "confirm with --yes" in refused.err) == (1, "", True)
    assert "would remove 1 environment" in openskills("packages", "clean", "--all", "--dry-run").out
    assert openskills("packages", "clean", "--all", "--yes", "--json").json == {"removed": [found["id"]]}
    assert openskills("packages", "list", "--json").json == {"environments": []}


def test_environments_that_were_not_used_for_long_are_removed(openskills: Command) -> None:
    openskills("packages", "add", "tiny")
    (directory,) = (openskills.home / ".local/state/openskills/environments").glob("[0-9a-f]" * 32)
    old = time.time() - 31 * 24 * 3600
    os.utime(directory, (old, old))
    assert openskills("packages", "clean", "--yes").out.startswith("removed 1 environment")
    assert not directory.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "PACKAGE: missing; name at least one package"),
        (("--", "-r", "x"), 2, "'-r' is not a requirement"),
        (("no-such-package",), 1, "the index has no package 'no-such-package' for this Python"),
    ],
)
def test_what_cannot_be_installed_is_named(
    arguments: tuple[str, ...], code: int, message: str, openskills: Command
) -> None:
    ran = openskills("packages", "add", *arguments)
    assert ran.code == code
    assert message in ran.err


def test_every_command_has_help_with_examples(openskills: Command) -> None:
    for command in app.registered_commands:
        assert "Examples:" in openskills("packages", str(command.name), "--help").out


def test_run_takes_packages_and_an_environment_from_options_and_asks_on_a_terminal(
    openskills: Command, write_skill: WriteSkill
) -> None:
    folder = write_skill("alpha")
    say = ("--", "python3 -c 'import tiny; print(tiny.VERSION)'")
    ran = openskills("run", "alpha", "skills", *say)
    assert ran.code == 1
    assert "the Python module 'tiny' is missing: run again with --with tiny" in ran.err
    assert openskills("run", "alpha", "skills", "--with", "tiny", *say).out == "1.0\n"
    openskills("packages", "clean", "--all", "--yes")
    (folder / "requirements.txt").write_text("tiny==1.0\n")
    ran = openskills("run", "alpha", "skills", *say)
    assert "warning: requirements.txt declares tiny==1.0; not installed: allow it with --install always" in ran.err
    assert openskills("run", "alpha", "skills", "--install", "always", *say).out == "1.0\n"
    ran = openskills("run", "alpha", "skills", "--install", "sure", *say)
    assert (ran.code, "--install: unknown value 'sure'; use ask, never or always" in ran.err) == (2, True)
    ran = openskills("run", "alpha", "skills", "--venv", "skills", *say)
    assert (ran.code, "is not a virtual environment" in ran.err) == (2, True)


def test_what_a_skill_needs_is_shown_with_what_is_missing(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", front='metadata: {"openclaw": {"requires": {"env": ["ALPHA_KEY"]}}}\n')
    (folder / "scripts").mkdir()
    (folder / "scripts" / "a.py").write_text(
        "import json, tiny, PIL.Image, helpers\nimport subprocess\nsubprocess.run(['soffice', '--headless'])\n"
    )
    (folder / "scripts" / "helpers.py").write_text("")
    (folder / "requirements.txt").write_text("tiny\n-e .\n")
    needs = openskills("info", "./skills/alpha", "--json").json["needs"]
    assert (needs["packages"], needs["declared_in"]) == (["tiny"], ["requirements.txt"])
    assert (needs["imports"], needs["programs"]) == ({"PIL": "pillow", "tiny": "tiny"}, ["soffice"])
    shown = openskills("info", "./skills/alpha").out
    assert "packages      tiny (declared in requirements.txt)" in shown
    ran = openskills("doctor", "--skill", "./skills/alpha", "--json")
    checks = {(check["section"], check["name"]): check["ok"] for check in ran.json["checks"]}
    assert checks[("packages", "declared")] is False
    assert checks[("variables", "ALPHA_KEY")] is False
    assert checks[("imports", "tiny")] is False
    openskills("packages", "add", "tiny")
    ran = openskills("doctor", "--skill", "./skills/alpha", "--json", ALPHA_KEY="k")
    checks = {(check["section"], check["name"]): check for check in ran.json["checks"]}
    assert checks[("packages", "declared")]["ok"]
    assert checks[("imports", "tiny")]["ok"]
    assert checks[("variables", "ALPHA_KEY")]["ok"]
    assert checks[("imports", "PIL")]["fix"].startswith("add --with pillow")
    assert checks[("programs", "soffice")]["fix"] in (None, "on Debian: apt-get install libreoffice")
