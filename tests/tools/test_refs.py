""""""

from pathlib import Path

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.tools.files import READ_FILE
from openskills.tools.refs import (
    MAX_NAMES,
    ArtifactFile,
    FileKind,
    FileRef,
    SkillFile,
    WorkspaceFile,
    build_artifact_error,
    format_names,
    parse_file_ref,
    split_file_ref,
)
from openskills.tools.tool import ToolContext
from tests.tools.contexts import call, tool_context, write_skill


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("out/report.md", WorkspaceFile("out/report.md")),
        ("./out//report.md", WorkspaceFile("out/report.md")),
        ("workspace://out/report.md", WorkspaceFile("out/report.md")),
        ("WORKSPACE://out/report.md", WorkspaceFile("out/report.md")),
        ("$OUTPUT_DIR/report.md", WorkspaceFile("out/report.md")),
        ("${WORK_DIR}/a", WorkspaceFile("work/a")),
        ("workspace://$OUTPUT_DIR/report.md", WorkspaceFile("out/report.md")),
        ("inputs/a.csv", WorkspaceFile("work/inputs/a.csv")),
        ("skills/pdf/out/a", WorkspaceFile("out/a")),
        ("skills/pdf/SKILL.md", WorkspaceFile("skills/pdf/SKILL.md")),
        ("/workspace/out/a", WorkspaceFile("out/a")),
        ("//workspace//inputs/a", WorkspaceFile("work/inputs/a")),
        ("artifact://out/a.png", ArtifactFile("out/a.png")),
        ("artifact://out/a.png@3", ArtifactFile("out/a.png", 3)),
        ("skill://pdf/scripts/run.py", SkillFile("pdf", "scripts/run.py")),
        ("skill://pdf", SkillFile("pdf", "SKILL.md")),
        ("skill://pdf/", SkillFile("pdf", "SKILL.md")),
        ("a:b", WorkspaceFile("a:b")),
        ("out/100% of $HOME.txt", WorkspaceFile("out/100% of $HOME.txt")),
    ],
)
def test_what_a_model_writes_is_a_file_of_something(text: str, meant: FileRef) -> None:
    assert parse_file_ref(text, root="/workspace") == meant


@pytest.mark.parametrize(
    "text",
    ["out/a", "work/a b", "artifact://a@0", "artifact://user:a", "skill://pdf/SKILL.md"],
)
def test_a_ref_means_the_same_file_again(text: str) -> None:
    file = parse_file_ref(text)
    assert parse_file_ref(file.ref) == parse_file_ref(file.display_name) == file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/etc/passwd", "write a path such as out/report.md"),
        ("/workspacex/out/a", "is not in the workspace"),
        ("/out/a", "write 'out/a'"),
        ("/inputs/a", "write 'inputs/a'"),
        ("/workspace/../etc/passwd", "'..' is not allowed"),
        ("../../etc/passwd", "; write a path such as"),
        ("out/../../etc/passwd", "'..' is not allowed"),
        ("$OUTPUT_DIR/../../x", "'..' is not allowed"),
        ("workspace:///out/a", "write workspace://out/a"),
        ("skill://pdf/../other/x", "'..' is not allowed"),
        ("artifact://../x", ".."),
        ("host:///etc/passwd", "name it in `inputs` of skill_run"),
    ],
)
def test_what_leaves_is_forbidden_and_the_message_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ForbiddenPath) as caught:
        parse_file_ref(text, root="/workspace")
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty; write a path such as"),
        (" \n", "is empty"),
        ("out/a\0b", "NUL"),
        ("https://example.org/a", "write a path such as"),
        ("file:///etc/passwd", "unknown scheme"),
        ("$RUN_DIR/a", r"unknown variable $RUN_DIR"),
        ("$HOME/a", r"unknown variable $HOME"),
        ("skill://", "write skill://name/path"),
        ("skill:///x", "write skill://name/path"),
        ("artifact://a@", "ends with '@'"),
        (".", "is not a file name"),
        ("out/\ud800", "surrogate"),
        ("x" * 5000, "too long"),
    ],
)
def test_what_is_not_a_file_is_refused_with_the_field(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_file_ref(text, field="place")
    assert caught.value.field == "place"
    assert said in caught.value.message


def test_an_absolute_path_is_outside_when_nobody_knows_the_root() -> None:
    with pytest.raises(ForbiddenPath):
        parse_file_ref("/workspace/out/a")


def test_a_message_does_not_repeat_endless_text() -> None:
    with pytest.raises(ForbiddenPath) as caught:
        parse_file_ref("/" + "x" * 100_000)
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize(
    "text", [f"$X{'x' * 10**6}", "x" * 10**6 + "\0", f"skill://{'x' * 10**6}", f"skill://a/../{'x' * 10**6}"]
)
def test_what_is_too_long_for_a_path_is_said_without_repeating_it(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"is too long: [0-9,]+ characters") as caught:
        parse_file_ref(text)
    assert len(caught.value.message) < 500


@pytest.mark.parametrize(
    ("text", "kind", "rest"),
    [
        ("out/**/*.csv", FileKind.WORKSPACE, "out/**/*.csv"),
        ("$OUTPUT_DIR/*.csv", FileKind.WORKSPACE, "out/*.csv"),
        ("$WORKSPACE_DIR", FileKind.WORKSPACE, ""),
        ("/workspace", FileKind.WORKSPACE, ""),
        ("/workspace/out/*", FileKind.WORKSPACE, "out/*"),
        ("skill://pdf/*", FileKind.SKILL, "pdf/*"),
        ("artifact://", FileKind.ARTIFACT, ""),
    ],
)
def test_a_pattern_is_split_like_a_path(text: str, kind: FileKind, rest: str) -> None:
    assert split_file_ref(text, root="/workspace", field="glob") == (kind, rest)


async def refusal(context: ToolContext, name: str) -> str:
    with pytest.raises(InvalidArgument) as caught:
        await call(context, READ_FILE, file_name=name)
    assert caught.value.field == "file_name"
    return caught.value.message


async def messages(directory: Path, files: list[str], *names: str, loaded: tuple[str, ...] = ()) -> list[str]:
    async with tool_context(directory, loaded=loaded) as context:
        workspace = (await context.open_runner()).workspace
        for path in files:
            await workspace.write(path, b"x")
        return [await refusal(context, name) for name in names]


async def test_a_typo_is_answered_with_the_name(tmp_path: Path) -> None:
    said = await messages(tmp_path, ["out/report.md", "out/other"], "out/raport.md")
    assert said == ["file_name: 'out/raport.md' does not exist; did you mean 'out/report.md'?"]


async def test_a_file_in_another_directory_is_found_by_its_name(tmp_path: Path) -> None:
    said = await messages(tmp_path, ["out/deep/report.md"], "report.md", "work/report.md")
    assert all("did you mean 'out/deep/report.md'?" in one for one in said)


async def test_a_name_like_no_other_is_answered_with_some_that_there_are(tmp_path: Path) -> None:
    files = [f"out/{number}.csv" for number in range(9)] + ["out/dir/a"]
    (said,) = await messages(tmp_path, files, "out/zzzzzzz")
    assert said.endswith("out/ has 0.csv, 1.csv, 2.csv, 3.csv, 4.csv, 5.csv and 4 more")


async def test_a_directory_that_does_not_exist_is_answered_with_what_is_above(tmp_path: Path) -> None:
    (said,) = await messages(tmp_path, ["out/tables/a.csv"], "out/plots/deep/q.png")
    assert said.endswith("out/ has tables/")


async def test_an_empty_place_is_said_to_be_empty(tmp_path: Path) -> None:
    out, nowhere = await messages(tmp_path, [], "out/a", "nowhere/a")
    assert out.endswith("out/ is empty")
    assert "skills/, work/, runs/, out/" in nowhere


async def test_a_directory_is_told_from_a_missing_file(tmp_path: Path) -> None:
    (said,) = await messages(tmp_path, ["out/a[b]/c"], "out/a[b]")
    assert said.endswith("is a directory; list its files with list_files and 'out/a[b]/**'")


async def test_a_path_as_the_loaded_skill_writes_it_is_answered_with_the_ref(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"references/guide.md": "x"})
    write_skill(tmp_path, "other", files={"references/guide.md": "x"})
    (said,) = await messages(tmp_path, [], "references/guide.md", loaded=("demo",))
    assert said.endswith("did you mean 'skill://demo/references/guide.md'?")


async def test_a_skill_that_lacks_a_file_says_which_it_has(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"references/guide.md": "x", "scripts/run.py": "x"})
    said = await messages(tmp_path, [], "skill://demo/guide.md", "skill://demo/scripts/rum.py", "skill://demo/zzz")
    assert "did you mean 'skill://demo/references/guide.md'?" in said[0]
    assert "did you mean 'skill://demo/scripts/run.py'?" in said[1]
    assert said[2].endswith("it has SKILL.md, references/guide.md, scripts/run.py")


def test_few_names_are_named_and_the_others_counted() -> None:
    assert format_names(["a", "b"]) == "a, b"
    assert format_names([str(number) for number in range(MAX_NAMES + 1_000)]).endswith("5 and 1,000 more")
    assert format_names(["a\nb"]) == "a\\nb"


def test_an_artifact_that_lacks_a_version_keeps_its_message() -> None:
    error = InvalidArgument("artifact", "'a' has no version 3; it has 0")
    assert build_artifact_error("a", ["a"], error, "file_name").message == "file_name: 'a' has no version 3; it has 0"
