"""What a path in a workspace means, and values that are sent to another machine."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.requests import RunRequest, read_warm_modules
from openskills.executors.spec import (
    CapturedOutput,
    Command,
    CommandResult,
    EndReason,
    FileInfo,
    PackageEnvironment,
    TerminalSize,
    WorkspaceListing,
    WorkspaceUsage,
    build_reader,
    build_variables,
    check_writable_path,
    expand_path,
    normalize_path,
    resolve_cwd,
    to_json,
)


def test_text_that_was_cut_says_how_much_is_missing() -> None:
    captured = CapturedOutput(b"begin", b"end", cut=1000)
    assert captured.text() == "begin\n[... 1,000 bytes not kept ...]\nend"
    assert captured.bytes() == b"begin\n[... 1000 bytes not kept ...]\nend"
    assert captured.total == 1008


@pytest.mark.parametrize("cut_at", range(1, 12))
def test_a_cut_never_leaves_a_lone_surrogate(cut_at: int) -> None:
    whole = "é漢😀ß".encode()
    captured = CapturedOutput(whole[:cut_at], whole[cut_at:], cut=5)
    assert "\ufffd" not in captured.text()


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_invalid_utf8_survives_as_bytes_and_is_readable_as_text(head: bytes, tail: bytes) -> None:
    captured = CapturedOutput(head, tail)
    assert captured.bytes() == head + tail
    assert captured.text() == (head + tail).decode("utf-8", "replace")


def test_a_command_does_not_show_its_secrets_or_its_input() -> None:
    shown = repr(Command(("true",), secrets={"KEY": "hunter2"}, stdin=b"password"))
    assert "hunter2" not in shown
    assert "password" not in shown


@pytest.mark.parametrize(
    ("path", "means"),
    [
        ("out/a", "out/a"),
        ("./out//a", "out/a"),
        ("inputs", "work/inputs"),
        ("inputs/a", "work/inputs/a"),
        ("skills/pdf/out/a", "out/a"),
        ("skills/pdf/work", "work"),
        ("skills/pdf/inputs/a/b", "work/inputs/a/b"),
        ("skills/pdf/scripts/out", "skills/pdf/scripts/out"),
        ("skills/pdf", "skills/pdf"),
        ("..\\..\\x", "..\\..\\x"),
        ("C:\\x", "C:\\x"),
        ("%2e%2e/x", "%2e%2e/x"),
        ("~/x", "~/x"),
    ],
)
def test_a_path_has_one_spelling(path: str, means: str) -> None:
    assert normalize_path(path) == means


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b", "a//../..//b", "./..", "out/.."])
def test_a_path_that_leaves_is_forbidden(path: str) -> None:
    with pytest.raises(ForbiddenPath):
        normalize_path(path)


@pytest.mark.parametrize("path", ["", ".", "a\0b", "x" * 300, "a/" * 2500 + "a"])
def test_what_is_not_a_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidArgument):
        normalize_path(path)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("skills/pdf/SKILL.md", "read-only"),
        ("skills", "read-only"),
        ("skills/pdf/.venv/bin/python", "read-only"),
        ("notes.txt", "is not in the workspace"),
        ("out", "top-level directory of the workspace"),
        ("skills/pdf/out", "top-level directory of the workspace"),
    ],
)
def test_some_places_are_not_for_writing(path: str, said: str) -> None:
    with pytest.raises(ForbiddenPath, match=said):
        check_writable_path(path)


def test_a_place_for_writing_is_spelled_in_one_way() -> None:
    assert check_writable_path("skills/pdf/inputs/a") == "work/inputs/a"


RUN = "runs/run_1"


def test_the_variables_are_absolute_paths_below_the_workspace() -> None:
    assert build_variables("/workspace", RUN, "pdf") == {
        "WORKSPACE_DIR": "/workspace",
        "SKILLS_DIR": "/workspace/skills",
        "WORK_DIR": "/workspace/work",
        "OUTPUT_DIR": "/workspace/out",
        "RUN_DIR": "/workspace/runs/run_1",
        "SKILL_NAME": "pdf",
    }


@pytest.mark.parametrize(
    ("cwd", "place"),
    [
        ("", "skills/pdf"),
        (".", "skills/pdf"),
        ("scripts", "skills/pdf/scripts"),
        ("$WORK_DIR", "work"),
        ("${WORK_DIR}/a", "work/a"),
        ("$OUTPUT_DIR/x/y", "out/x/y"),
        ("$RUN_DIR", RUN),
        ("$RUN_DIR/sub", f"{RUN}/sub"),
        ("$SKILLS_DIR/other", "skills/other"),
        ("$WORKSPACE_DIR", "."),
        ("/", "."),
        ("/work", "work"),
        ("$WORK_DIRECTORY", "skills/pdf/$WORK_DIRECTORY"),
        ("a/$WORK_DIR", "skills/pdf/a/$WORK_DIR"),
    ],
)
def test_a_working_directory_means_what_the_documents_say(cwd: str, place: str) -> None:
    if cwd == "$WORK_DIRECTORY":
        with pytest.raises(InvalidArgument, match="WORK_DIRECTORY"):
            resolve_cwd(cwd, skill="pdf", run_dir=RUN)
        return
    assert resolve_cwd(cwd, skill="pdf", run_dir=RUN) == place


@pytest.mark.parametrize(
    "cwd", ["..", "../other", "/etc", "$WORK_DIR/../../etc", "/out/../..", "$WORKSPACE_DIR/..", "/.."]
)
def test_a_working_directory_that_leaves_is_an_error_and_no_redirect(cwd: str) -> None:
    with pytest.raises(ForbiddenPath, match="cwd"):
        resolve_cwd(cwd, skill="pdf", run_dir=RUN)


def test_without_a_skill_commands_run_in_the_workspace() -> None:
    assert resolve_cwd("", skill=None, run_dir=RUN) == "."


def test_only_the_documented_variables_are_expanded() -> None:
    assert expand_path("$OUTPUT_DIR/**/*.txt") == "out/**/*.txt"
    assert expand_path("${OUTPUT_DIR}") == "out"
    assert expand_path("a/$OUTPUT_DIR") == "a/$OUTPUT_DIR"
    with pytest.raises(InvalidArgument, match=r"unknown variable \$HOME"):
        expand_path("$HOME/x")
    with pytest.raises(InvalidArgument, match="RUN_DIR"):
        expand_path("$RUN_DIR/x")


@pytest.mark.parametrize(
    ("metadata", "modules"),
    [
        ({"openskills-warm": "pandas numpy"}, ("pandas", "numpy")),
        ({"openskills-warm": "pandas,numpy"}, ("pandas", "numpy")),
        ({"openskills-warm": ""}, ()),
        ({"openskills-warm": 3}, None),
        ({}, None),
    ],
)
def test_a_skill_says_in_its_metadata_what_to_load_ahead(
    metadata: dict[str, object], modules: tuple[str, ...] | None
) -> None:
    assert read_warm_modules(metadata) == modules


def test_a_request_does_not_show_its_input() -> None:
    assert "password" not in repr(RunRequest("true", stdin=b"password"))


@pytest.mark.parametrize(
    "value",
    [
        Command(
            ("a", "b"), env={"A": "\udcff"}, terminal=TerminalSize(3, 4), warm=(), packages=PackageEnvironment(("x",))
        ),
        CommandResult(
            1, EndReason.KILLED, 2, CapturedOutput(bytes(range(256)), b"", 3), CapturedOutput(), notes=("n",)
        ),
        WorkspaceListing((FileInfo("out/a", 1, (2, 3, 4), executable=True),), ("skipped",), complete=False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_was_sent_as_json_is_read_back_as_the_same(value: object) -> None:
    assert build_reader(type(value))(json.loads(json.dumps(value, default=to_json))) == value


@pytest.mark.parametrize("sent", ["text", [1], {"path": "a"}, {"bytes": 1, "files": "many"}, {"files": 1, "more": 2}])
def test_something_else_that_was_sent_is_refused(sent: object) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        build_reader(WorkspaceUsage)(sent)
