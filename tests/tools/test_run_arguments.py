"""What `skill_run` takes."""

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.staging.inputs import InputSpec
from openskills.executors.staging.outputs import OutputSpec
from openskills.tools.run import SKILL_RUN
from openskills.tools.run_arguments import RunArguments
from openskills.tools.schemas import parameters_of
from tests.tools.run_calls import written


def test_every_field_of_the_documents_can_be_written() -> None:
    arguments = written(
        command="make",
        cwd="$WORK_DIR",
        env={"A": "1"},
        stdin="in",
        editor_text="text",
        inputs=[{"from": "host:///data/notes.txt", "to": "work/inputs/notes.txt", "mode": "copy", "pin": False}],
        outputs={"globs": ["$OUTPUT_DIR/lines.txt"], "inline": True, "save": False, "max_files": 1},
        timeout=60,
        save_as_artifacts=True,
        omit_inline_content=True,
        artifact_prefix="pref/",
    )
    assert (arguments.command, arguments.cwd, arguments.env, arguments.stdin) == ("make", "$WORK_DIR", {"A": "1"}, "in")
    assert (arguments.editor_text, arguments.timeout, arguments.artifact_prefix) == ("text", 60.0, "pref/")
    assert arguments.inputs == (InputSpec("host:///data/notes.txt", "work/inputs/notes.txt"),)
    assert arguments.outputs == OutputSpec(("$OUTPUT_DIR/lines.txt",), max_files=1)
    assert arguments.save_as_artifacts
    assert arguments.omit_inline_content
    assert written(output_files=["out/*.txt"]).output_files == ("out/*.txt",)


def test_null_is_the_same_as_leaving_a_field_out() -> None:
    optional = set(RunArguments.model_fields) - {"skill", "command"}
    assert written(**dict.fromkeys(optional)) == written()
    assert len(optional) == 11


def test_truth_as_text_is_understood() -> None:
    assert written(save_as_artifacts="true", omit_inline_content="false").save_as_artifacts


def test_both_ways_to_collect_at_once_are_refused_but_an_empty_one_is_none() -> None:
    with pytest.raises(InvalidArgument, match="outputs: cannot be combined with output_files"):
        written(output_files=["out/a"], outputs={"globs": ["out/b"]})
    assert written(output_files=["out/a"], outputs={"globs": []}).outputs is None
    assert written(output_files=[], outputs={"globs": ["out/b"]}).outputs == OutputSpec(("out/b",))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"command": None}, "command"), ({"cmd": "ls"}, "cmd"), ({"cwd": 5}, "cwd"), ({"stdin": {"a": 1}}, "stdin")],
)
def test_what_cannot_be_meant_is_refused_with_its_field(wrong: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{field}: "):
        written(**wrong)


def test_the_schema_describes_inputs_and_outputs_with_their_fields() -> None:
    properties = parameters_of(SKILL_RUN)["properties"]
    inputs, outputs = properties["inputs"]["items"], properties["outputs"]
    assert list(properties) == list(RunArguments.model_fields)
    assert (list(inputs["properties"]), inputs["required"]) == (["from", "to", "mode", "pin"], ["from"])
    assert inputs["properties"]["mode"]["enum"] == ["copy", "link"]
    assert outputs["required"] == ["globs"]
    assert {"inline", "save", "name_template", "max_files", "max_file_bytes", "max_total_bytes"} < set(
        outputs["properties"]
    )
    assert properties["output_files"]["items"] == {"type": "string"}
    assert properties["env"]["additionalProperties"] == {"type": "string"}
    assert (properties["timeout"]["type"], properties["editor_text"]["type"]) == ("number", "string")
    assert parameters_of(SKILL_RUN)["required"] == ["skill", "command"]


def test_every_field_is_described_and_no_empty_default_is_told() -> None:
    for name, field in parameters_of(SKILL_RUN)["properties"].items():
        assert field["description"], name
        assert field.get("default", True), name
