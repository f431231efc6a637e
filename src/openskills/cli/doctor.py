"""`openskills doctor`: what this machine can do, and what is missing."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from openskills.cli.listing import Json
from openskills.cli.output import plain, say, say_json
from openskills.cli.progress import Waiting
from openskills.cli.skills import settings_of

if TYPE_CHECKING:
    from openskills.cli.machine import Check


def doctor(context: typer.Context, as_json: Json = False) -> None:
    """Show what this machine can do and what is missing, with what to install.

    Executors are tried with their self-tests, which start harmless commands. Nothing is changed, nothing is left.

    Examples:
      openskills doctor
      openskills doctor --json

    Exit codes: 0 everything required is there, 1 something required is missing.
    """
    from openskills.cli.isolation import isolation
    from openskills.cli.machine import checks

    settings = settings_of(context)
    with Waiting("trying the executors"):
        found = [*checks(settings), *isolation(settings)]
    missing = [check for check in found if check.required and not check.ok]
    if as_json:
        say_json({"ok": not missing, "checks": [_json(check) for check in found]})
    else:
        for section in dict.fromkeys(check.section for check in found):
            say((section, "bold"))
            for check in found:
                if check.section == section:
                    _show(check)
        _summarise(missing)
    if missing:
        raise typer.Exit(1)


def _json(check: "Check") -> dict[str, object]:
    return {**asdict(check), "fix": None if check.ok else check.fix}


def _show(check: "Check") -> None:
    state = (
        ("ok      ", "green") if check.ok else ("missing ", "bold red") if check.required else ("absent  ", "yellow")
    )
    say("  ", state, (f"{check.name:<16}", "cyan"), plain(check.detail))
    if not check.ok and check.fix:
        say(" " * 26, ("fix: ", "bold"), plain(check.fix))


def _summarise(missing: "list[Check]") -> None:
    say("")
    if missing:
        say(("something required is missing: ", "bold red"), ", ".join(check.name for check in missing))
    else:
        say(("everything required is there", "bold green"))
