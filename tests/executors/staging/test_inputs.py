"""Inputs as a model writes them."""

from collections.abc import Mapping
from pathlib import PurePosixPath

import pytest

from openskills.artifacts.ref import Ref
from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.staging.inputs import Artifact, HostPath, InputSpec, Mode, WorkspacePath, plan


def destination(source: str, to: str | None = None) -> str:
    (planned,) = plan([InputSpec(source, to)], run_dir="runs/r1")
    return planned.to


def test_keys_may_be_written_in_any_case() -> None:
    assert InputSpec.parse({"From": "artifact://a", "TO": "work/x", "Mode": "LINK", "pin": True}) == InputSpec(
        "artifact://a", "work/x", Mode.LINK, pin=True
    )
    assert InputSpec.parse({"from": "artifact://a", "to": None, "mode": ""}) == InputSpec("artifact://a")


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "inputs.from"),
        ({"from": ""}, "inputs.from"),
        ({"from": 1}, "inputs.from"),
        ({"from": "artifact://a", "to": 1}, "inputs.to"),
        ({"from": "artifact://a", "mode": "move"}, "inputs.mode"),
        ({"from": "artifact://a", "pin": "yes"}, "inputs.pin"),
        ({"from": "artifact://a", "dst": "x"}, "inputs"),
    ],
)
def test_what_is_no_input_is_refused_by_its_field(value: Mapping[str, object], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        InputSpec.parse(value)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("source", "means"),
    [
        ("artifact://data/a.csv@3", Artifact(Ref("data/a.csv", 3))),
        ("artifact://user:a@b.txt", Artifact(Ref("user:a@b.txt", None))),
        ("host:///data/a.csv", HostPath(PurePosixPath("/data/a.csv"))),
        ("workspace://out/a", WorkspacePath("out/a")),
        ("workspace://$OUTPUT_DIR/a", WorkspacePath("out/a")),
        ("workspace://inputs/a", WorkspacePath("work/inputs/a")),
        ("skill://pdf/scripts/a.py", WorkspacePath("skills/pdf/scripts/a.py", "pdf")),
        ("skill://pdf", WorkspacePath("skills/pdf", "pdf")),
        ("HOST:///data/%2e%2e/a", HostPath(PurePosixPath("/data/%2e%2e/a"))),
    ],
)
def test_a_source_is_read_by_its_scheme(source: str, means: object) -> None:
    (planned,) = plan([InputSpec(source)])
    assert planned.source == means


@pytest.mark.parametrize(
    "source",
    [
        "data.csv",
        "http://example.org/x",
        "file:///etc/passwd",
        "host://relative",
        "host://",
        "host:///",
        "workspace://",
        "workspace://.",
        "skill://",
        "skill://.hidden/x",
        "artifact://",
        "artifact://a@",
        "artifact://a@01",
        "workspace://a\0b",
        "workspace://$HOME/x",
    ],
)
def test_what_is_no_source_is_refused(source: str) -> None:
    with pytest.raises(InvalidArgument):
        plan([InputSpec(source)])


@pytest.mark.parametrize(
    "source",
    [
        "skill://other/../../x",
        "artifact://../b",
        "artifact://a/../../b@1",
        "artifact://a@../../b",
        "workspace://../x",
        "workspace:///etc/passwd",
        "workspace://$WORK_DIR/../../x",
        "host:///data/../etc/passwd",
        "skill://../x",
    ],
)
def test_a_source_that_climbs_is_forbidden(source: str) -> None:
    with pytest.raises(ForbiddenPath):
        plan([InputSpec(source)])


@pytest.mark.parametrize(
    ("source", "to", "goes_to"),
    [
        ("artifact://data/a.csv@3", None, "work/inputs/a.csv"),
        ("artifact://user:a.csv", None, "work/inputs/a.csv"),
        ("host:///data/dir", "", "work/inputs/dir"),
        ("workspace://out/a", "inputs", "work/inputs/a"),
        ("workspace://out/a", ".", "work/inputs/a"),
        ("workspace://out/a", "inputs/", "work/inputs/a"),
        ("workspace://out/a", "inputs/b", "work/inputs/b"),
        ("workspace://out/a", "work/data/", "work/data/a"),
        ("workspace://out/a", "$OUTPUT_DIR/b", "out/b"),
        ("workspace://out/a", "${RUN_DIR}/b", "runs/r1/b"),
        ("skill://pdf/x", "skills/pdf/inputs/y", "work/inputs/y"),
        ("skill://pdf", None, "work/inputs/pdf"),
    ],
)
def test_a_destination_is_in_the_workspace(source: str, to: str | None, goes_to: str) -> None:
    assert destination(source, to) == goes_to


@pytest.mark.parametrize(
    "to",
    [
        "../../etc/cron.d/x",
        "/etc/passwd",
        "/",
        "a/../../b",
        "a//../..//b",
        "./..",
        "work/..",
        "$OUTPUT_DIR/../../x",
        "skills/pdf/SKILL.md",
        "skills/pdf/.venv/bin/python",
        "elsewhere/x",
        "out",
        "work",
    ],
)
def test_a_destination_elsewhere_is_forbidden(to: str) -> None:
    with pytest.raises(ForbiddenPath):
        destination("artifact://a", to)


@pytest.mark.parametrize("to", ["work/a\0b", "work/" + "x" * 300, "$HOME/x"])
def test_a_destination_that_is_no_path_is_refused(to: str) -> None:
    with pytest.raises(InvalidArgument):
        destination("artifact://a", to)


def test_two_inputs_with_one_destination_are_refused_with_both_names() -> None:
    with pytest.raises(InvalidArgument, match=r"artifact://a/x and artifact://b/x both go to 'work/inputs/x'"):
        plan([InputSpec("artifact://a/x"), InputSpec("artifact://b/x", "inputs/x")])
