import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.tools.refs import ArtifactFile, FileRef, Kind, SkillFile, WorkspaceFile, parse_file, split


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
    assert parse_file(text, root="/workspace") == meant


@pytest.mark.parametrize(
    "text",
    ["out/a", "work/a b", "artifact://a@0", "artifact://user:a", "skill://pdf/SKILL.md"],
)
def test_a_ref_means_the_same_file_again(text: str) -> None:
    file = parse_file(text)
    assert parse_file(file.ref) == parse_file(file.shown) == file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/etc/passwd", "write a path such as out/report.md"),
        ("/workspacex/out/a", "is not in the workspace"),
        ("/out/a", "write 'out/a'"),
        ("/inputs/a", "write 'inputs/a'"),
        ("/workspace/../etc/passwd", "climbs out"),
        ("../../etc/passwd", "climbs out with '..'; write a path such as"),
        ("out/../../etc/passwd", "climbs out"),
        ("$OUTPUT_DIR/../../x", "climbs out"),
        ("workspace:///out/a", "write workspace://out/a"),
        ("skill://pdf/../other/x", "climbs out"),
        ("artifact://../x", "climbs out"),
        ("host:///etc/passwd", "name it in `inputs` of skill_run"),
    ],
)
def test_what_leaves_is_forbidden_and_the_message_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ForbiddenPath) as caught:
        parse_file(text, root="/workspace")
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty; write a path such as"),
        (" \n", "is empty"),
        ("out/a\0b", "NUL"),
        ("https://example.org/a", "write a path such as"),
        ("file:///etc/passwd", "unknown kind"),
        ("$RUN_DIR/a", r"$RUN_DIR is not a place"),
        ("$HOME/a", r"$HOME is not a place"),
        ("skill://", "write skill://name/path"),
        ("skill:///x", "write skill://name/path"),
        ("artifact://a@", "ends with '@'"),
        (".", "names no file"),
        ("out/\ud800", "surrogate"),
        ("x" * 5000, "too long"),
    ],
)
def test_what_is_no_file_is_refused_with_the_field(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_file(text, field="place")
    assert caught.value.field == "place"
    assert said in caught.value.message


def test_an_absolute_path_is_outside_when_nobody_knows_the_root() -> None:
    with pytest.raises(ForbiddenPath):
        parse_file("/workspace/out/a")


def test_a_message_does_not_repeat_endless_text() -> None:
    with pytest.raises(ForbiddenPath) as caught:
        parse_file("/" + "x" * 100_000)
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize(
    "text", [f"$X{'x' * 10**6}", "x" * 10**6 + "\0", f"skill://{'x' * 10**6}", f"skill://a/../{'x' * 10**6}"]
)
def test_what_is_too_long_for_a_path_is_said_without_repeating_it(text: str) -> None:
    with pytest.raises(InvalidArgument, match="characters, which is too long") as caught:
        parse_file(text)
    assert len(caught.value.message) < 500


@pytest.mark.parametrize(
    ("text", "kind", "rest"),
    [
        ("out/**/*.csv", Kind.WORKSPACE, "out/**/*.csv"),
        ("$OUTPUT_DIR/*.csv", Kind.WORKSPACE, "out/*.csv"),
        ("$WORKSPACE_DIR", Kind.WORKSPACE, ""),
        ("/workspace", Kind.WORKSPACE, ""),
        ("/workspace/out/*", Kind.WORKSPACE, "out/*"),
        ("skill://pdf/*", Kind.SKILL, "pdf/*"),
        ("artifact://", Kind.ARTIFACT, ""),
    ],
)
def test_a_pattern_is_split_like_a_path(text: str, kind: Kind, rest: str) -> None:
    assert split(text, root="/workspace", field="glob") == (kind, rest)
