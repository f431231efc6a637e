"""`openskills keys`: the bearer keys of those who may call a skill host."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.listing import Json
from openskills.cli.output import plain, say, say_json, say_text, warn
from openskills.cli.quick import QuickCommand, QuickGroup
from openskills.cli.skills import settings_of
from openskills.cli.table import Column, show_table
from openskills.settings import seconds

if TYPE_CHECKING:
    from openskills.host.books.key_file import StoredKey

app = typer.Typer(cls=QuickGroup, no_args_is_help=True, help="Make, list and revoke the keys of a skill host.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is: letters, digits, dots, @, - and _.")]


@app.command("new", cls=QuickCommand)
def new(
    context: typer.Context,
    name: Name,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope", metavar="SKILL", help="A skill that it may call, or a pattern: file_*.", show_default="*"
        ),
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="After how long it ends: 12h, 30d.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", help="How many calls a second it may make.")
    ] = None,
    burst: Annotated[
        int | None, typer.Option("--burst", metavar="N", help="How many of those at once.", show_default="one second's")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", metavar="N", help="How many of its calls may run at a time.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a key and print it. It is shown this once: only a hash of it is kept.

    Examples:
      openskills keys new ci
      openskills keys new partner --scope 'file_*' --scope echo --rate 5 --concurrency 2 --expires 30d

    A host that runs knows it at once.
    """
    from openskills.host.books.key_file import add_key, minted

    lifetime = None if expires is None else seconds(expires, "--expires")
    key, kept = minted(name, now=datetime.now(UTC), lifetime=lifetime)
    kept = replace(kept, scopes=tuple(scope or ("*",)), rate_per_second=rate, burst=burst, concurrency=concurrency)
    add_key(settings_of(context).host_keys, kept)
    if as_json:
        say_json({"key": key, **_json(kept)})
        return
    say_text(key)
    warn(f"this is the only time that the key of {name!r} is shown; send it as: Authorization: Bearer {key[:8]}...")


@app.command("list", cls=QuickCommand)
def list_keys(context: typer.Context, as_json: Json = False) -> None:
    """List the keys: whose they are, how they begin, and what they may do.

    In a pipe each key is one line: name, beginning, scopes, limits, when it was made and when it ends (UTC), with tabs
    between.
    """
    from openskills.host.books.key_file import read_keys

    found = read_keys(settings_of(context).host_keys)
    if as_json:
        say_json({"keys": [_json(key) for key in found]})
        return
    _show(found)
    if not found:
        warn("there are no keys; `openskills keys new NAME` makes one")


@app.command("revoke", cls=QuickCommand)
def revoke(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Whose keys.")],
    as_json: Json = False,
) -> None:
    """Revoke keys: hosts that run refuse them from the next request on.

    Example:
      openskills keys revoke partner
    """
    from openskills.host.books.key_file import revoke_key

    path = settings_of(context).host_keys
    done = [revoke_key(path, name) for name in dict.fromkeys(names)]
    if as_json:
        say_json({"revoked": [key.name for key in done]})
        return
    say(f"revoked {', '.join(plain(key.name) for key in done)}")


def _show(found: "Sequence[StoredKey]") -> None:
    columns = (
        Column("key", "bold cyan"),
        Column("begins"),
        Column("scopes", wide=True),
        Column("limits"),
        Column("made"),
        Column("ends"),
    )
    short = sys.stdout.isatty()
    show_table(columns, [_cells(key, short) for key in found])


def _cells(key: "StoredKey", short: bool) -> tuple[str, ...]:
    made, ends = key.created, key.expires or ""
    if short:
        made, ends = made[:10], _end(key)
    return plain(key.name), key.hint, " ".join(key.scopes), _limits(key), made, ends


def _end(key: "StoredKey") -> str:
    if key.ends is None:
        return "never"
    return "expired" if key.ends <= datetime.now(UTC).timestamp() else str(key.expires)[:10]


def _limits(key: "StoredKey") -> str:
    words: list[str] = []
    if key.rate_per_second is not None:
        words.append(f"{key.rate_per_second:g}/s")
    if key.burst is not None:
        words.append(f"burst {key.burst}")
    if key.concurrency is not None:
        words.append(f"{key.concurrency} at a time")
    return ", ".join(words)


def _json(key: "StoredKey") -> dict[str, object]:
    return {
        "name": key.name,
        "begins": key.hint,
        "scopes": list(key.scopes),
        "rate_per_second": key.rate_per_second,
        "burst": key.burst,
        "concurrency": key.concurrency,
        "created": key.created,
        "expires": key.expires,
    }
