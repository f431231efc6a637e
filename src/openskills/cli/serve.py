"""`openskills serve`: skills behind one HTTP protocol."""

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import counted, plain, warn
from openskills.cli.skills import settings_of
from openskills.errors import MissingExtra

if TYPE_CHECKING:
    import socket

    from openskills.host.options import HostOptions
    from openskills.host.registry.entries import Entry
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
    settings = settings_of(context)
    settings = replace(
        settings,
        executor=executor or settings.executor,
        host_concurrency=concurrency or settings.host_concurrency,
        host_queue=settings.host_queue if queue is None else queue,
    )
    try:
        from openskills.host import serving
        from openskills.host.options import HostOptions
    except ImportError as error:
        raise MissingExtra("host", f"the skill host ({error.name})") from None
    options = HostOptions(
        manifests=tuple(map(Path, manifests or ())),
        skills=tuple(map(Path, skills or ())),
        json_log=json_log,
        workers=workers,
        grace=grace,
    )
    settings = serving.settled_auth(settings, host, no_auth=no_auth)
    entries = _entries(settings, options)
    with serving.listening(host, port) as listener:
        _greet(entries, settings, listener)
        serving.serve(settings, options, listener)
    warn("stopped")


def _entries(settings: "Settings", options: "HostOptions") -> "tuple[Entry, ...]":
    from openskills.host.parts import kinds
    from openskills.host.registry.registry import Registry

    return Registry.load(settings, manifests=options.manifests, skills=options.skills, kinds=kinds()).entries()


def _greet(entries: "tuple[Entry, ...]", settings: "Settings", listener: "socket.socket") -> None:
    from openskills.host.serving import address

    for entry in entries:
        kind, what = (
            ("", "") if entry.registration is None else (entry.registration.kind, entry.registration.description)
        )
        state = (f"{entry.status:<12}", _STYLES[entry.status])
        warn(
            "  ", state, (f"{entry.id:<20}", "cyan"), f" {kind:<12}", textwrap.shorten(plain(what), 70, placeholder="…")
        )
        for problem in entry.problems:
            warn(" " * 14, plain(str(problem)))
    if not entries:
        warn(f"no skills: there is nothing in {settings.cli_dir}; put a script ID.py there, or use --manifests")
    url = address(listener)
    ready = sum(entry.status == "ready" for entry in entries)
    warn(f"serving {counted(ready, 'skill')} on ", (url, "bold"), f"  (docs: {url}/docs)")
    if settings.host_auth == "off":
        warn("no key is needed (this machine only)" if "127.0.0.1" in url or "[::1]" in url else _EVERYBODY)
    else:
        warn(f"keys are needed; they are in {settings.host_keys}")
    _suggest(entries, settings, url)


_EVERYBODY = "no key is needed: everybody who can reach this address can run these skills"


def _suggest(entries: "tuple[Entry, ...]", settings: "Settings", url: str) -> None:
    ready = [entry.id for entry in entries if entry.status == "ready"]
    if not ready:
        return
    skill = "echo" if "echo" in ready else ready[0]
    body = '{"input": {"text": "hello"}}' if skill == "echo" else '{"input": {}}'
    key = "" if settings.host_auth == "off" else ' -H "Authorization: Bearer $OPENSKILL_API_KEY"'
    warn(f"try: curl -sS -X POST {url}/skills/{skill}:invoke{key} -H 'Content-Type: application/json' -d '{body}'")
