"""What `skill_run` takes.

What models get wrong where the meaning is clear.
"""

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.staging.inputs import InputMode, InputSpec
from openskills.executors.staging.outputs import OutputSpec
from openskills.tools.run import SKILL_RUN
from openskills.tools.run_arguments import (
    RunArguments,
    read_command,
    read_directory,
    read_environment,
    read_inputs,
    read_outputs,
    read_patterns,
    read_prefix,
    read_seconds,
)
from openskills.tools.tool import build_parameters
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
    properties = build_parameters(SKILL_RUN)["properties"]
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
    assert build_parameters(SKILL_RUN)["required"] == ["skill", "command"]


def test_no_empty_default_is_told() -> None:
    for name, field in build_parameters(SKILL_RUN)["properties"].items():
        assert field.get("default", True), name


def test_a_command_in_words_keeps_its_words() -> None:
    assert read_command(["python3", "a b.py", "$HOME"]) == ("python3", "a b.py", "$HOME")
    assert read_command(["ls -l"]) == "ls -l"
    assert read_command("echo $HOME") == "echo $HOME"


@pytest.mark.parametrize("nothing", ["", " \n", []])
def test_an_empty_command_is_refused(nothing: object) -> None:
    with pytest.raises(InvalidArgument, match="command: is empty"):
        read_command(nothing)


def test_variables_become_text_and_null_is_none() -> None:
    given = {"A": 1, "B": True, "C": False, "D": 1.5, "E": None, "F": "text"}
    assert read_environment(given) == {"A": "1", "B": "true", "C": "false", "D": "1.5", "F": "text"}
    assert read_environment('{"A": "1"}') == {"A": "1"}


@pytest.mark.parametrize("wrong", [["A=1"], "A=1", {"A": ["1"]}, {"A": {"b": 1}}])
def test_variables_that_are_none_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match=r"env: .*expected"):
        read_environment(wrong)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("out/*.txt", ("out/*.txt",)),
        (["out/a", "$OUTPUT_DIR/b"], ("out/a", "$OUTPUT_DIR/b")),
        ('["out/a"]', ("out/a",)),
        ("[ab].txt", ("[ab].txt",)),
        ("{a,b}.txt", ("{a,b}.txt",)),
        ([], ()),
    ],
)
def test_patterns_are_a_list_or_one(given: object, meant: tuple[str, ...]) -> None:
    assert read_patterns(given) == meant


def test_patterns_that_lead_out_or_are_none_are_refused_with_the_field() -> None:
    for wrong in ("/etc/passwd", ["../x"]):
        with pytest.raises(ForbiddenPath, match=r"^output_files: "):
            read_patterns(wrong)
    for wrong in ([1], {"a": 1}, [""], "$HOME/x"):
        with pytest.raises(InvalidArgument, match=r"^output_files: "):
            read_patterns(wrong)


@pytest.mark.parametrize(
    "given",
    [
        [{"from": "artifact://a", "to": "work/a", "mode": "link", "pin": True}],
        {"From": "artifact://a", "TO": "work/a", "Mode": "LINK", "PIN": "true"},
        '[{"from": "artifact://a", "to": "work/a", "mode": "link", "pin": true}]',
        ['{"from": "artifact://a", "to": "work/a", "mode": "link", "pin": true}'],
    ],
)
def test_inputs_are_objects_in_any_case_and_one_is_enough(given: object) -> None:
    assert read_inputs(given) == (InputSpec("artifact://a", "work/a", InputMode.LINK, pin=True),)


def test_an_input_that_is_only_text_is_its_source() -> None:
    assert read_inputs("workspace://out/a") == (InputSpec("workspace://out/a"),)
    assert read_inputs(["skill://x/y"]) == (InputSpec("skill://x/y"),)


@pytest.mark.parametrize("wrong", [[1], [{"form": "artifact://a"}], {"to": "x"}, [{"from": "a", "mode": "move"}]])
def test_inputs_that_are_none_are_refused_with_what_there_is(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^inputs"):
        read_inputs(wrong)


@pytest.mark.parametrize(
    "given",
    [
        {"globs": ["out/**"], "save": True, "max_files": 5},
        {"Globs": ["out/**"], "Save": "true", "MaxFiles": "5"},
        {"globs": "out/**", "save": "True", "maxFiles": 5.0},
        {"globs": '["out/**"]', "save": True, "max_files": 5},
        '{"globs": ["out/**"], "save": true, "max_files": 5}',
    ],
)
def test_outputs_are_read_in_every_spelling(given: object) -> None:
    assert read_outputs(given) == OutputSpec(("out/**",), save=True, max_files=5)


def test_outputs_that_are_only_patterns_are_patterns() -> None:
    assert read_outputs("out/*") == read_outputs(["out/*"]) == OutputSpec(("out/*",))


@pytest.mark.parametrize("nothing", [{}, [], "", {"globs": [], "save": False, "name_template": ""}])
def test_outputs_of_nothing_are_none(nothing: object) -> None:
    assert read_outputs(nothing) is None


@pytest.mark.parametrize("wrong", [5, {"save": True}, {"globs": ["a"], "max": 1}, {"globs": ["a"], "max_files": "few"}])
def test_outputs_that_are_none_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^outputs"):
        read_outputs(wrong)


@pytest.mark.parametrize(
    ("given", "meant"), [(60, 60.0), (0.5, 0.5), ("60", 60.0), (" 1.5 s", 1.5), ("2 seconds", 2.0)]
)
def test_a_timeout_is_seconds_in_numbers_or_text(given: object, meant: float) -> None:
    assert read_seconds(given) == meant


@pytest.mark.parametrize("default", [0, -1, "0", "-5", -0.5])
def test_a_timeout_that_is_not_above_zero_is_the_default(default: object) -> None:
    assert read_seconds(default) is None


def test_a_timeout_beyond_all_numbers_is_a_very_long_one() -> None:
    assert read_seconds(10**400) == 10**12
    assert read_seconds("9" * 400) == float("inf")
    assert read_seconds(-(10**400)) is None


@pytest.mark.parametrize("wrong", ["soon", True, [60], "1 minute", float("nan"), "nan"])
def test_what_is_no_timeout_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match=r"timeout: expected a number of seconds"):
        read_seconds(wrong)


@pytest.mark.parametrize("wrong", ["host://" + "x" * 10**6, {"from": "workspace://a", "to": "../" + "x" * 10**6}])
def test_places_that_are_too_long_are_refused_without_repeating_them(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match=r"inputs: (from|to) is too long: 1,000,00\d characters, at most 4,352"):
        read_inputs(wrong)
    with pytest.raises(InvalidArgument, match="cwd: too long: 1,000,003 characters"):
        read_directory("../" + "x" * 10**6)
    assert read_directory("$WORK_DIR/x") == "$WORK_DIR/x"


def test_a_prefix_must_be_one_that_names_of_artifacts_can_have() -> None:
    assert read_prefix("pref/") == "pref/"
    assert read_prefix("user:") == "user:"
    for wrong in ("/abs/", "../up/"):
        with pytest.raises(ForbiddenPath, match="artifact_prefix"):
            read_prefix(wrong)
