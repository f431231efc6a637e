"""`Tool`, `ToolContext` and `ToolResult`; decoding of arguments and JSON schemas for model providers."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from openskills.arguments import check_arguments
from openskills.artifacts.store import ArtifactStore, Scope
from openskills.catalog.skill import Skill
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.errors import InvalidArgument, SkillError, UnknownSkill, shorten
from openskills.executors.commands import CommandRunner
from openskills.executors.interactive import InteractiveCommands
from openskills.executors.requests import InstallMode, PackageOptions, SecretCallback, build_secret_request
from openskills.executors.spec import Limits, SkillSnapshot
from openskills.executors.staging.packages import PackageSet
from openskills.project import NO_GRANTS, SkillGrants, combine_grants
from openskills.session.state import AgentView, Change
from openskills.tools.loaded_texts import LoadedTexts
from openskills.tools.names import LOAD
from openskills.tools.uploads import Uploads


@check_arguments
@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call: `text` for the model, `data` for programs (plain JSON values), `error` if it failed.

    `changes` are changes of the conversation's state; a tool never writes state itself.
    """

    text: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: SkillError | None = None
    changes: tuple[Change, ...] = ()

    def raise_for_error(self) -> "ToolResult":
        """Return the result itself, or raise its `error`."""
        if self.error is not None:
            raise self.error
        return self

    @classmethod
    def from_data(cls, data: Mapping[str, Any], changes: tuple[Change, ...] = ()) -> "ToolResult":
        """A result whose text is its data."""
        return cls(json.dumps(data, ensure_ascii=False), data, changes=changes)

    @classmethod
    def from_error(cls, error: SkillError) -> "ToolResult":
        """A failed result: the reason, and what to do next."""
        details = {**error.details, "reason": error.reason}
        data = {"error": {"code": error.code, "message": error.message, "details": details}}
        hint = ""
        if isinstance(error, UnknownSkill) and not error.near:
            hint = "; use a name from the list of available skills"
        return cls(f"error: {error.message}{hint}", data, error)


class Arguments(BaseModel):
    """Base class of tool arguments. Unknown fields are rejected with the names of the known ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        # `null` is the same as leaving a field out.
        if not isinstance(value, Mapping):
            return value
        given = cast("Mapping[str, object]", value)
        return {name: one for name, one in given.items() if one is not None}


A = TypeVar("A", bound=Arguments)
_WITHOUT_PACKAGES = {install: PackageOptions(install=install) for install in InstallMode}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """How the tools of a session behave.

    Bytes per result: `inline_bytes` of stdout and of stderr, `primary_bytes` of the primary output, `max_inline_bytes`
    of all other files. `limits` apply to every command; a call may set a timeout up to `max_timeout`. `grants` is what
    commands may use, by skill (`*`: all); `ask_secrets` is asked for variables that skills declare besides.
    `with_packages` are installed for all skills (`pypdf>=5`, `npm:docx`); `install` decides about packages that skills
    declare: `never`, `ask` or `always`. `report_progress` is called with lines about an installation.
    """

    require_loaded: bool = True
    force_save: bool = False
    inline_bytes: int = 16 * 1024
    primary_bytes: int = 32 * 1024
    max_inline_bytes: int = 128 * 1024
    limits: Limits = field(default_factory=Limits)
    max_timeout: float = 3600.0
    grants: Mapping[str, SkillGrants] = field(default_factory=dict[str, SkillGrants])
    ask_secrets: SecretCallback | None = None
    with_packages: tuple[str, ...] = ()
    install: InstallMode | str = InstallMode.NEVER
    report_progress: Callable[[str], None] | None = None

    def grants_for(self, skill: str | None) -> SkillGrants:
        """What the commands of a skill are granted; for None, those that belong to no skill."""
        return combine_grants(self.grants, skill) if self.grants else NO_GRANTS

    def packages_for(self, skill: str) -> PackageOptions:
        """The packages of a skill's commands."""
        grants = self.grants_for(skill)
        if not (self.with_packages or grants.packages or grants.npm or grants.venv):
            return _WITHOUT_PACKAGES[InstallMode(self.install)]
        packages = PackageSet.parse(self.with_packages) | PackageSet(grants.packages, grants.npm)
        return PackageOptions(packages, grants.venv, InstallMode(self.install))


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What the tools of one agent in one conversation work with.

    `view` returns what the agent has loaded now. `open_runner` and `open_commands` open the workspace on first use and
    raise `ExecutorUnavailable` without an executor. `tools` are the names that the model can call; `call_id` is the id
    of the current tool call, if it has one. `take_snapshot` takes a snapshot of a skill's folder, for its commands;
    `prepare_workspace` opens the workspace in the background.
    """

    agent: str
    scope: Scope
    skills: CatalogSnapshot
    view: Callable[[], AgentView]
    loaded_texts: LoadedTexts
    uploads: Uploads
    open_runner: Callable[[], Awaitable[CommandRunner]]
    open_commands: Callable[[], Awaitable[InteractiveCommands]]
    artifacts: ArtifactStore | None
    options: ToolOptions
    tools: Sequence[str] = ()
    call_id: str = ""
    take_snapshot: Callable[[Skill], Awaitable[SkillSnapshot]] | None = None
    prepare_workspace: Callable[[], None] | None = None

    async def request_secrets(self, skill: Skill, digest: str) -> Mapping[str, str]:
        """The values of the variables that a skill declares and the user grants besides `ToolOptions.grants`."""
        ask = self.options.ask_secrets
        needs = skill.manifest.requirements
        if ask is None or not digest or not (needs.env or needs.optional_env):
            return {}
        grants = self.options.grants_for(skill.name)
        request = build_secret_request(skill, digest, grants, self.scope, self.agent)
        return {} if request is None else await ask(request)


def build_result_schema(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The JSON schema of the `data` of a tool's results. A field is the name of a type, `string[]`, or a schema."""
    fields = {**required, **(optional or {})}
    return {
        "type": "object",
        "properties": {name: _expand_type(one) for name, one in fields.items()},
        "required": list(required),
    }


def _expand_type(kind: Any) -> Any:
    if not isinstance(kind, str):
        return kind
    item = kind.removesuffix("[]")
    return {"type": kind} if item == kind else {"type": "array", "items": {"type": item}}


@check_arguments
@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """A tool of the model. `run` may raise `SkillError`; `SkillSession.call` turns it into a failed result.

    `result` is the JSON schema of the `data` of results without an `error`; `read_only` tools change nothing but what
    the model sees.
    """

    name: str
    description: str
    arguments: type[A]
    run: Callable[[ToolContext, A], Awaitable[ToolResult]]
    result: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)
    read_only: bool = False


AnyTool = Tool[Any]


_MAX_EXCERPT_CHARS = 200


def decode(tool: Tool[A], arguments: Mapping[str, Any] | str | None) -> A:
    """Parse arguments from an object or JSON text. Raises `InvalidArgument` with the field and what is wrong."""
    try:
        return tool.arguments.model_validate(parse_object(arguments))
    except ValidationError as error:
        raise _build_error(tool, error) from None


def find_skill_argument(arguments: Mapping[str, Any] | str | None) -> str | None:
    """The `skill` argument of a call; None if it is missing or not text, or the arguments are not a JSON object."""
    try:
        skill = parse_object(arguments).get("skill")
    except InvalidArgument:
        return None
    return skill if isinstance(skill, str) else None


def parse_object(arguments: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """Parse the arguments of a call; raises `InvalidArgument` unless they are a JSON object."""
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if not isinstance(arguments, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a model's client may send anything
        raise InvalidArgument("arguments", f"expected a JSON object, got {type(arguments).__name__}")
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        # A number of more than 4,300 digits is a ValueError, too.
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:_MAX_EXCERPT_CHARS]
        raise InvalidArgument("arguments", f"not valid JSON ({reason}); expected a JSON object") from None
    if not isinstance(value, dict):
        raise InvalidArgument("arguments", f"expected a JSON object, got a JSON {type(value).__name__}")
    return cast("dict[str, Any]", value)


def _build_error(tool: Tool[Any], error: ValidationError) -> InvalidArgument:
    first = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(map(str, first["loc"])) or "arguments"
    known = ", ".join(tool.arguments.model_fields)
    match first["type"]:
        case "missing":
            return InvalidArgument(field, f"required; {tool.name} takes {known}")
        case "extra_forbidden":
            return InvalidArgument(field[:_MAX_EXCERPT_CHARS], f"unknown argument of {tool.name}; it takes {known}")
        case _:
            shown = shorten(repr(first.get("input")), _MAX_EXCERPT_CHARS)
            return InvalidArgument(field, f"{first['msg']}; got {shown}")


ENUM_LIMIT = 32
"""With more skills than this, a schema does not list their names."""


class SchemaFormat(StrEnum):
    """Formats of tool definitions."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    MCP = "mcp"


def describe_tool(
    tool: AnyTool,
    format: SchemaFormat | str = SchemaFormat.OPENAI,  # noqa: A002
    *,
    skills: Sequence[str] = (),
) -> dict[str, Any]:
    """The definition of a tool. With at most `ENUM_LIMIT` `skills`, `skill_load` enumerates them."""
    parameters = build_parameters(tool, skills)
    try:
        wanted = SchemaFormat(format)
    except ValueError:
        raise InvalidArgument("format", f"unknown format {format!r}; use one of {', '.join(SchemaFormat)}") from None
    match wanted:
        case SchemaFormat.OPENAI:
            function = {"name": tool.name, "description": tool.description, "parameters": parameters}
            return {"type": "function", "function": function}
        case SchemaFormat.ANTHROPIC:
            return {"name": tool.name, "description": tool.description, "input_schema": parameters}
        case SchemaFormat.MCP:
            described = {"name": tool.name, "description": tool.description, "inputSchema": parameters}
            return {**described, "outputSchema": tool.result} if tool.result else described


def build_parameters(tool: AnyTool, skills: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, as short as it can be: it is sent with every request.

    It has no titles, references, bounds, and no numbers or empty values as defaults; optional fields are just not
    required. Unknown fields are rejected although it does not say so. Only `skill_load` lists the names of the skills.
    """
    cleaned = json.loads(_build_parameters_text(tool))
    skill = cleaned["properties"].get("skill")
    if skill is not None and tool.name == LOAD and 0 < len(skills) <= ENUM_LIMIT:
        skill["enum"] = sorted(skills)
    return cleaned


@cache
def _build_parameters_text(tool: AnyTool) -> str:
    whole = tool.arguments.model_json_schema()
    cleaned = _clean_schema(whole, whole.get("$defs", {}))
    cleaned.pop("description", None)
    cleaned.setdefault("properties", {})
    return json.dumps(cleaned)


def format_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """Definitions of tools as they are sent: compact JSON."""
    return json.dumps(tools, ensure_ascii=False, separators=(",", ":")) if tools else ""


def _clean_schema(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_clean_schema(one, definitions) for one in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    given = cast("dict[str, Any]", node)
    if "$ref" in given:
        target = definitions[given["$ref"].rpartition("/")[2]]
        return _clean_schema({**target, **{key: one for key, one in given.items() if key != "$ref"}}, definitions)
    options = [one for one in given.get("anyOf", ()) if one != {"type": "null"}]
    if len(options) == 1:
        # `null` is accepted, but need not be in the schema.
        rest = {key: one for key, one in given.items() if key != "anyOf"}
        return _clean_schema({**options[0], **rest}, definitions)
    found: dict[str, Any] = {}
    for key, one in given.items():
        if key == "properties":
            found[key] = {name: _clean_schema(each, definitions) for name, each in one.items()}
        elif key not in _OMITTED and not (key in ("default", "additionalProperties") and _is_plain(one)):
            found[key] = _clean_schema(one, definitions)
    return found


_OMITTED = ("title", "$defs", "minimum", "maximum")


def _is_plain(value: object) -> bool:
    return not value or (isinstance(value, int) and value is not True)


def _to_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


TextList: TypeAlias = Annotated[list[str], BeforeValidator(_to_list, json_schema_input_type=list[str])]
"""A list of strings; a single string becomes a list of one."""


_REDACTED_FIELDS = ("env", "stdin", "chars")


def redact_arguments(arguments: Mapping[str, Any] | str | None) -> str:
    """The arguments of a call as JSON, without the values of `env`, `stdin` and `chars`. Never raises."""
    try:
        given: object = json.loads(arguments) if isinstance(arguments, str) and arguments else arguments or {}
        if not isinstance(given, Mapping):
            return f"[{type(given).__name__}, not a JSON object]"
        fields = cast("Mapping[object, object]", given)
        shown = {str(name): _redact_value(one) if name in _REDACTED_FIELDS else one for name, one in fields.items()}
        return json.dumps(shown, ensure_ascii=False, default=_describe_value)
    except (ValueError, TypeError, RecursionError):
        return f"{_describe_value(arguments)}, not valid JSON"


def _redact_value(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _describe_value(one) for name, one in cast("Mapping[object, object]", value).items()}
    return _describe_value(value)


def _describe_value(value: object) -> str:
    return f"[{len(value):,} characters]" if isinstance(value, str) else f"[{type(value).__name__}]"
