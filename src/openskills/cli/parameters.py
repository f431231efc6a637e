"""Parameters of the commands, and their help.

`QuickCommand` and `QuickGroup` keep typer from importing pydantic for parameters that need no conversion, and print
plain help. `expand_options` lets commands share groups of options: dataclasses such as `SourceOptions`.
"""

import functools
import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from openskills.errors import InvalidArgument
from openskills.settings import Settings, parse_seconds

if TYPE_CHECKING:
    from openskills.project import SkillGrants

Parameter: TypeAlias = TyperArgument | TyperOption
Text: TypeAlias = str | None
Many: TypeAlias = list[str] | None


def option(metavar: str, help: str, names: str = "", **more: Any) -> Any:  # noqa: A002 - as typer calls it
    """`typer.Option` for an option with a value. `names`, separated by blanks, are by default that of the parameter."""
    return typer.Option(*names.split(), metavar=metavar, help=help, **more)


def argument(metavar: str, help: str, **more: Any) -> Any:  # noqa: A002
    """`typer.Argument`."""
    return typer.Argument(metavar=metavar, help=help, **more)


def expand_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the fields of a dataclass as its parameters, instead of a parameter of that type.

    A parameter of type `Settings` gets those that `main` has read.
    """
    given = inspect.signature(command).parameters.values()
    groups = {one.name: cast("type[Any]", one.annotation) for one in given if is_dataclass(one.annotation)}
    if not groups:
        return command
    expanded: list[inspect.Parameter] = []
    for one in (one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in given):
        if one.name not in groups or one.annotation is Settings:
            is_settings = one.annotation is Settings
            expanded.append(one.replace(name="context", annotation=typer.Context) if is_settings else one)
            continue
        hints, own = get_type_hints(groups[one.name], include_extras=True), fields(groups[one.name])
        expanded += [one.replace(name=f.name, default=f.default, annotation=hints[f.name]) for f in own]

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        for name, group in groups.items():
            if group is Settings:
                values[name] = get_settings(values.pop("context"))
            else:
                values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        return command(**values)

    vars(run)["__signature__"] = inspect.Signature(expanded)
    return run


class QuickCommand(TyperCommand):
    """A command with plain help, which passes text and defaults to typer's validator only if they need converting."""

    usage_end = ""
    """What follows the arguments in the usage line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        install_quick_checkers(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Any) -> str:
        return format_help(self, ctx, {})


class QuickGroup(TyperGroup):
    """`QuickCommand` for groups of commands."""

    usage_end = "COMMAND [ARGS]..."

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        install_quick_checkers(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Any) -> str:
        return format_help(self, ctx, self.commands)


_MAX_HELP_WIDTH = 100
_MAX_TERM_WIDTH = 26
"""The width of the column with options in a help text; the description of a longer one begins on the next line."""


def format_help(command: Any, ctx: Any, subcommands: Mapping[str, Any]) -> str:
    """The help of a command, wrapped for the terminal. Indented lines of its text, such as examples, stay lines."""
    width = min(shutil.get_terminal_size().columns, _MAX_HELP_WIDTH)
    parameters = [one for one in command.get_params(ctx) if not one.hidden]
    arguments = [one for one in parameters if isinstance(one, TyperArgument)]
    options = [one for one in parameters if not isinstance(one, TyperArgument)]
    usage = " ".join(["Usage:", ctx.command_path, "[OPTIONS]", *map(_format_usage, arguments), command.usage_end])
    blocks = ["\n".join(textwrap.wrap(usage, width, subsequent_indent=" " * 7, break_on_hyphens=False))]
    blocks += [_wrap_paragraph(text, width) for text in inspect.cleandoc(command.help or "").split("\n\n")]
    lines = {name: inspect.cleandoc(one.help or "").partition("\n\n")[0] for name, one in subcommands.items()}
    for title, rows in (
        ("Arguments", [(str(one.metavar), _describe_parameter(one)) for one in arguments]),
        ("Options", [(_format_option(one), _describe_parameter(one)) for one in options]),
        ("Commands", [(name, " ".join(text.split())) for name, text in lines.items()]),
    ):
        if rows:
            blocks.append(f"{title}:\n" + "\n".join(_format_definitions(rows, width)))
    return "\n\n".join(blocks)


def _wrap_paragraph(text: str, width: int) -> str:
    wrapped: list[str] = []
    for line in re.sub(r"\n(?! )", " ", text).split("\n"):
        wrapped += textwrap.wrap(line, width, subsequent_indent=" " * 6 if line[:1] == " " else "")
    return "\n".join(wrapped)


def _format_definitions(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    column = max([len(term) for term, _ in rows if len(term) <= _MAX_TERM_WIDTH], default=0) + 4
    for term, text in rows:
        lines = textwrap.wrap(text, width, initial_indent=" " * column, subsequent_indent=" " * column) or [""]
        if len(term) + 4 > column:
            yield f"  {term}"
        else:
            lines[0] = f"  {term}".ljust(column) + lines[0][column:]
        yield from lines


def _format_usage(argument: TyperArgument) -> str:
    name = str(argument.metavar) if argument.required else f"[{argument.metavar}]"
    return f"{name}..." if argument.nargs == -1 else name


def _format_option(option: Any) -> str:
    names = sorted(
        [*option.opts, *option.secondary_opts], key=lambda name: (name.startswith("--"), option.opts != [name])
    )
    value = "" if option.is_flag else f" {option.metavar or 'N'}"
    return ", ".join(names) + value


def _describe_parameter(one: Any) -> str:
    text = one.help or ""
    if one.multiple:
        text += " May be repeated."
    default = one.show_default if isinstance(one.show_default, str) else one.default
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    is_shown = one.show_default and default not in (None, "", (), []) and not isinstance(default, bool)
    return f"{text} [default: {shown}]" if is_shown and not callable(default) else text


def install_quick_checkers(parameters: Sequence[object]) -> None:
    """Wrap the validator of each parameter in a `_QuickChecker`, if this version of typer has the hook."""
    for parameter in parameters:
        checker = getattr(parameter, "get_runtime_param", None)
        if isinstance(parameter, Parameter) and checker is not None:
            quick = _QuickChecker(checker, parameter.type_descriptor.annotation)
            vars(parameter)["get_runtime_param"] = quick.get_checker


class _QuickChecker:
    """A validator that creates typer's own, which imports pydantic, only when it is needed."""

    def __init__(self, checker: Callable[[], Any], annotation: Any) -> None:
        self._checker = checker
        self._annotation = annotation

    def get_checker(self) -> "_QuickChecker":
        return self

    def coerce(self, value: Any, param: Parameter, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if self._annotation is str:
            return value
        if self._annotation == list[str]:
            return list[str](value)
        if isinstance(self._annotation, type) and isinstance(value, self._annotation):
            return value
        return self._checker().coerce(value, param=param, ctx=ctx)


def get_settings(context: typer.Context) -> Settings:
    """The settings that `main` has read."""
    return cast("Settings", context.obj)


_SOURCES = "Sources: directories, archives, URLs, git repositories, package:NAME. Later ones win."
Paths = Annotated[
    Many, typer.Argument(metavar="PATH", help=_SOURCES, show_default="the standard directories and SKILLS_ROOT")
]
Skills = Annotated[Many, option("PATH", "A source of skills: a directory, an archive, a URL, ...")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Trust the project's skills, its project file and MCP servers for this run.")
]


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Where the skills of a command are."""

    paths: Paths = None
    skills: Skills = None
    trust: Trust = False

    @property
    def addresses(self) -> list[str]:
        """The given sources, if any."""
        return [*(self.paths or ()), *(self.skills or ())]


_FOLDERS = "A skill's folder, its SKILL.md, or a directory of skills."
Folders = Annotated[Many, typer.Argument(metavar="PATH", help=_FOLDERS)]
FoldersOption = Annotated[Many, option("PATH", "The same as PATH.")]


def join_folders(paths: list[str] | None, skills: list[str] | None) -> list[str]:
    """The values of `Folders` and `FoldersOption`. Raises `InvalidArgument` when there are none."""
    folders = [*(paths or ()), *(skills or ())]
    if not folders:
        raise InvalidArgument("PATH", f"missing; give {_FOLDERS[0].lower()}{_FOLDERS[1:-1]}")
    return folders


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Project = Annotated[
    Text, option("FILE", "The project file, or off.", show_default="openskills.toml, here or in a parent")
]
Executor = Annotated[Text, option("NAME", "auto, sandbox, container, landlock, local, ray, or none.")]
HostUrl = Annotated[Text, option("URL", "The URL of the host, instead of OPENSKILL_HTTP_BASE_URL.")]


def check_choice(field: str, value: str, known: Sequence[str]) -> None:
    """Raise `InvalidArgument` for a value that is not known."""
    if value not in known:
        raise InvalidArgument(field, f"{value[:50]!r} is not one of {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class GrantOptions:
    """What commands of skills may use."""

    network: Annotated[Many, option("HOST", "A host that commands may reach; by default none.")] = None
    secret: Annotated[Many, option("NAME", "Pass on a variable of your environment, and never log it.")] = None
    env: Annotated[Many, option("NAME=VALUE", "An environment variable for commands.")] = None
    timeout: Annotated[Text, option("TIME", "The timeout of a command, such as 90 or 15m.")] = None
    packages: Annotated[
        Many,
        option("PACKAGE", "A Python package for commands, or npm:NAME; installed once and shared.", names="--with"),
    ] = None
    venv: Annotated[Text, option("DIR", "An existing virtual environment for commands, read-only.")] = None
    install: Annotated[
        Text,
        option(
            "MODE",
            "Install packages that skills declare: ask, never or always.",
            show_default="ask on a terminal, otherwise never",
        ),
    ] = None
    project: Project = None
    trust: Trust = False

    def parse_install(self, *, can_ask: bool) -> str:
        """The value of `--install`; its default depends on whether somebody can be asked."""
        install = self.install if self.install is not None else "ask" if can_ask else "never"
        if install not in ("ask", "never", "always"):
            raise InvalidArgument("--install", f"unknown value {install!r}; use ask, never or always")
        return install

    def parse(self, settings: Settings) -> "SkillGrants":
        """The grants of the command line. Raises `InvalidArgument` that names the option."""
        from openskills.executors.environment import check_grants
        from openskills.executors.staging.packages import PackageSet
        from openskills.project import MAX_SECONDS, SkillGrants

        unset = [name for name in self.secret or () if not settings.environment.get(name)]
        if unset:
            raise InvalidArgument("--secret", f"no value for {', '.join(unset)}; set it in your environment")
        seconds = None if self.timeout is None else parse_seconds(self.timeout, "--timeout")
        if seconds is not None and not 0 < seconds < MAX_SECONDS:
            raise InvalidArgument("--timeout", f"invalid number of seconds: {seconds:g}; use a value such as 30")
        wanted = PackageSet.parse(self.packages or ())
        grants = SkillGrants(
            tuple(self.network or ()),
            tuple(dict.fromkeys(self.secret or ())),
            parse_env(self.env),
            seconds,
            packages=wanted.python,
            npm=wanted.npm,
            venv=Path(self.venv).expanduser().absolute() if self.venv else None,
        )
        check_grants(grants)
        return grants


def parse_env(given: Many) -> dict[str, str]:
    """Variables from `--env NAME=VALUE`. Raises `InvalidArgument`."""
    variables: dict[str, str] = {}
    for item in given or ():
        name, equals, variables[name] = item.partition("=")
        if not equals or not name:
            raise InvalidArgument("--env", f"invalid assignment {item!r}; use NAME=VALUE")
    return variables
