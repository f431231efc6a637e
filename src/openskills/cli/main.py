"""The `openskills` command line: registers the commands and turns every error into a message and an exit code."""

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from openskills.cli import (
    artifacts,
    cluster,
    config,
    db,
    doctor,
    export,
    invoke,
    mcp,
    packages,
    remote,
    route,
    run,
    serve,
    sessions,
    skillmd,
    skills,
    token_report,
    trust,
    ui,
    validate,
    workspaces,
)
from openskills.cli.chat import command
from openskills.cli.output import say, say_text, warn
from openskills.cli.parameters import Many, QuickCommand, QuickGroup, argument, expand_options
from openskills.errors import InvalidArgument, SkillError
from openskills.paths import to_printable
from openskills.settings import Settings
from openskills.version import __version__

FAILED, USAGE, INTERNAL, INTERRUPTED = 1, 2, 70, 130
"""Exit codes other than 0. 70 is EX_SOFTWARE of sysexits.h: a bug in this program, not an error in the input."""

app = typer.Typer(
    name="openskills",
    cls=QuickGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"openskills {__version__}")
        raise typer.Exit


@app.callback()
def openskills(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Find, check, run and serve Agent Skills: folders with a SKILL.md.

    Examples:
      openskills new pdf-tools            create a skill
      openskills validate .               check it
      openskills list                     list the skills that agents find here
      openskills info pdf-tools           show everything about a skill
      openskills search "merge two pdfs"  find a skill by what it does
      openskills run pdf-tools -- ls      run a command of a skill in a sandbox
      openskills chat                     talk to an agent that uses skills
      openskills ui                       the same in a browser
      openskills help run                 explain a command

    Exit codes: 0 done, 1 failed or something is invalid, 2 wrong usage or no such path, 70 a bug in this program.
    """
    del version


def show_help(
    context: typer.Context,
    command: Annotated[Many, argument("COMMAND", "A command, such as run or sessions list.")] = None,
) -> None:
    """Explain a command; the same as COMMAND --help.

    Examples:
      openskills help
      openskills help sessions list
    """
    root = context.find_root().command
    root.main([*(command or ()), "--help"], prog_name="openskills", standalone_mode=False, obj=context.obj)


for _name, _function in {
    "list": skills.list_skills,
    "info": skills.info,
    "search": skills.search,
    "validate": validate.validate,
    "explain": validate.explain,
    "new": skillmd.new,
    "trust": trust.trust,
    "doctor": doctor.doctor,
    "config": config.config,
    "run": run.run,
    "invoke": invoke.invoke,
    "route": route.route,
    "chat": command.chat,
    "serve": serve.serve,
    "ui": ui.ui,
    "mcp": mcp.mcp,
    "push": remote.push,
    "pull": remote.pull,
    "versions": remote.versions,
    "export": export.export,
    "read-properties": skillmd.read_properties,
    "to-prompt": skillmd.to_prompt,
    "token-report": token_report.token_report,
    "help": show_help,
}.items():
    app.command(_name, cls=run.RunCommand if _name == "run" else QuickCommand)(expand_options(_function))
for _name, _group in {
    "workspaces": workspaces.app,
    "packages": packages.app,
    "sessions": sessions.app,
    "artifacts": artifacts.app,
    "db": db.db_app,
    "cluster": cluster.app,
    "keys": serve.keys_app,
    "runs": serve.runs_app,
    "console": ui.app,
}.items():
    for _command in _group.registered_commands:
        _command.cls = QuickCommand
        _command.callback = expand_options(_command.callback) if _command.callback else None
    app.add_typer(_group, name=_name, cls=QuickGroup)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with `arguments`, by default those of the process, and return the exit code."""
    _escape_unprintable()
    debug = False
    try:
        settings = Settings.from_env()
        debug = settings.debug
        return _run(sys.argv[1:] if arguments is None else list(arguments), settings)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _handle_broken_pipe()
    except InvalidArgument as error:
        return _report_failure(error.message, USAGE, debug)
    except SkillError as error:
        return _report_failure(error.message, FAILED, debug)
    except OSError as error:
        return _report_failure(f"{error.filename or 'the system'}: {error.strerror or error}", FAILED, debug)
    except Exception as error:  # noqa: BLE001 - users get a message, not a traceback
        if _is_interrupt(error):
            return INTERRUPTED
        summary = f"internal error: {type(error).__name__}: {error}; run with OPENSKILL_DEBUG=1 for the traceback"
        return _report_failure(summary, INTERNAL, debug)


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C led to this error: Python replaces what is raised while it creates a class, as in an import."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _run(arguments: list[str], settings: Settings) -> int:
    try:
        # Without standalone mode typer returns the exit code and raises errors.
        code = _root_command()(arguments, prog_name="openskills", standalone_mode=False, obj=settings)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _report_usage_error(error)
    except typer.Abort:
        return _report_failure("aborted: no answer", FAILED, debug=False)
    except SystemExit as exit_:
        # Typer and rich exit this way when the reader of a pipe has closed it.
        return _handle_broken_pipe() if exit_.code == FAILED else int(exit_.code or 0)
    return code if isinstance(code, int) else 0


@functools.cache
def _root_command() -> Callable[..., object]:
    return typer.main.get_command(app)


def _report_usage_error(error: typer.TyperException) -> int:
    # pydantic puts these words before every message of a validator.
    message = error.format_message().replace("Value error, ", "")
    if type(error).__name__ == "NoArgsIsHelpError":
        say_text(message)
    else:
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "openskills"
        warn(("error", "bold red"), f": {to_printable(message)}")
        warn(f"Try '{command} --help'.")
    return error.exit_code


def _report_failure(message: str, code: int, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    prefix = () if code == INTERNAL else (("error", "bold red"), ": ")
    first, *more = message.split("\n")
    warn(*prefix, to_printable(first))
    for line in more:
        warn(f"  {to_printable(line)}")
    return code


def _handle_broken_pipe() -> int:
    # The interpreter flushes what is left in the buffer when it ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def _escape_unprintable() -> None:
    """Escape characters that the terminal's encoding cannot represent, instead of failing."""
    # A stream is None when the shell closed it, as in `openskills list >&-`.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
