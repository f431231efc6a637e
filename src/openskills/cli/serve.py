"""Serve, keys, runs.

`openskills serve`: skills behind one HTTP protocol.

`openskills keys`: the bearer keys of those who may call a skill host.

`openskills runs`: what a skill host was asked for, and what came of it.
"""

import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import (
    Column,
    QuickCommand,
    QuickGroup,
    escape_line,
    pluralize,
    say,
    say_json,
    say_text,
    show_table,
    warn,
)
from openskills.cli.skills import Json, get_settings
from openskills.errors import InvalidArgument, MissingExtra
from openskills.settings import parse_seconds

if TYPE_CHECKING:
    import socket

    from openskills.host.auth import StoredKey
    from openskills.host.history import History, RunRecord
    from openskills.host.parts import HostOptions
    from openskills.host.registry.registry import RegistryEntry
    from openskills.settings import Settings


Many = list[str] | None

_STYLES = {"ready": "green", "broken": "bold red", "unavailable": "yellow"}


def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes one that is free.")] = 8000,
    workers: Annotated[int, typer.Option("--workers", min=1, max=256, help="How many processes serve.")] = 1,
    manifests: Annotated[
        Many, typer.Option("--manifests", metavar="DIR", help="More manifests, beside those of OPENSKILL_CLI_DIR.")
    ] = None,
    skills: Annotated[
        Many, typer.Option("--skills", metavar="DIR", help="SKILL.md folders whose entry script is to be served.")
    ] = None,
    executor: Annotated[
        str | None, typer.Option("--executor", metavar="NAME", help="auto, sandbox, container or local.")
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Nobody needs a key, wherever the host can be reached from.")
    ] = False,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, metavar="N", help="Invocations that run at a time.")
    ] = None,
    queue: Annotated[
        int | None, typer.Option("--queue", min=0, metavar="N", help="Invocations that may wait for a place.")
    ] = None,
    json_log: Annotated[
        str, typer.Option("--json-log", metavar="FILE", help="A line of JSON for each invocation; - is stdout.")
    ] = "-",
    grace: Annotated[
        float, typer.Option("--grace", min=0, metavar="S", help="Seconds for running invocations at the end.")
    ] = 30.0,
) -> None:
    """Serve skills over HTTP: POST /skills/ID:invoke with {"input": {...}}.

    A skill is a script in ./skills_cli (OPENSKILL_CLI_DIR), best with a manifest beside it: ID.py and ID.yaml. What has
    changed is read again at once, and on SIGHUP. SIGTERM and Ctrl-C let running invocations finish; a second one does
    not. On this machine nobody needs a key; listening elsewhere needs keys (openskills keys new) or --no-auth.

    Examples:
      openskills serve
      openskills serve --port 9000 --workers 4 --json-log access.jsonl
      openskills serve --host 0.0.0.0 --manifests deploy/skills
      uvicorn openskills.host.app:app              the same as an application for any ASGI server

    GET /skills lists what is served, GET /docs explains the addresses, GET /openapi.json is for generated clients.
    """
    settings = get_settings(context)
    settings = replace(
        settings,
        executor=executor or settings.executor,
        host_concurrency=concurrency or settings.host_concurrency,
        host_queue=settings.host_queue if queue is None else queue,
    )
    try:
        from openskills.host import server as serving
        from openskills.host.parts import HostOptions
    except ImportError as error:
        raise MissingExtra("host", f"the skill host ({error.name})") from None
    options = HostOptions(
        manifests=tuple(map(Path, manifests or ())),
        skills=tuple(map(Path, skills or ())),
        json_log=json_log,
        workers=workers,
        grace=grace,
    )
    settings = serving.resolve_auth(settings, host, no_auth=no_auth)
    entries = _load_entries(settings, options)
    with serving.open_socket(host, port) as listener:
        _greet(entries, settings, listener)
        serving.serve(settings, options, listener)
    warn("stopped")


def _load_entries(settings: "Settings", options: "HostOptions") -> "tuple[RegistryEntry, ...]":
    from openskills.host.parts import list_kinds as kinds
    from openskills.host.registry.registry import Registry

    return Registry.load(settings, manifests=options.manifests, skills=options.skills, kinds=kinds()).list_entries()


def _greet(entries: "tuple[RegistryEntry, ...]", settings: "Settings", listener: "socket.socket") -> None:
    from openskills.host.server import socket_url as address

    for entry in entries:
        kind, what = (
            ("", "") if entry.registration is None else (entry.registration.kind, entry.registration.description)
        )
        state = (f"{entry.status:<12}", _STYLES[entry.status])
        warn(
            "  ",
            state,
            (f"{entry.id:<20}", "cyan"),
            f" {kind:<12}",
            textwrap.shorten(escape_line(what), 70, placeholder="…"),
        )
        for problem in entry.problems:
            warn(" " * 14, escape_line(str(problem)))
    if not entries:
        warn(f"no skills: there is nothing in {settings.cli_dir}; put a script ID.py there, or use --manifests")
    url = address(listener)
    ready = sum(entry.status == "ready" for entry in entries)
    warn(f"serving {pluralize(ready, 'skill')} on ", (url, "bold"), f"  (docs: {url}/docs)")
    if settings.host_auth == "off":
        warn("no key is needed (this machine only)" if "127.0.0.1" in url or "[::1]" in url else _NO_KEY_WARNING)
    else:
        warn(f"keys are needed; they are in {settings.host_keys}")
    _suggest(entries, settings, url)


_NO_KEY_WARNING = "no key is needed: everybody who can reach this address can run these skills"


def _suggest(entries: "tuple[RegistryEntry, ...]", settings: "Settings", url: str) -> None:
    ready = [entry.id for entry in entries if entry.status == "ready"]
    if not ready:
        return
    skill = "echo" if "echo" in ready else ready[0]
    body = '{"input": {"text": "hello"}}' if skill == "echo" else '{"input": {}}'
    key = "" if settings.host_auth == "off" else ' -H "Authorization: Bearer $OPENSKILL_API_KEY"'
    warn(f"try: curl -sS -X POST {url}/skills/{skill}:invoke{key} -H 'Content-Type: application/json' -d '{body}'")


keys_app = typer.Typer(cls=QuickGroup, no_args_is_help=True, help="Make, list and revoke the keys of a skill host.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is: letters, digits, dots, @, - and _.")]


@keys_app.command("new", cls=QuickCommand)
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
    from openskills.host.auth import add_key
    from openskills.host.auth import create_key as minted

    lifetime = None if expires is None else parse_seconds(expires, "--expires")
    key, kept = minted(name, now=datetime.now(UTC), lifetime=lifetime)
    kept = replace(kept, scopes=tuple(scope or ("*",)), rate_per_second=rate, burst=burst, concurrency=concurrency)
    add_key(get_settings(context).host_keys, kept)
    if as_json:
        say_json({"key": key, **_key_json(kept)})
        return
    say_text(key)
    warn(f"this is the only time that the key of {name!r} is shown; send it as: Authorization: Bearer {key[:8]}...")


@keys_app.command("list", cls=QuickCommand)
def list_keys(context: typer.Context, as_json: Json = False) -> None:
    """List the keys: whose they are, how they begin, and what they may do.

    In a pipe each key is one line: name, beginning, scopes, limits, when it was made and when it ends (UTC), with tabs
    between.
    """
    from openskills.host.auth import read_keys

    found = read_keys(get_settings(context).host_keys)
    if as_json:
        say_json({"keys": [_key_json(key) for key in found]})
        return
    _show_keys(found)
    if not found:
        warn("there are no keys; `openskills keys new NAME` makes one")


@keys_app.command("revoke", cls=QuickCommand)
def revoke(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Whose keys.")],
    as_json: Json = False,
) -> None:
    """Revoke keys: hosts that run refuse them from the next request on.

    Example:
      openskills keys revoke partner
    """
    from openskills.host.auth import revoke_key

    path = get_settings(context).host_keys
    done = [revoke_key(path, name) for name in dict.fromkeys(names)]
    if as_json:
        say_json({"revoked": [key.name for key in done]})
        return
    say(f"revoked {', '.join(escape_line(key.name) for key in done)}")


def _show_keys(found: "Sequence[StoredKey]") -> None:
    columns = (
        Column("key", "bold cyan"),
        Column("begins"),
        Column("scopes", wide=True),
        Column("limits"),
        Column("made"),
        Column("ends"),
    )
    short = sys.stdout.isatty()
    show_table(columns, [_key_cells(key, short) for key in found])


def _key_cells(key: "StoredKey", short: bool) -> tuple[str, ...]:
    made, ends = key.created, key.expires or ""
    if short:
        made, ends = made[:10], _format_expiry(key)
    return escape_line(key.name), key.hint, " ".join(key.scopes), _format_limits(key), made, ends


def _format_expiry(key: "StoredKey") -> str:
    if key.expires_at is None:
        return "never"
    return "expired" if key.expires_at <= datetime.now(UTC).timestamp() else str(key.expires)[:10]


def _format_limits(key: "StoredKey") -> str:
    words: list[str] = []
    if key.rate_per_second is not None:
        words.append(f"{key.rate_per_second:g}/s")
    if key.burst is not None:
        words.append(f"burst {key.burst}")
    if key.concurrency is not None:
        words.append(f"{key.concurrency} at a time")
    return ", ".join(words)


def _key_json(key: "StoredKey") -> dict[str, object]:
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


runs_app = typer.Typer(cls=QuickGroup, no_args_is_help=True, help="See what a skill host has done.")


@runs_app.command("list", cls=QuickCommand)
def list_runs(
    context: typer.Context,
    skill: Annotated[str | None, typer.Option("--skill", metavar="ID", help="Only those of one skill.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only those of the last 90s, 15m, 24h, 7d.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """List invocations, the latest first.

    Examples:
      openskills runs list
      openskills runs list --skill calculator --failed --since 1h

    In a pipe each is one line: id, when it began (UTC), skill, runner, who, code, milliseconds, trace id and the
    message of a failure, with tabs between.
    """
    from openskills.sync import run

    earliest = None if since is None else time.time() - parse_seconds(since, "--since")
    history = _open_history(get_settings(context))
    found = run(history.list(skill=skill, failed=failed, since=earliest, limit=limit))
    if as_json:
        say_json({"runs": [record.to_dict() for record in found]})
        return
    _show_runs(found)
    if not found:
        warn("there are no such runs")


@runs_app.command("show", cls=QuickCommand)
def show(
    context: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a run, or how it begins.")],
    as_json: Json = False,
) -> None:
    """Print everything that is known of one invocation.

    Example:
      openskills runs show run_019a8c3b4d5e
    """
    from openskills.sync import run

    found = run(_open_history(get_settings(context)).get(run_id)).to_dict()
    if as_json:
        say_json(found)
        return
    for name, value in found.items():
        say((f"{name}: ", "bold"), escape_line(str(value)))


def _open_history(settings: "Settings") -> "History":
    from openskills.host.history import History

    if settings.host_history is None:
        raise InvalidArgument("OPENSKILL_HOST_HISTORY", "is `off`, so there is no history to look at")
    return History(settings.host_history)


def _show_runs(found: "Sequence[RunRecord]") -> None:
    columns = (
        Column("run", "bold cyan"),
        Column("began"),
        Column("skill"),
        Column("runner"),
        Column("who"),
        Column("code"),
        Column("ms"),
        Column("trace"),
        Column("message", wide=True),
    )
    show_table(columns, [_run_cells(record, short=sys.stdout.isatty()) for record in found])


def _run_cells(record: "RunRecord", *, short: bool) -> tuple[str, ...]:
    began = datetime.fromtimestamp(record.began, UTC)
    shown = began.astimezone().strftime("%m-%d %H:%M:%S") if short else began.isoformat(timespec="milliseconds")
    texts = (record.skill_id, record.runner_type, record.who)
    return (
        record.id,
        shown,
        *map(escape_line, texts),
        str(record.code),
        f"{record.latency_ms:.1f}",
        "" if short else escape_line(record.trace_id),
        escape_line(record.message),
    )
