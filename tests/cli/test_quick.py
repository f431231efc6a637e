"""Quick commands: text needs no checker, everything else still has typer's."""

import subprocess
import sys
from enum import StrEnum
from typing import Annotated

import pytest
import typer

from openskills.cli.quick import QuickCommand, QuickGroup


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def run(*arguments: str) -> object:
    app = typer.Typer(cls=QuickGroup)
    seen: list[object] = []

    @app.command(cls=QuickCommand)
    def paint(  # pyright: ignore[reportUnusedFunction]
        name: str,
        more: Annotated[list[str] | None, typer.Argument()] = None,
        size: Annotated[int, typer.Option(min=1)] = 3,
        colour: Colour = Colour.RED,
        note: str | None = None,
        loud: bool = False,
    ) -> None:
        seen.extend([name, more, size, colour, note, loud])

    typer.main.get_command(app)(list(arguments), standalone_mode=False)
    return seen


def test_every_kind_of_parameter_arrives_as_its_type() -> None:
    assert run("a") == ["a", None, 3, Colour.RED, None, False]
    everything = run("a", "b", "c", "--size", "5", "--colour", "blue", "--note", "7", "--loud")
    assert everything == ["a", ["b", "c"], 5, Colour.BLUE, "7", True]


@pytest.mark.parametrize(
    "arguments", [(), ("a", "--size", "0"), ("a", "--size", "x"), ("a", "--colour", "green"), ("a", "--what")]
)
def test_wrong_values_are_still_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(typer.TyperException):
        run(*arguments)


def test_text_does_not_load_pydantic() -> None:
    program = """
import sys, typer
from openskills.cli.quick import QuickCommand, QuickGroup
app = typer.Typer(cls=QuickGroup)
@app.command(cls=QuickCommand)
def hello(name: str, size: int = 1, loud: bool = False) -> None: ...
typer.main.get_command(app)(["x"], standalone_mode=False)
assert "pydantic" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
