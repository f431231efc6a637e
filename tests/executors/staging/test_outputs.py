"""What is wanted from a run, and the file that is shown first."""

from collections.abc import Mapping

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.staging.outputs import OutputFile, OutputSpec, primary


def file(path: str, data: bytes = b"text", mime_type: str = "text/plain", *, truncated: bool = False) -> OutputFile:
    return OutputFile(path, data, len(data), mime_type, truncated)


def test_both_spellings_of_the_documents_are_understood() -> None:
    snake = {"globs": ["out/**"], "inline": False, "save": True, "name_template": "r/", "max_files": 1}
    legacy = {"Globs": ["out/**"], "Inline": False, "SAVE": True, "NameTemplate": "r/", "MaxFiles": 1}
    assert OutputSpec.parse(snake) == OutputSpec.parse(legacy)
    assert OutputSpec.parse(snake) == OutputSpec(("out/**",), inline=False, save=True, name_template="r/", max_files=1)


def test_snake_case_wins_and_null_is_the_default() -> None:
    spec = OutputSpec.parse({"MaxFiles": 1, "max_files": 2, "globs": "out/*", "max_file_bytes": None, "save": None})
    assert (spec.max_files, spec.max_file_bytes, spec.save, spec.globs) == (2, 4 * 1024 * 1024, False, ("out/*",))


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "outputs.globs"),
        ({"globs": []}, "outputs.globs"),
        ({"globs": [1]}, "outputs.globs"),
        ({"globs": ["["]}, "outputs.globs"),
        ({"globs": ["x"], "max_files": "many"}, "outputs.max_files"),
        ({"globs": ["x"], "max_files": True}, "outputs.max_files"),
        ({"globs": ["x"], "max_total_bytes": -1}, "outputs.max_total_bytes"),
        ({"globs": ["x"], "inline": "yes"}, "outputs.inline"),
        ({"globs": ["x"], "name_template": 1}, "outputs.name_template"),
        ({"globs": ["x"], "glob": 1}, "outputs"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_field(value: Mapping[str, object], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        OutputSpec.parse(value)
    assert refused.value.field == field


@pytest.mark.parametrize("value", [{"globs": ["../x"]}, {"globs": ["x"], "name_template": "../../x/"}])
def test_what_climbs_is_forbidden(value: Mapping[str, object]) -> None:
    with pytest.raises(ForbiddenPath):
        OutputSpec.parse(value)


def test_text_is_text_and_bytes_stay_bytes() -> None:
    assert file("a", "é".encode()).text() == "é"
    assert file("a", b"\x89PNG\0").text() is None
    assert file("a", b"\xff").text() is None
    assert file("a", b"x" + "é".encode()[:1], truncated=True).text() == "x"
    assert file("a", b"x" + "é".encode()[:1]).text() is None
    assert file("a").ref == "workspace://a"
    assert b"secret".decode() not in repr(file("a", b"secret"))


def test_the_file_whose_name_says_so_is_shown_first() -> None:
    files = [
        file("out/a.txt"),
        file("out/deep/report.json", mime_type="application/json"),
        file("out/b.md", mime_type="text/markdown"),
    ]
    assert primary(files) is files[1]
    assert primary(files[::2]) is files[2]
    assert primary([file("out/d/a.txt"), shallow := file("out/z.txt")]) is shallow
    assert primary([file("out/b.txt"), first := file("out/a.txt")]) is first


@pytest.mark.parametrize(
    "unsuitable",
    [
        file("a", b""),
        file("a", b" \n"),
        file("a", b"\0"),
        file("a", b"x" * 40_000),
        file("a", b"half", truncated=True),
    ],
)
def test_what_cannot_be_shown_whole_is_not_shown_first(unsuitable: OutputFile) -> None:
    assert primary([unsuitable]) is None
