"""`openskills mcp`: the MCP server over stdio, and the configuration of MCP clients."""

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openskills.cli.mcp_config import CLIENTS, ServerEntry, find_config_file, merge_config, render_config
from openskills.cli.output import ask, escape_line, say_text, warn
from openskills.cli.parameters import Executor, SourceOptions, Text, check_choice, option
from openskills.cli.sessions import complete_session
from openskills.cli.skills import open_sources, report_sources
from openskills.errors import InvalidArgument, MissingExtra
from openskills.settings import Settings

if TYPE_CHECKING:
    from openskills.adapters.mcp.server import McpServer
    from openskills.catalog.catalog import Catalog

_TOOLS = ("session", "hosted", "both")
_PROFILES = ("full", "knowledge_only")
_NAME = "openskills"


def mcp(
    settings: Settings,
    options: SourceOptions,
    tools: Annotated[
        str, option("WHICH", "session (load and run skills), hosted (skills as tools) or both.")
    ] = "session",
    profile: Annotated[Text, option("NAME", "full, or knowledge_only to run nothing.")] = None,
    executor: Executor = None,
    session: Annotated[
        Text,
        option(
            "NAME",
            "Use the workspace and the artifacts of this session.",
            show_default=False,
            autocompletion=complete_session,
        ),
    ] = None,
    print_config: Annotated[Text, option("CLIENT", f"Print the configuration of {', '.join(CLIENTS)}.")] = None,
    install: Annotated[
        Text, option("CLIENT", "Add the server to the client's configuration file, after asking.")
    ] = None,
    url: Annotated[Text, option("URL", "With --print-config or --install: /mcp of a skill host.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --install: do not ask.")] = False,
) -> None:
    """Serve skills to an MCP client over stdin and stdout.

    Clients get tools to find, load and run skills, the files of skills as resources, each skill as a prompt, and Skills
    over MCP (SEP-2640). Commands run in a sandbox; they end when the client disconnects. With --tools hosted, the
    skills of a host (openskills serve) are tools with their own arguments.

    Examples:
      openskills mcp skills/
      openskills mcp --print-config claude
      openskills mcp skills/ --install vscode
      openskills mcp --install codex --url https://skills.example.com/mcp

    A skill host serves the same over HTTP at /mcp. Needs the extra mcp: pip install 'openskill-runtime[mcp]'.
    """
    import asyncio

    sources = options.addresses
    check_choice("--tools", tools, _TOOLS)
    if profile is not None:
        check_choice("--profile", profile, _PROFILES)
    client = install or print_config
    if client is None:
        if url is not None or yes:
            raise InvalidArgument("--url" if url else "--yes", "needs --print-config or --install")
        # Stdin and stdout belong to the client, so nobody can be asked.
        catalog = open_sources(settings, options, asking=False)
        report_sources(catalog.snapshot)
        if sources and not catalog.skills and tools == "session":
            raise InvalidArgument(
                "PATH", f"no usable skill in {', '.join(sources)}; see `openskills list {sources[0]}`"
            )
        asyncio.run(_serve(catalog, settings, sources, tools, profile, executor or settings.executor, session or ""))
        return
    check_choice("--install" if install else "--print-config", client, CLIENTS)
    given = {"--profile": profile, "--executor": executor, "--session": session}
    given["--tools"] = None if tools == "session" else tools
    words = [word for name, value in given.items() if value is not None for word in (name, value)]
    entry = _build_entry(client, sources, words, url)
    if install is None:
        say_text(render_config(client, entry).rstrip("\n"))
    else:
        _install(client, entry, settings, yes=yes)


def _build_entry(client: str, sources: Sequence[str], options: Sequence[str], url: str | None) -> ServerEntry:
    if url is None:
        # The file of Codex is not that of one project, so its paths cannot be relative.
        found = [str(Path(one).absolute()) if client == "codex" and Path(one).exists() else one for one in sources]
        return ServerEntry(_NAME, (*_find_command(), "mcp", *found, *options))
    if sources or options:
        raise InvalidArgument("--url", "cannot be combined with sources and options of a local server")
    if not url.startswith(("http://", "https://")):
        raise InvalidArgument("--url", f"{url[:100]!r} is not a URL such as https://skills.example.com/mcp")
    from openskills.host.client.transport import is_local_url

    return ServerEntry(_NAME, url=url, needs_key=not (url.startswith("http:") and is_local_url(url)))


def _find_command() -> tuple[str, ...]:
    """How to start this program: by name if a shell finds it, else by its path."""
    here = Path(sys.argv[0]).absolute()
    found = shutil.which(_NAME)
    if found is not None and here.exists() and os.path.samefile(found, here):
        return (_NAME,)
    return (str(here),) if here.name == _NAME else (sys.executable, "-m", "openskills")


def _install(client: str, entry: ServerEntry, settings: Settings, *, yes: bool) -> None:
    path = find_config_file(client, settings, Path.cwd())
    change = merge_config(client, entry, path)
    if not change.is_needed:
        warn(f"{escape_line(str(path))} has this server already")
        return
    warn(escape_line(f"{'changes' if change.before is not None else 'creates'} {path}:"))
    say_text(render_config(client, entry).rstrip("\n"))
    if change.replaces is not None:
        warn(f"it replaces the entry {entry.name!r}: {escape_line(str(dict(change.replaces)))}")
    agreed = True if yes else ask("Write it?")
    if agreed is None:
        raise InvalidArgument("--install", "cannot ask without a terminal; use --yes, or --print-config to see it")
    if not agreed:
        warn("nothing was changed")
        raise typer.Exit(1)
    change.write()
    warn(f"wrote {escape_line(str(path))}")


async def _serve(
    catalog: "Catalog",
    settings: Settings,
    sources: Sequence[str],
    tools: str,
    profile: str | None,
    executor: str,
    session: str,
) -> None:
    import asyncio
    from uuid import uuid4

    try:
        from openskills.adapters.mcp.server import McpRequest, McpServer, serve_stdio
        from openskills.runtime.session_pool import LocalCaller
    except ImportError as error:
        raise MissingExtra("mcp", f"the MCP server ({error.name})") from None
    from openskills.runtime.options import SessionOptions
    from openskills.runtime.runtime import SkillRuntime

    used = None if executor == "none" or tools == "hosted" else executor
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(SkillRuntime(catalog, used, settings=settings))
        caller, hosted = LocalCaller(session), None
        if tools != "session":
            folders = [path for path in map(Path, sources) if path.is_dir()]
            caller, hosted = await _open_host(settings, folders, session, stack)
        server = McpServer(
            runtime,
            options=SessionOptions(load_mode="session", search=True, profile=profile),
            session_tools=tools != "hosted",
            hosted=hosted,
            local=McpRequest(caller, f"mcp-{uuid4().hex}"),
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, lambda: loop.create_task(_exit(server, stack)))
        await serve_stdio(server)


async def _open_host(settings: Settings, sources: Sequence[Path], session: str, stack: AsyncExitStack) -> Any:
    """A host in this process: its caller, and its skills as tools."""
    try:
        from openskills.host.auth import Principal
        from openskills.host.mcp import HostCaller, HostTools
        from openskills.host.parts import HostOptions, open_parts
        from openskills.host.registry.reload import prepare_all
        from openskills.host.runners.table import Runners
    except ImportError as error:
        raise MissingExtra("host", f"--tools hosted ({error.name})") from None
    parts = await open_parts(settings, HostOptions(skills=tuple(sources), json_log=""), Runners(settings))
    stack.push_async_callback(parts.close)
    await prepare_all(parts)
    return HostCaller(parts.host, Principal("local"), session), HostTools(parts.host, parts.registry)


async def _exit(server: "McpServer", stack: AsyncExitStack) -> None:
    """End on a signal: the thread that reads stdin cannot be interrupted, so the process ends as soon as it may."""
    await server.sessions.close()
    await stack.aclose()
    os._exit(0)
