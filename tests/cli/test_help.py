"""Help, version and shell completion."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import typer.main
from typer.core import TyperGroup

from openskills.cli.main import app
from openskills.version import __version__
from tests.cli.command import Command
from tests.skill_writer import WriteSkill

ROOT = cast("TyperGroup", typer.main.get_command(app))


def command_lines() -> Iterator[tuple[str, ...]]:
    """Every command and every command of a group."""
    yield ()
    for name, command in ROOT.commands.items():
        yield (name,)
        for below in command.commands if isinstance(command, TyperGroup) else ():
            yield (name, below)


@pytest.mark.parametrize("columns", [80, 120])
def test_every_help_fits_the_terminal_and_shows_no_types(openskills: Command, columns: int) -> None:
    for words in command_lines():
        text = openskills(*words, "--help", COLUMNS=str(columns)).out
        assert text.startswith(f"Usage: {' '.join(('openskills', *words))} [OPTIONS]")
        assert max(map(len, text.splitlines())) <= min(columns, 100), words
        assert not re.search(r"<(bool|str|int|float|list)\b|list\[", text), words
        assert not re.search(r"\[\[|\.\.\.\]\.", text), words
        # Paragraphs are filled, and every example fits one line of 80 columns.
        for paragraph in text.split("\n\n"):
            if not re.search(r"^\s", paragraph, re.MULTILINE):
                assert paragraph.rstrip("\n") == textwrap.fill(" ".join(paragraph.split()), min(columns, 100)), words
            if paragraph.startswith("Example"):
                assert all(re.match(r"  \S", line) for line in paragraph.splitlines()[1:]), (words, paragraph)


def test_every_command_that_prints_data_has_json(openskills: Command) -> None:
    # `serve` and `mcp` run until they are stopped, `help` prints text.
    without = [words for words in command_lines() if "  --json " not in openskills(*words, "--help").out]
    groups = [words for words in without if not words or isinstance(ROOT.commands[words[0]], TyperGroup)]
    assert [words for words in without if words not in groups] == [("serve",), ("ui",), ("mcp",), ("help",)]
    assert all(len(words) < 2 for words in groups)


def test_help_with_a_command_is_the_help_of_that_command(openskills: Command) -> None:
    for words in ((), ("run",), ("sessions", "list")):
        ran = openskills("help", *words)
        assert (ran.code, ran.out, ran.err) == (0, openskills(*words, "--help").out, "")
    ran = openskills("help", "lits")
    assert (ran.code, ran.out) == (2, "")
    assert "No such command 'lits'" in ran.err


def test_the_version_has_a_short_option(openskills: Command) -> None:
    assert openskills("-V").out == f"openskills {__version__}\n"


def complete(openskills: Command, line: str, **environment: str) -> list[str]:
    """The completions of bash for a command line."""
    variables = {"_OPENSKILLS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    ran = replace(openskills, environment={**variables, **environment})()
    assert ran.err == ""
    return ran.out.split()


def test_names_of_skills_are_completed_from_the_sources_on_the_line(
    openskills: Command, write_skill: WriteSkill
) -> None:
    for name in ("alpha", "alps", "beta"):
        write_skill(name)
    for command in ("info", "run", "doctor --skill"):
        noun, *option = command.split(" ")
        for sources, found in (("skills", ["alpha", "alps"]), ("nowhere", [])):
            assert complete(openskills, " ".join(["openskills", noun, "--skills", sources, *option, "al"])) == found


def test_names_of_sessions_are_completed(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    assert complete(openskills, "openskills sessions show ") == []
    for name in ("monday", "tuesday"):
        model = ("--model", "rule", "--executor", "none", "--skills", "skills")
        assert openskills("chat", "hello", *model, "--session", name).code == 0
    commands = ("sessions show", "sessions delete", "artifacts list")
    for line in (*commands, "chat --session", "run --session", "mcp --session"):
        assert complete(openskills, f"openskills {line} mo") == ["monday"]
    assert sorted(complete(openskills, "openskills sessions show ")) == ["monday", "tuesday"]


def test_ids_of_hosted_skills_are_completed(openskills: Command) -> None:
    (openskills.cwd / "skills_cli").mkdir()
    for name in ("count", "copy", "echo"):
        (openskills.cwd / "skills_cli" / f"{name}.py").write_text("print('{}')\n", "utf-8")
    assert complete(openskills, "openskills invoke --local co") == ["copy", "count"]
    assert complete(openskills, "openskills invoke --url http://127.0.0.1:9 co") == []
    assert complete(openskills, "openskills config co") == ["copy", "count"]


def test_names_of_models_are_completed(openskills: Command) -> None:
    assert complete(openskills, "openskills chat --model r", OLLAMA_HOST="127.0.0.1:9") == ["rule"]
    found = complete(
        openskills, "openskills chat --model m", OLLAMA_HOST="127.0.0.1:9", OPENSKILL_MODEL="my.models:make"
    )
    assert found == ["my.models:make"]


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("info", "alpha"),
        ("search", "alpha"),
        ("validate",),
        ("to-prompt",),
        ("token-report", "--estimate"),
        ("route", "alpha"),
        ("doctor", "--skill", "alpha"),
    ],
    ids=lambda words: words[0],
)
def test_sources_are_arguments_or_values_of_an_option(
    openskills: Command, write_skill: WriteSkill, words: tuple[str, ...]
) -> None:
    write_skill("alpha", "Alpha things. Use when asked for alpha.")
    as_argument = openskills(*words, "skills")
    as_option = openskills(*words, "--skills", "skills")
    assert (as_argument.code, as_argument.out) == (as_option.code, as_option.out)
    assert as_argument.code == 0
    assert "alpha" in as_argument.out or words[0] in ("validate", "token-report", "doctor")


def test_run_takes_sources_before_the_dashes_and_the_command_after_them(
    openskills: Command, write_skill: WriteSkill
) -> None:
    write_skill("alpha")
    local = ("--executor", "local")
    for words in (("alpha", "skills"), ("alpha", "--skills", "skills"), ("skills/alpha",)):
        ran = openskills("run", *words, *local, "--", "echo", "--skills", "--")
        assert (ran.code, ran.out) == (0, "--skills --\n")
    assert openskills("run", "alpha", "--skills", "skills", *local, "echo", "hi").out == "hi\n"


def test_new_and_to_prompt_print_json(openskills: Command) -> None:
    made = openskills("new", "alpha", "--json").json
    assert (made["name"], made["path"], made["problems"]) == ("alpha", str(openskills.cwd / "alpha"), [])
    assert "SKILL.md" in made["files"]
    shown = openskills("to-prompt", "alpha", "--json").json["skills"]
    assert [(one["name"], Path(one["location"]).name) for one in shown] == [("alpha", "SKILL.md")]
    for path in (("alpha",), ("--skills", "alpha")):
        assert openskills("read-properties", *path, "--json").json["name"] == "alpha"
    for paths in ((), ("alpha", "--skills", "alpha")):
        assert openskills("read-properties", *paths).code == 2
    checked = openskills("validate", "alpha", "--json")
    assert checked.json == openskills("validate", "alpha", "--format", "json").json
    assert openskills("validate", "alpha", "--json", "--format", "sarif").code == 2
