"""What models get wrong where the meaning is clear."""

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.staging.inputs import InputSpec, Mode
from openskills.executors.staging.outputs import OutputSpec
from openskills.tools.run_forgiving import (
    command,
    directory,
    environment,
    inputs,
    outputs,
    patterns,
    prefix,
    seconds,
)


def test_a_command_in_words_keeps_its_words() -> None:
    assert command(["python3", "a b.py", "$HOME"]) == "python3 'a b.py' '$HOME'"
    assert command("echo $HOME") == "echo $HOME"


@pytest.mark.parametrize("nothing", ["", " \n", []])
def test_an_empty_command_is_refused(nothing: object) -> None:
    with pytest.raises(InvalidArgument, match="command: is empty"):
        command(nothing)


def test_variables_become_text_and_null_is_none() -> None:
    given = {"A": 1, "B": True, "C": False, "D": 1.5, "E": None, "F": "text"}
    assert environment(given) == {"A": "1", "B": "true", "C": "false", "D": "1.5", "F": "text"}
    assert environment('{"A": "1"}') == {"A": "1"}


@pytest.mark.parametrize("wrong", [["A=1"], "A=1", {"A": ["1"]}, {"A": {"b": 1}}])
def test_variables_that_are_none_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match=r"env: .* write"):
        environment(wrong)


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
    assert patterns(given) == meant


def test_patterns_that_lead_out_or_are_none_are_refused_with_the_field() -> None:
    for wrong in ("/etc/passwd", ["../x"]):
        with pytest.raises(ForbiddenPath, match=r"^output_files: "):
            patterns(wrong)
    for wrong in ([1], {"a": 1}, [""], "$HOME/x"):
        with pytest.raises(InvalidArgument, match=r"^output_files: "):
            patterns(wrong)


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
    assert inputs(given) == (InputSpec("artifact://a", "work/a", Mode.LINK, pin=True),)


def test_an_input_that_is_only_text_is_its_source() -> None:
    assert inputs("workspace://out/a") == (InputSpec("workspace://out/a"),)
    assert inputs(["skill://x/y"]) == (InputSpec("skill://x/y"),)


@pytest.mark.parametrize("wrong", [[1], [{"form": "artifact://a"}], {"to": "x"}, [{"from": "a", "mode": "move"}]])
def test_inputs_that_are_none_are_refused_with_what_there_is(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^inputs"):
        inputs(wrong)


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
    assert outputs(given) == OutputSpec(("out/**",), save=True, max_files=5)


def test_outputs_that_are_only_patterns_are_patterns() -> None:
    assert outputs("out/*") == outputs(["out/*"]) == OutputSpec(("out/*",))


@pytest.mark.parametrize("nothing", [{}, [], "", {"globs": [], "save": False, "name_template": ""}])
def test_outputs_of_nothing_are_none(nothing: object) -> None:
    assert outputs(nothing) is None


@pytest.mark.parametrize("wrong", [5, {"save": True}, {"globs": ["a"], "max": 1}, {"globs": ["a"], "max_files": "few"}])
def test_outputs_that_are_none_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^outputs"):
        outputs(wrong)


@pytest.mark.parametrize(
    ("given", "meant"), [(60, 60.0), (0.5, 0.5), ("60", 60.0), (" 1.5 s", 1.5), ("2 seconds", 2.0)]
)
def test_a_timeout_is_seconds_in_numbers_or_text(given: object, meant: float) -> None:
    assert seconds(given) == meant


@pytest.mark.parametrize("default", [0, -1, "0", "-5", -0.5])
def test_a_timeout_that_is_not_above_zero_is_the_default(default: object) -> None:
    assert seconds(default) is None


def test_a_timeout_beyond_all_numbers_is_a_very_long_one() -> None:
    assert seconds(10**400) == 10**12
    assert seconds("9" * 400) == float("inf")
    assert seconds(-(10**400)) is None


@pytest.mark.parametrize("wrong", ["soon", True, [60], "1 minute", float("nan"), "nan"])
def test_what_is_no_timeout_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match=r"timeout: .* is no number of seconds"):
        seconds(wrong)


@pytest.mark.parametrize("wrong", ["host://" + "x" * 10**6, {"from": "workspace://a", "to": "../" + "x" * 10**6}])
def test_places_that_are_too_long_are_refused_without_repeating_them(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match=r"inputs: (from|to) has 1,000,00\d characters; 4,352 is the most"):
        inputs(wrong)
    with pytest.raises(InvalidArgument, match="cwd: has 1,000,003 characters"):
        directory("../" + "x" * 10**6)
    assert directory("$WORK_DIR/x") == "$WORK_DIR/x"


def test_a_prefix_must_be_one_that_names_of_artifacts_can_have() -> None:
    assert prefix("pref/") == "pref/"
    assert prefix("user:") == "user:"
    for wrong in ("/abs/", "../up/"):
        with pytest.raises(ForbiddenPath, match="artifact_prefix"):
            prefix(wrong)
