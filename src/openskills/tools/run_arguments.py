"""Arguments of `skill_run`, parsed leniently.

Common mistakes of models are accepted where the meaning is clear: numbers and booleans as text, one item where a list
is expected, JSON in a string. Everything else raises `InvalidArgument` with the field and what to write instead.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, cast

from pydantic import BaseModel, BeforeValidator, Field, PlainValidator, model_validator

from openskills.artifacts.store import normalize_name
from openskills.errors import InvalidArgument
from openskills.executors.files.globs import compile_globs
from openskills.executors.spec import DEFAULT_TIMEOUT
from openskills.executors.staging.inputs import InputSpec
from openskills.executors.staging.outputs import OutputSpec
from openskills.paths import MAX_PATH
from openskills.tools.tool import Arguments

_SECONDS = re.compile(r"\s*([+-]?\d+(?:\.\d*)?)\s*(?:s|secs?|seconds?)?\s*", re.ASCII | re.IGNORECASE)
_MAX_SECONDS = 10**12
_MAX_SOURCE_CHARS = MAX_PATH + 256
_TRUTH = {"true": True, "false": False}
_FLAGS = ("inline", "save", "pin")
_KINDS = {"str": "text", "bool": "true or false", "list": "a list", "dict": "an object", "NoneType": "null"}


def read_command(value: object) -> object:
    """Parse a shell command, or a program and its arguments as a list; a list of one text is a shell command."""
    words = _list_items(value)
    if words is not None:
        value = words[0] if len(words) == 1 else tuple(words)
    if not value or (isinstance(value, str) and not value.strip()):
        raise InvalidArgument("command", "is empty; write a shell command")
    for one in (value,) if words is None else words:
        if not isinstance(one, str):
            wanted = "expected text for bash, or a list of texts: a program and its arguments"
            raise InvalidArgument("command", f"{wanted}; got {_describe_kind(one)}")
    return value


def read_environment(value: object) -> dict[str, str]:
    """Parse variables. Numbers and booleans become text; null values are left out."""
    found = _parse_nested_json(value)
    if not isinstance(found, Mapping):
        raise InvalidArgument("env", f'expected an object such as {{"NAME": "value"}}, got {_describe_kind(found)}')
    given = cast("Mapping[object, object]", found)
    return {str(name): _format_variable(str(name), one) for name, one in given.items() if one is not None}


def read_patterns(value: object) -> tuple[str, ...]:
    """Parse and check the patterns of `output_files`."""
    found = _to_list(value)
    if not all(isinstance(one, str) for one in found):
        raise InvalidArgument("output_files", "expected a list of patterns such as out/*.txt")
    checked = tuple(cast("list[str]", found))
    compile_globs(checked, run_dir="runs/run", field="output_files")
    return checked


def read_inputs(value: object) -> tuple[InputSpec, ...]:
    """Parse inputs; plain text is the source."""
    return tuple(_parse_input(one) for one in _to_list(value))


def read_outputs(value: object) -> OutputSpec | None:
    """Parse outputs; text or a list are the patterns, and an empty object means none."""
    found = _parse_nested_json(value)
    if isinstance(found, str) or _list_items(found):
        found = {"globs": found}
    if not found:
        return None
    if not isinstance(found, Mapping):
        raise InvalidArgument(
            "outputs", f'expected an object such as {{"globs": ["out/**"]}}, got {_describe_kind(found)}'
        )
    given = _repair_fields(cast("Mapping[object, object]", found))
    return OutputSpec.parse(given) if any(given.values()) else None


def read_seconds(value: object) -> float | None:
    """Parse a timeout; None, the default, for values that are not above zero."""
    match = _SECONDS.fullmatch(value) if isinstance(value, str) else None
    number = float(match[1]) if match else value
    if isinstance(number, int) and not isinstance(number, bool):
        # Not every int fits into a float.
        number = float(max(0, min(number, _MAX_SECONDS)))
    if not isinstance(number, float) or math.isnan(number):
        raise InvalidArgument("timeout", f"expected a number of seconds such as 60, got {str(value)[:80]!r}")
    return number if number > 0 else None


def read_directory(value: object) -> object:
    """Check the length of a working directory."""
    if isinstance(value, str) and len(value) > MAX_PATH:
        raise InvalidArgument("cwd", f"too long: {len(value):,} characters, at most {MAX_PATH:,}")
    return value


def read_prefix(value: object) -> object:
    """Check a prefix of artifact names."""
    if isinstance(value, str):
        normalize_name(f"{value}x", field="artifact_prefix")
    return value


def _parse_input(value: object) -> InputSpec:
    found = _parse_nested_json(value)
    if isinstance(found, str):
        found = {"from": found}
    if not isinstance(found, Mapping):
        raise InvalidArgument(
            "inputs", f'expected objects such as {{"from": "artifact://x"}}, got {_describe_kind(found)}'
        )
    given = _repair_fields(cast("Mapping[object, object]", found))
    for name, one in given.items():
        if isinstance(one, str) and len(one) > _MAX_SOURCE_CHARS:
            raise InvalidArgument(
                "inputs", f"{name[:80]} is too long: {len(one):,} characters, at most {_MAX_SOURCE_CHARS:,}"
            )
    return InputSpec.parse(given)


def _format_variable(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidArgument("env", f"{name[:80]}: expected text, got {_describe_kind(value)}")


def _repair_fields(given: Mapping[object, object]) -> dict[str, object]:
    return {str(key): _repair_value(str(key).lower().replace("_", ""), one) for key, one in given.items()}


def _repair_value(name: str, value: object) -> object:
    if name.startswith("max"):
        if isinstance(value, str) and value.strip().isdecimal():
            return int(value)
        if isinstance(value, float) and value.is_integer():
            return int(value)
    if name in _FLAGS and isinstance(value, str):
        return _TRUTH.get(value.strip().lower(), value)
    return _parse_nested_json(value) if name == "globs" else value


def _parse_nested_json(value: object) -> object:
    """Parse text that is itself a JSON object or list; return everything else unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value  # `[a-z].txt` and `{a,b}` are patterns
    return value


def _to_list(value: object) -> list[object]:
    found = _parse_nested_json(value)
    items = _list_items(found)
    return [found] if items is None else items


def _list_items(value: object) -> list[object] | None:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return list(cast("Sequence[object]", value))
    return None


def _describe_kind(value: object) -> str:
    return _KINDS.get(type(value).__name__, "a number")


def encode_text(field: str, text: str) -> bytes:
    """Text as UTF-8. Raises `InvalidArgument` for a lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(field, "contains a lone surrogate") from None


def check_not_negative(field: str, number: int | None, hint: str = "") -> int:
    """The number, 0 for None. Raises `InvalidArgument`, which ends with the `hint`, for a negative one."""
    if number is not None and number < 0:
        raise InvalidArgument(field, f"{number} is negative{hint}")
    return number or 0


# These two only make the schema; `InputSpec.parse` and `OutputSpec.parse` parse the arguments.
class RunInput(BaseModel):
    source: str = Field(alias="from", description="artifact://name, workspace://path, skill://name/path, host:///path")
    to: str = Field(default="", description="work/inputs/<name> if left out")
    mode: Literal["copy", "link"] = "copy"
    pin: bool = Field(default=False, description="Keep to this artifact version")


class RunOutputs(BaseModel):
    globs: list[str]
    inline: bool = Field(default=True, description="Return text")
    save: bool = Field(default=False, description="As artifacts")
    name_template: str = Field(default="", description="Prefix of artifact names")
    max_files: int = 100
    max_file_bytes: int = 128 * 1024
    max_total_bytes: int = Field(default=128 * 1024, description="At most 131072")


class RunArguments(Arguments):
    """Arguments of `skill_run`. `outputs` and `output_files` exclude each other.

    Validation raises `InvalidArgument` or `ForbiddenPath` for invalid values, and pydantic's `ValidationError` for
    missing or unknown fields.
    """

    skill: str
    command: Annotated[str | tuple[str, ...], BeforeValidator(read_command, json_schema_input_type=str)]
    cwd: Annotated[str, BeforeValidator(read_directory, json_schema_input_type=str)] = Field(
        default="",
        description="Below the skill's folder, or $WORK_DIR, $OUTPUT_DIR, $SKILLS_DIR, $WORKSPACE_DIR, $RUN_DIR",
    )
    env: Annotated[dict[str, str], PlainValidator(read_environment, json_schema_input_type=dict[str, str])] = Field(
        default={}
    )
    stdin: str = ""
    editor_text: str | None = Field(default=None, description="What to save when a program opens $EDITOR")
    inputs: Annotated[tuple[InputSpec, ...], PlainValidator(read_inputs, json_schema_input_type=list[RunInput])] = (
        Field(default=(), description="Files to bring first")
    )
    output_files: Annotated[tuple[str, ...], PlainValidator(read_patterns, json_schema_input_type=list[str])] = Field(
        default=(), description="Patterns; left out: what is new in out/"
    )
    outputs: Annotated[OutputSpec | None, PlainValidator(read_outputs, json_schema_input_type=RunOutputs)] = Field(
        default=None, description="Instead of output_files"
    )
    timeout: Annotated[float | None, PlainValidator(read_seconds, json_schema_input_type=float)] = Field(
        default=None, description=f"Seconds; {DEFAULT_TIMEOUT:g}"
    )
    save_as_artifacts: bool = False
    omit_inline_content: bool = False
    artifact_prefix: Annotated[str, BeforeValidator(read_prefix, json_schema_input_type=str)] = Field(default="")

    @model_validator(mode="after")
    def _check_outputs(self) -> "RunArguments":
        if self.outputs is not None and self.output_files:
            raise InvalidArgument(
                "outputs", "cannot be combined with output_files; put the patterns into outputs.globs"
            )
        return self
