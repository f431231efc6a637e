"""`openskills ui` and `openskills console`: the web console on this machine, and access to that of a host."""

import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from openskills.cli.output import Column, Row, escape_line, say, say_text, show_table, warn
from openskills.cli.parameters import FoldersOption, GrantOptions, Json, Many, Text, Trust, argument, option
from openskills.cli.remote import open_remote
from openskills.cli.workspaces import to_age_cell
from openskills.errors import InvalidArgument, MissingExtra, SkillError
from openskills.settings import Settings
from openskills.sync import run

if TYPE_CHECKING:
    from openskills.host.console.access import ConsoleSessions

DEFAULT_PORT = 8000
_ADDRESS = "127.0.0.1"
T = TypeVar("T")

Url = Annotated[Text, option("URL", "The address of the host.", show_default="OPENSKILL_HTTP_BASE_URL")]


def ui(
    settings: Settings,
    paths: Annotated[Many, argument("PATH", "SKILL.md folders.", show_default="the standard places")] = None,
    skills: FoldersOption = None,
    port: Annotated[
        int | None, option("PORT", "The port.", min=0, max=65535, show_default=f"{DEFAULT_PORT}, or a free one")
    ] = None,
    executor: Annotated[Text, option("NAME", "auto, sandbox, container or local.")] = None,
    trust: Trust = False,
) -> None:
    """Open the web console for skills on this machine: prints its address and serves it until Ctrl-C.

    The address contains a secret that works once and within an hour: the browser gets a cookie for it. Skills with
    scripts can be run, always in the sandbox. It listens on this machine only; openskills serve is for others.

    Examples:
      openskills ui
      openskills ui skills/ --port 9000
      openskills console link      another link, while it runs
    """
    settings = replace(settings, executor=executor or settings.executor)
    try:
        from openskills.host import server
        from openskills.host.parts import HostOptions
    except ImportError as error:
        raise MissingExtra("host", f"the console ({error.name})") from None
    from openskills.cli.trust import collect_grants
    from openskills.project import SkillGrants

    options = HostOptions(
        skills=tuple(map(Path, [*(paths or ()), *(skills or ())])),
        grants=collect_grants(SkillGrants(), GrantOptions(trust=trust), settings),
        json_log="",
        trusted=trust,
        preload=True,
    )
    settings = server.resolve_auth(settings, _ADDRESS, no_auth=False)
    try:
        listener = server.open_socket(_ADDRESS, DEFAULT_PORT if port is None else port)
    except InvalidArgument:
        if port is not None:
            raise
        listener = server.open_socket(_ADDRESS, 0)
    with listener:
        say_text(f"{server.socket_url(listener)}/?token={create_link(settings)}")
        sys.stdout.flush()
        warn("open this address in a browser; Ctrl-C stops the console")
        server.serve(settings, options, listener)
    warn("stopped")


def create_link(settings: Settings) -> str:
    """The secret of a new link. Raises `SkillError` if the database cannot be written."""
    return _use_sessions(settings, lambda sessions: sessions.create_link())


def greet_console(settings: Settings, url: str) -> None:
    """Say where the console of a host is. On a terminal of this machine, with a link that logs in once."""
    is_local = url.startswith((f"http://{_ADDRESS}:", "http://[::1]:"))
    token = ""
    if is_local and sys.stderr.isatty():
        try:
            token = f"?token={create_link(settings)}"
        except SkillError as error:
            warn(f"console: no link can be created: {escape_line(error.message)}")
    warn(f"console: {url}/{token}" + ("" if token else " (log in with a key, or with `openskills console link`)"))


app = typer.Typer(no_args_is_help=True, help="Manage access to the web console of a host.")


@app.command("link")
def link(settings: Settings, url: Url = None, as_json: Json = False) -> None:
    """Print a link that opens the console of a running host on this machine. It works once and within an hour.

    Examples:
      openskills console link
      openskills console link --url http://127.0.0.1:9000
    """
    address = f"{(url or settings.http_base_url).rstrip('/')}/?token={create_link(settings)}"
    say_text(address, json=as_json and {"url": address})


@app.command("sessions")
def sessions(settings: Settings, as_json: Json = False) -> None:
    """List the browsers that have access to the console.

    In a pipe each session is one line of tab-separated fields: id, key, role, created and used (seconds ago), address
    and browser.
    """
    found = _use_sessions(settings, lambda store: store.list())
    columns = ("session", "key", "role", "created", "used", "address", Column("browser", wide=True))
    rows: list[Row] = []
    for one in found:
        ages = (to_age_cell(time.time() - at) for at in (one.created, one.used))
        rows.append((one.id, one.key or "", one.role, *ages, one.address, one.browser))
    show_table(columns, rows, "no sessions", as_json and {"sessions": [one.to_dict() for one in found]})


@app.command("end")
def end(
    settings: Settings,
    ids: Annotated[list[str], argument("ID", "The ids of sessions; `openskills console sessions` shows them.")],
    as_json: Json = False,
) -> None:
    """End sessions of the console: their browsers have to log in again.

    Example:
      openskills console end 3f1c0a9b2d4e
    """
    ended = list(dict.fromkeys(ids))
    for session_id in ended:
        _use_sessions(settings, lambda store, wanted=session_id: store.end(wanted))
    say(f"ended {', '.join(map(escape_line, ended))}", json=as_json and {"ended": ended})


@app.command("reload")
def reload(settings: Settings, url: Url = None, as_json: Json = False) -> None:
    """Make a running host look at its skills again. It also notices changes by itself.

    Needs a key with the role admin in OPENSKILL_API_KEY.

    Example:
      openskills console reload --url http://127.0.0.1:9000
    """
    with open_remote(url, settings) as remote:
        found = remote.request("POST", "/admin/reload")["data"]
    changes = [f"{name} {kind}" for part in found.values() for kind, names in part.items() for name in names]
    say(f"reloaded: {', '.join(map(escape_line, changes)) or 'no changes'}", json=as_json and found)


def _use_sessions(settings: Settings, work: "Callable[[ConsoleSessions], Awaitable[T]]") -> T:
    from openskills.host.auth import KeyRing
    from openskills.host.console.access import ConsoleSessions
    from openskills.host.database import find_database
    from openskills.host.keys import open_key_store

    async def use() -> T:
        keys, ring = open_key_store(settings), KeyRing(None)
        store = ConsoleSessions(find_database(settings), ring)
        try:
            ring.update(await keys.list())
            return await work(store)
        finally:
            await keys.close()
            await store.close()

    return run(use())
