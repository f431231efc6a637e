"""What a model writes to have a command run. Pure."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, model_validator

from openskills.errors import InvalidArgument
from openskills.executors.spec import MIB
from openskills.executors.staging.inputs import InputSpec
from openskills.executors.staging.outputs import OutputSpec
from openskills.tools import run_forgiving
from openskills.tools.tool import Arguments


def _tidy(schema: dict[str, Any]) -> None:
    """Empty defaults tell a model nothing."""
    for field in schema.get("properties", {}).values():
        if not field.get("default", True):
            del field["default"]


# These two are only described to a model; `InputSpec.parse` and `OutputSpec.parse` read what it writes.
class RunInput(BaseModel):
    """One file or directory."""

    model_config = ConfigDict(json_schema_extra=_tidy)

    source: str = Field(
        alias="from", description="artifact://name[@version], workspace://path, skill://name/path or host:///path"
    )
    to: str = Field(default="", description="Path in the workspace; work/inputs/<name> if left out")
    mode: Literal["copy", "link"] = Field(default="copy", description="link is for what is in the workspace")
    pin: bool = Field(default=False, description="Keep to the artifact version that was found the first time")


class RunOutputs(BaseModel):
    """Files to return."""

    model_config = ConfigDict(json_schema_extra=_tidy)

    globs: list[str] = Field(description="Patterns relative to the workspace, such as out/**/*.csv or $OUTPUT_DIR/*")
    inline: bool = Field(default=True, description="Return the content of text files")
    save: bool = Field(default=False, description="Keep the files as artifacts")
    name_template: str = Field(default="", description="Prefix of the artifacts' names, such as reports/")
    max_files: int = 100
    max_file_bytes: int = Field(default=4 * MIB, description="Of the content of each file")
    max_total_bytes: int = Field(default=64 * MIB, description="Of the content of all files")


class RunArguments(Arguments):
    """What `skill_run` takes. `timeout` of None is the default; `outputs` and `output_files` exclude each other.

    `null` is the same as leaving a field out; `run_forgiving` says what else is forgiven. Validation raises
    `InvalidArgument` or `ForbiddenPath` for what is no use, and pydantic's own error for a missing or unknown field.
    """

    model_config = ConfigDict(json_schema_extra=_tidy)

    skill: str = Field(description="Name of a loaded skill")
    command: Annotated[str, BeforeValidator(run_forgiving.command, json_schema_input_type=str)] = Field(
        description="Shell command; it starts in the skill's folder"
    )
    cwd: Annotated[str, BeforeValidator(run_forgiving.directory, json_schema_input_type=str)] = Field(
        default="",
        description="Where to start instead: relative to the skill's folder, or below $WORK_DIR, $OUTPUT_DIR, "
        "$SKILLS_DIR, $WORKSPACE_DIR or $RUN_DIR",
    )
    env: Annotated[dict[str, str], PlainValidator(run_forgiving.environment, json_schema_input_type=dict[str, str])] = (
        Field(default={}, description="More environment variables")
    )
    stdin: str = Field(default="", description="Text for standard input")
    editor_text: str | None = Field(
        default=None, description="Text for a program that opens $EDITOR: its file is saved with this text"
    )
    inputs: Annotated[
        tuple[InputSpec, ...], PlainValidator(run_forgiving.inputs, json_schema_input_type=list[RunInput])
    ] = Field(default=(), description="Files to bring into the workspace first")
    output_files: Annotated[
        tuple[str, ...], PlainValidator(run_forgiving.patterns, json_schema_input_type=list[str])
    ] = Field(
        default=(), description="Patterns of files to return, such as out/*.txt; without any, what is new in out/"
    )
    outputs: Annotated[OutputSpec | None, PlainValidator(run_forgiving.outputs, json_schema_input_type=RunOutputs)] = (
        Field(default=None, description="Instead of output_files: patterns with limits and saving")
    )
    timeout: Annotated[float | None, PlainValidator(run_forgiving.seconds, json_schema_input_type=float)] = Field(
        default=None, description="Seconds; 300 if left out"
    )
    save_as_artifacts: bool = Field(default=False, description="Keep the returned files as artifacts")
    omit_inline_content: bool = Field(default=False, description="Return names and refs without content")
    artifact_prefix: Annotated[str, BeforeValidator(run_forgiving.prefix, json_schema_input_type=str)] = Field(
        default="", description="Prefix of the artifacts' names"
    )

    @model_validator(mode="after")
    def _one_way_to_collect(self) -> "RunArguments":
        if self.outputs is not None and self.output_files:
            raise InvalidArgument(
                "outputs", "cannot be combined with output_files; give one of the two (outputs.globs has patterns, too)"
            )
        return self
