import asyncio
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.tools.nearest import NAMES, few, no_artifact
from openskills.tools.read_file import READ_FILE
from openskills.tools.tool import ToolContext
from tests.tools.contexts import call, tool_context, write_skill


async def refusal(context: ToolContext, name: str) -> str:
    with pytest.raises(InvalidArgument) as caught:
        await call(context, READ_FILE, file_name=name)
    assert caught.value.field == "file_name"
    return caught.value.message


def messages(directory: Path, files: list[str], *names: str, loaded: tuple[str, ...] = ()) -> list[str]:
    async def scenario() -> list[str]:
        async with tool_context(directory, loaded=loaded) as context:
            workspace = (await context.bench()).workspace
            for path in files:
                await workspace.write(path, b"x")
            return [await refusal(context, name) for name in names]

    return asyncio.run(scenario())


def test_a_typo_is_answered_with_the_name(tmp_path: Path) -> None:
    said = messages(tmp_path, ["out/report.md", "out/other"], "out/raport.md")
    assert said == ["file_name: 'out/raport.md' does not exist; did you mean 'out/report.md'?"]


def test_a_file_in_another_directory_is_found_by_its_name(tmp_path: Path) -> None:
    said = messages(tmp_path, ["out/deep/report.md"], "report.md", "work/report.md")
    assert all("did you mean 'out/deep/report.md'?" in one for one in said)


def test_a_name_like_no_other_is_answered_with_some_that_there_are(tmp_path: Path) -> None:
    files = [f"out/{number}.csv" for number in range(9)] + ["out/dir/a"]
    (said,) = messages(tmp_path, files, "out/zzzzzzz")
    assert said.endswith("out/ has 0.csv, 1.csv, 2.csv, 3.csv, 4.csv, 5.csv and 4 more")


def test_a_directory_that_does_not_exist_is_answered_with_what_is_above(tmp_path: Path) -> None:
    (said,) = messages(tmp_path, ["out/tables/a.csv"], "out/plots/deep/q.png")
    assert said.endswith("out/ has tables/")


def test_an_empty_place_is_said_to_be_empty(tmp_path: Path) -> None:
    out, nowhere = messages(tmp_path, [], "out/a", "nowhere/a")
    assert out.endswith("out/ is empty")
    assert "skills/, work/, runs/, out/" in nowhere


def test_a_directory_is_told_from_a_missing_file(tmp_path: Path) -> None:
    (said,) = messages(tmp_path, ["out/a[b]/c"], "out/a[b]")
    assert said.endswith("is a directory; list_files with 'out/a[b]/**' shows its files")


def test_a_path_as_the_loaded_skill_writes_it_is_answered_with_the_ref(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"references/guide.md": "x"})
    write_skill(tmp_path, "other", files={"references/guide.md": "x"})
    (said,) = messages(tmp_path, [], "references/guide.md", loaded=("demo",))
    assert said.endswith("did you mean 'skill://demo/references/guide.md'?")


def test_a_skill_that_lacks_a_file_says_which_it_has(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"references/guide.md": "x", "scripts/run.py": "x"})
    said = messages(tmp_path, [], "skill://demo/guide.md", "skill://demo/scripts/rum.py", "skill://demo/zzz")
    assert "did you mean 'skill://demo/references/guide.md'?" in said[0]
    assert "did you mean 'skill://demo/scripts/run.py'?" in said[1]
    assert said[2].endswith("it has SKILL.md, references/guide.md, scripts/run.py")


def test_few_names_are_named_and_the_others_counted() -> None:
    assert few(["a", "b"]) == "a, b"
    assert few([str(number) for number in range(NAMES + 1_000)]).endswith("5 and 1,000 more")
    assert few(["a\nb"]) == "a\\nb"


def test_an_artifact_that_lacks_a_version_keeps_its_message() -> None:
    error = InvalidArgument("artifact", "'a' has no version 3; it has 0")
    assert no_artifact("a", ["a"], error, "file_name").message == "file_name: 'a' has no version 3; it has 0"
