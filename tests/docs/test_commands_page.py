"""The page of commands has every command with exactly its options."""

import re
from typing import cast

import pytest
import typer.main
from typer.core import TyperGroup

from openskills.cli.main import app
from tests.docs.page import ROOT

PAGE = ROOT / "docs" / "reference" / "commands.md"
GROUP = cast("TyperGroup", typer.main.get_command(app))
# Typer adds these when it parses a line.
EVERYWHERE = {"--help", "-h"}


def section(name: str) -> str:
    """What the page says about a command; the part before the first one is about all."""
    parts = re.split(r"^## openskills ([\w-]+)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    return parts[0] if name == "" else dict(zip(parts[1::2], parts[2::2], strict=True)).get(name, "")


def options_on_page(text: str) -> set[str]:
    """The options in the first cells of tables."""
    cells = re.findall(r"^\| (`-[^|]*) \|", text, re.MULTILINE)
    return {option for cell in cells for option in re.findall(r"`(--?[\w-]+)", cell)}


def options_of(name: str) -> set[str]:
    """The options that a command takes, or the commands below it; those of the group for the empty name."""
    command = GROUP.commands[name] if name else GROUP
    below = command.commands.values() if name and isinstance(command, TyperGroup) else ()
    parameters = [parameter for one in (command, *below) for parameter in one.params]
    return {option for parameter in parameters for option in parameter.opts if option.startswith("-")}


@pytest.mark.parametrize("name", sorted(GROUP.commands))
def test_the_page_has_the_options_of_a_command_and_no_others(name: str) -> None:
    text = section(name)
    assert text, f"there is no section `## openskills {name}`"
    assert options_on_page(text) == options_of(name) - EVERYWHERE
    assert "Exit status:" in text


def test_the_page_has_the_options_of_all_commands_and_no_others() -> None:
    assert options_on_page(section("")) == options_of("") | EVERYWHERE


def test_the_page_has_no_command_that_does_not_exist() -> None:
    named = re.findall(r"^## openskills ([\w-]+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(GROUP.commands)
