"""Tool, ToolContext, ToolResult, schemas, decoding.

What a tool answers.

A verb of a model, and what it works with.

What a model wrote, as the arguments of a tool. Pure.

Tools as model providers and protocols want to be told about them. Pure.

Types of arguments that forgive what models often get wrong where the meaning is clear.

What a model wants done, for those who watch: its arguments as text, without what may be a password. Pure.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from openskills.artifacts.store import ArtifactStore, Scope
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.errors import InvalidArgument, SkillError, UnknownSkill
from openskills.executors.commands import CommandRunner
from openskills.executors.interactive import InteractiveCommands
from openskills.executors.spec import Limits
from openskills.session.state import AgentView, Change
from openskills.tools.loaded_texts import LoadedTexts
from openskills.tools.uploads import Uploads


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`text` is for the model, `data` for programs (plain JSON values). `error` says what kept the tool from its work.

    `changes` are what the call means for the state of the conversation; a tool never writes state itself.
    """

    text: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: SkillError | None = None
    changes: tuple[Change, ...] = ()

    def raise_for_error(self) -> "ToolResult":
        """The result itself; raises its `error` when it has one. For programs that call tools by themselves."""
        if self.error is not None:
            raise self.error
        return self

    @classmethod
    def from_data(cls, data: Mapping[str, Any], changes: tuple[Change, ...] = ()) -> "ToolResult":
        """A result whose text is its data."""
        return cls(json.dumps(data, ensure_ascii=False), data, changes=changes)

    @classmethod
    def from_error(cls, error: SkillError) -> "ToolResult":
        """What the model reads when it, or somebody, made a mistake: the reason, and what to do next."""
        details = {**error.details, "reason": error.reason}
        data = {"error": {"code": error.code, "message": error.message, "details": details}}
        hint = ""
        if isinstance(error, UnknownSkill) and not error.near:
            hint = "; use a name from the list of available skills"
        return cls(f"error: {error.message}{hint}", data, error)


class Arguments(BaseModel):
    """What a model gives to a tool. Unknown fields are refused with the names of those that there are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        """`null` is the same as leaving a field out."""
        if not isinstance(value, Mapping):
            return value
        given = cast("Mapping[str, object]", value)
        return {name: one for name, one in given.items() if one is not None}


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """How the tools of a session behave.

    `inline_bytes` is how much of stdout and stderr each goes into a result; `primary_bytes` of the primary output;
    `max_inline_bytes` of all other files together, whatever a model asks for.
    `limits` are those of every command; a call may ask for a shorter timeout, and for a longer one up to `max_timeout`.
    """

    require_loaded: bool = True
    force_save: bool = False
    inline_bytes: int = 16 * 1024
    primary_bytes: int = 32 * 1024
    max_inline_bytes: int = 256 * 1024
    limits: Limits = field(default_factory=Limits)
    max_timeout: float = 3600.0
    network: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables of every command; those of a call come on top."""
    secrets: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Per skill (`*` for all): the names of the secrets that its commands get."""
    install: tuple[str, ...] | None = None
    """The hosts that packages of skills may be installed from; None: nothing is installed."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What the tools of one agent in one conversation work with.

    `view` is what the agent has loaded now. `bench` and `talks` open the workspace when they are first awaited, and
    raise `ExecutorUnavailable` when there is no executor. `tools` are the names that the model can call.
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


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """A verb: its name, what a model is told about it, what it takes, and what it does.

    `run` raises `SkillError`s; the door, `SkillSession.call`, makes results of them.
    """

    name: str
    description: str
    arguments: type[A]
    run: Callable[[ToolContext, A], Awaitable[ToolResult]]


AnyTool = Tool[Any]


_MAX_EXCERPT_CHARS = 200


def decode(tool: Tool[A], arguments: Mapping[str, Any] | str | None) -> A:
    """Arguments as an object or as JSON text. Raises `InvalidArgument` with the field and what is wrong."""
    try:
        return tool.arguments.model_validate(_parse_object(arguments))
    except ValidationError as error:
        raise _build_error(tool, error) from None


def find_skill_argument(arguments: Mapping[str, Any] | str | None) -> object:
    """What stands for the skill in the arguments of a call; None when nothing does, or nobody can tell."""
    try:
        return _parse_object(arguments).get("skill")
    except InvalidArgument:
        return None


def _parse_object(arguments: Mapping[str, Any] | str | None) -> dict[str, Any]:
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if not isinstance(arguments, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a model's client may send anything
        raise InvalidArgument("arguments", f"are a {type(arguments).__name__}; send one JSON object")
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        # A number of more than 4,300 digits is a ValueError, too.
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:_MAX_EXCERPT_CHARS]
        raise InvalidArgument("arguments", f"are no JSON ({reason}); send one JSON object") from None
    if not isinstance(value, dict):
        raise InvalidArgument("arguments", f"are a JSON {type(value).__name__}; send one JSON object")
    return cast("dict[str, Any]", value)


def _build_error(tool: Tool[Any], error: ValidationError) -> InvalidArgument:
    first = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(map(str, first["loc"])) or "arguments"
    known = ", ".join(tool.arguments.model_fields)
    match first["type"]:
        case "missing":
            return InvalidArgument(field, f"is missing; {tool.name} takes {known}")
        case "extra_forbidden":
            return InvalidArgument(field[:_MAX_EXCERPT_CHARS], f"is no field of {tool.name}; it takes {known}")
        case _:
            shown = repr(first.get("input"))
            shown = shown if len(shown) <= _MAX_EXCERPT_CHARS else f"{shown[:_MAX_EXCERPT_CHARS]}…"
            return InvalidArgument(field, f"{first['msg']}; it was {shown}")


ENUM_LIMIT = 32
"""With more skills than this, a schema does not list their names."""


class SchemaFormat(StrEnum):
    """Whose format."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    MCP = "mcp"


def describe_tool(
    tool: AnyTool,
    format: SchemaFormat | str = SchemaFormat.OPENAI,  # noqa: A002
    *,
    skills: Sequence[str] = (),
) -> dict[str, Any]:
    """A tool in one of the formats. With `skills`, at most 256 of them, its `skill` is one of these names."""
    parameters = build_parameters(tool, skills)
    try:
        wanted = SchemaFormat(format)
    except ValueError:
        raise InvalidArgument("format", f"{format!r} is unknown; use one of {', '.join(SchemaFormat)}") from None
    match wanted:
        case SchemaFormat.OPENAI:
            function = {"name": tool.name, "description": tool.description, "parameters": parameters}
            return {"type": "function", "function": function}
        case SchemaFormat.ANTHROPIC:
            return {"name": tool.name, "description": tool.description, "input_schema": parameters}
        case SchemaFormat.MCP:
            return {"name": tool.name, "description": tool.description, "inputSchema": parameters}


def build_parameters(tool: AnyTool, skills: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON schema of a tool's arguments: no titles, no references, optional fields simply not required."""
    whole = tool.arguments.model_json_schema()
    cleaned = _clean_schema(whole, whole.get("$defs", {}))
    cleaned.pop("description", None)
    cleaned.setdefault("properties", {})
    skill = cleaned["properties"].get("skill")
    if skill is not None and 0 < len(skills) <= ENUM_LIMIT:
        skill["enum"] = sorted(skills)
    return cleaned


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
        # `null` is accepted, but nobody has to be told.
        rest = {key: one for key, one in given.items() if key != "anyOf"}
        return _clean_schema({**options[0], **rest}, definitions)
    found: dict[str, Any] = {}
    for key, one in given.items():
        if key == "properties":
            found[key] = {name: _clean_schema(each, definitions) for name, each in one.items()}
        elif key not in ("title", "$defs") and not (key == "default" and one is None):
            found[key] = _clean_schema(one, definitions)
    return found


def _to_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


TextList: TypeAlias = Annotated[list[str], BeforeValidator(_to_list, json_schema_input_type=list[str])]
"""A list of texts; a single text is a list of one."""


_REDACTED_FIELDS = ("env", "stdin", "chars")


def redact_arguments(arguments: Mapping[str, Any] | str | None) -> str:
    """The arguments of a call as JSON. Of variables only the names are in it, and of input only how long it is.

    Never raises: whatever cannot be read is described.
    """
    try:
        given: object = json.loads(arguments) if isinstance(arguments, str) and arguments else arguments or {}
        if not isinstance(given, Mapping):
            return f"[{type(given).__name__}, which is no JSON object]"
        fields = cast("Mapping[object, object]", given)
        told = {str(name): _redact_value(one) if name in _REDACTED_FIELDS else one for name, one in fields.items()}
        return json.dumps(told, ensure_ascii=False, default=_describe_value)
    except (ValueError, TypeError, RecursionError):
        return f"{_describe_value(arguments)} that are no JSON"


def _redact_value(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _describe_value(one) for name, one in cast("Mapping[object, object]", value).items()}
    return _describe_value(value)


def _describe_value(value: object) -> str:
    return f"[{len(value):,} characters]" if isinstance(value, str) else f"[{type(value).__name__}]"
