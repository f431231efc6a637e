"""`openskills serve`, `openskills keys` and `openskills runs`: the HTTP skill host, its API keys and its history."""

import json
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from openskills.cli.output import (
    CliProgress,
    Column,
    Row,
    escape_line,
    escape_text,
    pluralize,
    say,
    say_json,
    say_text,
    show_table,
    warn,
)
from openskills.cli.parameters import GrantOptions, HostUrl, Json, Many, Text, argument, check_choice, option, parse_env
from openskills.cli.trust import collect_grants
from openskills.cli.ui import greet_console
from openskills.errors import InvalidArgument, MissingExtra
from openskills.settings import PUBLISH_MODES, Settings, parse_base_url, parse_database, parse_seconds
from openskills.sync import run

if TYPE_CHECKING:
    from openskills.host.auth import StoredKey
    from openskills.host.history import History
    from openskills.host.keys import KeyFile, KeyTable
    from openskills.host.registry.registry import Registry
    from openskills.host.runs import Runs


T = TypeVar("T")
_MAX_SHOWN_PATHS = 3
_MAX_ID_WIDTH = 40
_STYLES = {"ready": "green", "broken": "bold red", "unavailable": "yellow"}


def serve(
    settings: Settings,
    given: GrantOptions,
    paths: Annotated[Many, argument("PATH", "SKILL.md folders to serve, as --skills.")] = None,
    host: Annotated[str, option("ADDRESS", "The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 chooses a free one.")] = 8000,
    workers: Annotated[int, typer.Option("--workers", min=1, max=256, help="The number of worker processes.")] = 1,
    manifests: Annotated[Many, option("DIR", "More manifests, besides those in OPENSKILL_CLI_DIR.")] = None,
    skills: Annotated[Many, option("DIR", "SKILL.md folders whose scripts to serve.")] = None,
    derive_schemas: Annotated[
        str,
        option(
            "help|never", "Run scripts without a manifest once with --help, in the sandbox, to learn their arguments."
        ),
    ] = "never",
    executor: Annotated[Text, option("NAME", "auto, sandbox, container, local or ray.")] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Allow all requests without a key.")] = False,
    concurrency: Annotated[int | None, option("N", "Maximum number of concurrent invocations.", min=1)] = None,
    queue: Annotated[int | None, option("N", "Maximum number of waiting invocations.", min=0)] = None,
    mcp_tools: Annotated[str, option("WHICH", "Tools of /mcp: session, hosted, both, or off for no /mcp.")] = "both",
    publish: Annotated[Text, option("WHO", "Who may read and install skills: keys, open (everybody) or off.")] = None,
    public_url: Annotated[
        Text, option("URL", "The address of this host for other machines, used in published documents.")
    ] = None,
    database: Annotated[
        Text, option("URL", "The database of several hosts, postgresql://..., or sqlite:////FILE.")
    ] = None,
    console: Annotated[bool, typer.Option("--console/--no-console", help="Serve the web console at /.")] = True,
    json_log: Annotated[Text, option("FILE", "Log invocations as lines of JSON; - is stdout.")] = None,
    grace: Annotated[float, option("S", "Seconds to finish running invocations at shutdown.", min=0)] = 30.0,
    drain_delay: Annotated[
        float, option("S", "Seconds to go on serving after SIGTERM while /readyz says 503.", min=0, max=3600)
    ] = 0.0,
) -> None:
    """Serve skills over HTTP: POST /skills/ID:invoke with {"input": {...}}.

    A skill is a script in ./skills_cli (OPENSKILL_CLI_DIR), preferably with a manifest: ID.py and ID.yaml; or a folder
    with a SKILL.md (--skills). Scripts of a folder without a manifest are served as FOLDER.SCRIPT; their input has the
    fields args, stdin and files. Changes are picked up at once, and on SIGHUP. SIGTERM and Ctrl-C let running
    invocations finish; a second signal stops them. With --drain-delay, load balancers that ask /readyz have time to
    send requests elsewhere before new invocations are refused. As long as there are no keys (openskills keys new),
    local requests that did not pass through a proxy need none. Other addresses need keys or --no-auth. Invocations are
    logged to stdout: readable on a terminal, otherwise as JSON.

    --network, --secret and --env apply to all scripts and programs that are served, --timeout to all skills. They
    override the project file, which overrides manifests; a manifest may only shorten the timeout. --with, --venv and
    --install always are for scripts without a manifest; nobody is asked.

    Examples:
      openskills serve
      openskills serve --port 9000 --workers 4 --json-log access.jsonl
      openskills serve skills/ --host 0.0.0.0 --manifests deploy/skills
      openskills serve --skills skills/ --derive-schemas help
      uvicorn openskills.host.app:app       the same with any ASGI server

    MCP clients use /mcp: skills are tools there, and those of PATH can be loaded and run. The SDKs of OpenAI and
    Anthropic, and openskills push, upload skills to /v1/skills. The skills of PATH and uploads are also published:
    `npx skills add URL` installs them, and /marketplace.json is for Claude Code and Codex. Publishing needs keys as
    everything else does; with --publish open, everybody who can reach the host may read the skills of PATH and shared
    uploads.

    The web console is at /; openskills ui serves it alone, without any configuration.

    GET /skills lists the skills, GET /docs describes the endpoints, GET /openapi.json is for generated clients.
    """
    check_choice("--derive-schemas", derive_schemas, ("help", "never"))
    if publish is not None:
        check_choice("--publish", publish, PUBLISH_MODES)
    own = given.parse(settings)
    settings = replace(
        settings,
        executor=executor or settings.executor,
        host_concurrency=concurrency or settings.host_concurrency,
        host_queue=settings.host_queue if queue is None else queue,
        host_publish=publish or settings.host_publish,
        host_public_url=settings.host_public_url if public_url is None else parse_base_url(public_url, "--public-url"),
    )
    if database is not None:
        address, file = parse_database(database, "--database")
        settings = replace(settings, host_database=address, host_history=file or settings.host_history)
    try:
        from openskills.host import server
        from openskills.host.mcp import MCP_TOOLS
        from openskills.host.parts import HostOptions
        from openskills.host.registry.registry import Registry
    except ImportError as error:
        raise MissingExtra("host", f"the skill host ({error.name})") from None
    options = HostOptions(
        manifests=tuple(map(Path, manifests or ())),
        skills=tuple(map(Path, [*(paths or ()), *(skills or ())])),
        grants=collect_grants(own, given, settings),
        read_help=derive_schemas == "help",
        install="always" if given.parse_install(can_ask=False) == "always" else "never",
        json_log="-" if json_log is None else json_log,
        text_log=json_log is None and sys.stdout.isatty(),
        workers=workers,
        grace=grace,
        drain_delay=drain_delay,
        mcp_tools=mcp_tools,
        console=console,
        trusted=given.trust,
    )
    check_choice("--mcp-tools", mcp_tools, MCP_TOOLS)
    if mcp_tools == "session" and workers > 1:
        raise InvalidArgument("--mcp-tools", "sessions need --workers 1, because each worker would have its own")
    settings = server.resolve_auth(settings, host, no_auth=no_auth)
    with CliProgress("reading the skills"):
        registry = Registry(
            settings,
            manifests=options.manifests,
            skills=options.skills,
            grants=options.grants,
            read_help=options.read_help,
            install=options.install,
        )
    with server.open_socket(host, port) as listener:
        count, place = server.count_keys(settings)
        needs_key = settings.host_auth == "on" or (settings.host_auth == "auto" and count > 0)
        _greet(registry, settings, server.socket_url(listener), needs_key=needs_key, key_place=place)
        if console:
            greet_console(settings, server.socket_url(listener))
        server.serve(settings, options, listener)
    warn("stopped")


def _use_keys(settings: Settings, work: "Callable[[KeyFile | KeyTable], Awaitable[T]]") -> T:
    """Do something with the keys: those of the file, or of the database that several hosts share."""
    from openskills.host.keys import open_key_store

    async def use() -> T:
        store = open_key_store(settings)
        try:
            return await work(store)
        finally:
            await store.close()

    return run(use())


def _greet(registry: "Registry", settings: Settings, url: str, *, needs_key: bool, key_place: str) -> None:
    from openskills.host.runners.kinds import RUNNER_KINDS, describe_isolation, is_cluster

    entries = registry.list_entries()
    width = min(max((len(entry.id) for entry in entries), default=0), _MAX_ID_WIDTH)
    for entry in entries:
        found = entry.registration
        kind, description, isolation = "", "", ""
        if found is not None:
            kind, description = found.kind, f"[derived] {found.description}" if found.derived else found.description
            isolation = describe_isolation(found.kind, found.executor, settings)
        text = textwrap.shorten(escape_line(description), 70, placeholder="…")
        state = (f"{entry.status:<12}", _STYLES[entry.status])
        where = (f"{isolation:<12}", "red" if "none" in isolation else "")
        warn("  ", state, (f"{entry.id:<{width}}", "cyan"), f" {kind:<12}", where, text)
        for problem in entry.problems:
            warn(" " * 14, escape_line(str(problem)))
    for problem in registry.problems:
        warn("  ", ("problem     ", "yellow"), escape_line(str(problem)))
    by_reason = attrgetter("skill", "reason")
    for (skill, reason), group in groupby(sorted(registry.skipped, key=by_reason), key=by_reason):
        paths = [one.script for one in group if one.script]
        more = f" and {len(paths) - _MAX_SHOWN_PATHS} more" if len(paths) > _MAX_SHOWN_PATHS else ""
        shown = f": {', '.join(paths[:_MAX_SHOWN_PATHS])}{more}" if paths else ""
        warn("  ", ("not served  ", "dim"), (escape_line(skill), "cyan"), escape_line(f"{shown}: {reason}"))
    if not entries:
        warn(f"no skills in {settings.cli_dir}; put a script ID.py there, or use --manifests")
    ready = [entry.id for entry in entries if entry.status == "ready"]
    warn(f"serving {pluralize(len(ready), 'skill')} on ", (url, "bold"), f"  (docs: {url}/docs)")
    found = [entry.registration for entry in entries if entry.registration is not None]
    here = sum(one.kind in RUNNER_KINDS and RUNNER_KINDS[one.kind].isolated for one in found)
    if here and is_cluster(settings.executor):
        what = f"{pluralize(here, 'skill')} of type cli:python or cli:exec"
        warn(f"executor ray: commands and scripts of skill folders run on the cluster; {what} in the sandbox here")
    if needs_key:
        warn(f"authentication: requests need a key from {key_place}")
    elif "127.0.0.1" in url or "[::1]" in url:
        warn("authentication: off (this machine only)")
    else:
        warn("authentication: off; anyone who can reach this address can run these skills")
    if settings.host_publish == "open":
        warn("publishing: open; anyone who can reach this address can read and install the skills of PATH")
    if not ready:
        return
    skill = "echo" if "echo" in ready else ready[0]
    is_derived = registry.get(skill).derived
    example = '{"text": "hello"}' if skill == "echo" else '{"args": ["--help"]}' if is_derived else "{}"
    body = f'{{"input": {example}}}'
    key = "" if not needs_key else ' -H "Authorization: Bearer $OPENSKILL_API_KEY"'
    warn(f"try: curl -sS -X POST {url}/skills/{skill}:invoke{key} -H 'Content-Type: application/json' -d '{body}'")


keys_app = typer.Typer(no_args_is_help=True, help="Create, list, scope, rotate and revoke keys of a skill host.")

Name = Annotated[str, argument("NAME", "The owner of the key: letters, digits, dots, @, - and _.")]


@keys_app.command("new")
def new(
    settings: Settings,
    name: Name,
    scope: Annotated[
        Many,
        option(
            "SKILL",
            "A skill the key may call, or a pattern such as file_*; skills:write and skills:publish allow uploads.",
            show_default="*",
        ),
    ] = None,
    role: Annotated[
        str, option("ROLE", "read (see skills), run (also run them) or admin (also manage the host).")
    ] = "run",
    expires: Annotated[Text, option("TIME", "Expire after this time, such as 12h or 30d.")] = None,
    limit: Annotated[Many, option("NAME=N", "A limit: rate (calls per second), burst or concurrency.")] = None,
    as_json: Json = False,
) -> None:
    """Create a key and print it. It is shown only once, because only its hash is stored.

    Examples:
      openskills keys new ci
      openskills keys new partner --scope 'file_*' --limit rate=5 --expires 30d
      openskills keys new ops --role admin
      openskills keys new ada --scope '*' --scope skills:write
      openskills keys new team --scope '*' --scope skills:publish

    The last two may upload skills: ada for herself, team for everybody. A running host accepts it at once.
    """
    from openskills.host.admission import parse_limits
    from openskills.host.auth import create_key

    lifetime = None if expires is None else parse_seconds(expires, "--expires")
    key, stored = create_key(name, now=datetime.now(UTC), lifetime=lifetime)
    limits: dict[str, Any] = {**parse_limits(limit or ())}
    stored = replace(stored, scopes=tuple(scope or ("*",)), role=role, **limits)
    _use_keys(settings, lambda keys: keys.add(stored))
    say_text(key, json=as_json and {"key": key, **stored.to_dict()})
    if not as_json:
        warn(f"this key of {name!r} is not shown again; send it as: Authorization: Bearer {key[:8]}...")


@keys_app.command("list")
def list_keys(settings: Settings, as_json: Json = False) -> None:
    """List the keys with their owners, prefixes, scopes, roles and limits.

    In a pipe each key is one line of tab-separated fields: name, prefix, scopes, limits, creation and expiry (UTC),
    and role.
    """
    found = _use_keys(settings, lambda keys: keys.list())
    rows: list[Row] = []
    for key in found:
        is_expired = key.expires_at is not None and key.expires_at <= time.time()
        expires = "expired" if is_expired else (key.expires or "never")[:10]
        times = ((key.created[:10], key.created), (expires, key.expires or ""))
        rows.append((key.name, key.hint, " ".join(key.scopes), key.describe_limits(), *times, key.role))
    titles = ("limits", "created", "expires", "role")
    show_table(
        (Column("key", "bold cyan"), "prefix", Column("scopes", wide=True), *titles),
        rows,
        empty="no keys; `openskills keys new NAME` creates one",
        json=as_json and {"keys": [key.to_dict() for key in found]},
    )


@keys_app.command("rotate")
def rotate(settings: Settings, name: Name, as_json: Json = False) -> None:
    """Replace a key by a new one with the same role, scopes, limits and lifetime, and print it.

    Running hosts refuse the old one from the next request on, and its console sessions end.

    Example:
      openskills keys rotate ci
    """
    key, stored = _use_keys(settings, lambda keys: keys.rotate(name, now=datetime.now(UTC)))
    say_text(key, json=as_json and {"key": key, **stored.to_dict()})
    if not as_json:
        warn(f"this key of {escape_line(name)!r} is not shown again; the previous one is refused from now on")


@keys_app.command("scope")
def scope(
    settings: Settings,
    name: Name,
    scopes: Annotated[list[str], argument("SKILL", "Skills or patterns such as file_*; * for every skill.")],
    as_json: Json = False,
) -> None:
    """Replace the scopes of a key, which stays the same. Running hosts apply it from the next request on.

    Example:
      openskills keys scope ci 'file_*' echo
    """
    stored = _use_keys(settings, lambda keys: keys.change_scopes(name, scopes))
    if as_json:
        say_json(stored.to_dict())
        return
    warn(f"the key of {escape_line(name)!r} has the scopes {escape_line(' '.join(stored.scopes))}")


@keys_app.command("revoke")
def revoke(
    settings: Settings,
    names: Annotated[list[str], argument("NAME", "The owners of the keys.")],
    as_json: Json = False,
) -> None:
    """Revoke keys: running hosts refuse them from the next request on.

    Example:
      openskills keys revoke partner
    """

    async def revoke_all(keys: "KeyFile | KeyTable") -> "list[StoredKey]":
        return [await keys.revoke(name) for name in dict.fromkeys(names)]

    done = [key.name for key in _use_keys(settings, revoke_all)]
    say(f"revoked {', '.join(map(escape_line, done))}", json=as_json and {"revoked": done})


runs_app = typer.Typer(no_args_is_help=True, help="Show, follow and cancel the runs of a skill host.")

RunId = Annotated[str, argument("ID", "The id of a run.")]
RunSkill = Annotated[Text, option("ID", "Only runs of this skill.")]


@runs_app.command("list")
def list_runs(
    settings: Settings,
    skill: RunSkill = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only failed runs.")] = False,
    state: Annotated[
        str, option("STATE", "Only runs in this state: running, succeeded, cancelled, unfinished, ...")
    ] = "",
    who: Annotated[Text, option("NAME", "Only runs of the key with this name.", names="--key")] = None,
    text: Annotated[str, option("TEXT", "Only runs with this in their id, skill, trace id or error.")] = "",
    since: Annotated[Text, option("TIME", "Only runs of the last 90s, 15m, 24h, 7d.")] = None,
    before: Annotated[str, option("ID", "Only runs before this one, for the next page.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of runs.")] = 50,
    as_json: Json = False,
) -> None:
    """List invocations and commands, latest first; also those that are running.

    Examples:
      openskills runs list
      openskills runs list --skill calculator --failed --since 1h
      openskills runs list --state unfinished

    In a pipe each invocation is one line of tab-separated fields: id, start (UTC), skill, runner, caller, code,
    milliseconds, trace id, and the error message.
    """
    from openskills.host.history import UNFINISHED, RunFilter
    from openskills.host.runs import RunState

    if state:
        check_choice("--state", state, (*RunState, UNFINISHED))
    earliest = None if since is None else time.time() - parse_seconds(since, "--since")
    history = _open_history(settings)
    wanted = RunFilter(skill, state, who, earliest, text=text, before=before, failed=failed)
    found = run(history.list(wanted, limit=limit))
    rows: list[Row] = []
    for one in found:
        began = (_format_time(one.began), datetime.fromtimestamp(one.began, UTC).isoformat(timespec="milliseconds"))
        numbers = (str(one.code), f"{one.latency_ms:.1f}", (None, one.trace_id))
        rows.append((one.id, began, one.skill_id, one.runner_type, one.who, *numbers, one.message))
    titles = ("began", "skill", "runner", "who", "code", "ms")
    show_table(
        (Column("run", "bold cyan"), *titles, Column("message", wide=True)),
        rows,
        empty="no runs found",
        json=as_json and {"runs": [record.to_dict() for record in found]},
    )


@runs_app.command("show")
def show(
    settings: Settings,
    run_id: Annotated[str, argument("ID", "The id of a run, its first characters, or a trace id.")],
    as_json: Json = False,
) -> None:
    """Print all details of one invocation.

    Example:
      openskills runs show run_019a8c3b4d5e
    """
    found = run(_open_history(settings).get(run_id)).to_dict()
    if as_json:
        say_json(found)
        return
    for name, value in found.items():
        say((f"{name}: ", "bold"), escape_line(str(value)))


@runs_app.command("events")
def events(
    settings: Settings,
    run_id: RunId,
    after: Annotated[int, option("N", "Only events after the one with this id.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Print the output of an asynchronous run or a command, from its start until it ends.

    With --json each event is one line: id, event and data; the last one has the result.

    Example:
      openskills runs events run_019a8c3b4d5e0123456789abcdef01234567
    """
    raise typer.Exit(_use_runs(settings, lambda runs: _follow_run(runs, run_id, after, as_json=as_json)))


async def _follow_run(runs: "Runs", run_id: str, after: int, *, as_json: bool) -> int:
    async with aclosing(runs.events(run_id, after)) as found:
        async for event in found:
            data: dict[str, Any] = json.loads(event.data)
            if as_json:
                say_text(json.dumps({"id": event.id, "event": event.kind, "data": data}))
            elif event.kind == "result":
                warn("done" if data["error"] is None else escape_line(str(data["error"]["message"])))
            elif event.kind in {"stdout", "stderr"}:
                shown = escape_text(str(data.get("text", "")).removesuffix("\r"))
                stream = sys.stdout if event.kind == "stdout" else sys.stderr
                stream.write(shown if data.get("raw") else f"{shown}\n")
            else:
                warn((f"{event.kind}: {escape_line(json.dumps(data, ensure_ascii=False))}", "dim"))
            sys.stdout.flush()
            if event.kind == "result":
                return 0 if data["success"] else 1
    return 1


@runs_app.command("cancel")
def cancel(settings: Settings, run_id: RunId, as_json: Json = False) -> None:
    """Cancel an asynchronous run or a command; one that has ended is unchanged.

    Example:
      openskills runs cancel run_019a8c3b4d5e0123456789abcdef01234567
    """
    found = _use_runs(settings, lambda runs: runs.cancel(run_id)).to_dict()
    text = f"{run_id} has ended: {found['state']}" if found["ended"] else f"cancelling {run_id}"
    say(text, json=as_json and {name: found[name] for name in ("id", "state", "skill_id", "cancel_requested")})


@runs_app.command("again")
def again(
    settings: Settings,
    run_id: RunId,
    url: HostUrl = None,
    env: Annotated[Many, option("NAME=VALUE", "A variable of a command; their values are not stored.")] = None,
    as_json: Json = False,
) -> None:
    """Start a run with the input of another one, or a command again, and print its id.

    Examples:
      openskills runs again run_019a8c3b4d5e0123456789abcdef01234567
      openskills runs again run_019a8c3b4d5e0123456789abcdef01234567 --env TOKEN=...
    """
    from openskills.host.client.client import Client

    async def start_again() -> str:
        async with Client(url, settings=settings) as client:
            return (await client.run_again(run_id, env=parse_env(env))).id

    started = run(start_again())
    say_text(started, json=as_json and {"id": started})


@runs_app.command("compare")
def compare(settings: Settings, first: RunId, second: RunId, as_json: Json = False) -> None:
    """Show how two runs differ: result, time, memory, input and output.

    Example:
      openskills runs compare $BEFORE $AFTER
    """
    found = _use_runs(settings, lambda runs: runs.compare(first, second))
    if as_json:
        from openskills.host.runs import encode_data

        say_json(json.loads(encode_data(found)))
        return
    for one in found["differences"]:
        say((f"{one['field']}: ", "bold"))
        for side in ("a", "b"):
            say(f"  {side}: {escape_line(json.dumps(one[side], ensure_ascii=False))[:2_000]}")
    for line in found["log"]:
        say((escape_line(line), {"+": "green", "-": "red"}.get(line[:1], "dim")))
    if not found["differences"] and not found["log"]:
        say("no differences")


@runs_app.command("stats")
def stats(
    settings: Settings,
    skill: RunSkill = None,
    since: Annotated[str, option("TIME", "The time to look back: 90s, 15m, 24h, 7d.")] = "24h",
    buckets: Annotated[int, typer.Option("--buckets", min=1, max=500, help="The number of intervals.")] = 12,
    as_json: Json = False,
) -> None:
    """Show the number of calls, errors, and the median and 95th percentile of the latency over time.

    Example:
      openskills runs stats --since 1h --buckets 6
    """
    from openskills.host.history import RunFilter

    now = time.time()
    history = _open_history(settings)
    earliest = now - parse_seconds(since, "--since")
    found = run(history.series(RunFilter(skill), since=earliest, until=now, buckets=buckets))
    rows: list[Row] = []
    for one in found:
        latencies = ("" if value is None else f"{value:.1f}" for value in (one.p50_ms, one.p95_ms))
        rows.append((_format_time(one.began), one.calls, one.errors, *latencies))
    columns = (Column("from", "bold"), "calls", "errors", "p50 ms", "p95 ms")
    seconds = (now - earliest) / buckets
    show_table(columns, rows, json=as_json and {"seconds": seconds, "series": [one.to_dict() for one in found]})


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%m-%d %H:%M:%S")


def _use_runs(settings: Settings, work: "Callable[[Runs], Awaitable[T]]") -> T:
    """Do something with the runs of the hosts of this machine, through their database."""
    from openskills.host.database import Database, find_database
    from openskills.host.runs import Runs

    if settings.host_history is None and settings.host_database is None:
        raise InvalidArgument("OPENSKILL_HOST_HISTORY", "is `off`, so runs are only known to the host itself")

    async def use() -> T:
        database = Database(find_database(settings))
        runs = Runs(database)
        try:
            return await work(runs)
        finally:
            await runs.close()
            await database.close()

    return run(use())


def _open_history(settings: Settings) -> "History":
    from openskills.host.database import find_history
    from openskills.host.history import History

    if settings.host_history is None:
        raise InvalidArgument("OPENSKILL_HOST_HISTORY", "is `off`, so no history is recorded")
    return History(find_history(settings), journal=settings.state_dir / "host.db")
