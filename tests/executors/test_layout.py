import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.layout import expanded, variables, working_directory

RUN = "runs/run_1"


def test_the_variables_are_absolute_paths_below_the_workspace() -> None:
    assert variables("/workspace", RUN, "pdf") == {
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
            working_directory(cwd, skill="pdf", run_dir=RUN)
        return
    assert working_directory(cwd, skill="pdf", run_dir=RUN) == place


@pytest.mark.parametrize(
    "cwd", ["..", "../other", "/etc", "$WORK_DIR/../../etc", "/out/../..", "$WORKSPACE_DIR/..", "/.."]
)
def test_a_working_directory_that_leaves_is_an_error_and_no_redirect(cwd: str) -> None:
    with pytest.raises(ForbiddenPath, match="cwd"):
        working_directory(cwd, skill="pdf", run_dir=RUN)


def test_without_a_skill_commands_run_in_the_workspace() -> None:
    assert working_directory("", skill=None, run_dir=RUN) == "."


def test_only_the_documented_variables_are_expanded() -> None:
    assert expanded("$OUTPUT_DIR/**/*.txt") == "out/**/*.txt"
    assert expanded("${OUTPUT_DIR}") == "out"
    assert expanded("a/$OUTPUT_DIR") == "a/$OUTPUT_DIR"
    with pytest.raises(InvalidArgument, match=r"\$HOME is not a place"):
        expanded("$HOME/x")
    with pytest.raises(InvalidArgument, match="RUN_DIR"):
        expanded("$RUN_DIR/x")
