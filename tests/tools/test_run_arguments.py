"""Arguments of `skill_run`, and what goes into a run and comes out: inputs, files, outputs, artifacts."""

from pathlib import Path

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import read_artifact
from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.commands import CommandRules
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
from openskills.tools.tool import ToolOptions, build_parameters
from openskills.tools.uploads import upload_from_bytes
from tests.conftest import RequireProgram
from tests.tools.contexts import SCOPE
from tests.tools.run_calls import PNG, call, names, opened, said, written


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


@pytest.mark.parametrize(
    ("command", "got"), [(5, "a number"), (["ls", 5], "a number"), ({"a": 1}, "an object"), (["ls", ["x"]], "a list")]
)
def test_a_command_that_is_not_made_of_texts_is_refused_with_what_is_expected(command: object, got: str) -> None:
    with pytest.raises(InvalidArgument, match=f"command: expected text for bash, or a list of texts.*; got {got}"):
        written(command=command)


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
def test_an_invalid_timeout_is_refused(wrong: object) -> None:
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


async def test_what_a_run_made_in_out_is_listed_and_its_main_file_shown(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        data = await call(context, "echo '# R' > out/report.md; echo x > out/b.txt; mkdir out/d; echo y > out/d/c.txt")
        assert names(data) == ["out/b.txt", "out/d/c.txt", "out/report.md"]
        assert all("content" not in file for file in data["output_files"])
        assert (data["primary_output"]["name"], data["primary_output"]["content"]) == ("out/report.md", "# R\n")
        later = await call(context, "echo more >> out/b.txt; cat out/report.md")
        assert (names(later), later["primary_output"]["content"]) == (["out/b.txt"], "x\nmore\n")
        nothing = await call(context, "true")
        assert (nothing["output_files"], "primary_output" in nothing, "warnings" in nothing) == ([], False, False)


async def test_of_many_files_the_first_twenty_are_listed_and_the_result_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        data = await call(context, "for i in $(seq 10 40); do echo $i > out/$i; done; head -c 99999 /dev/zero > out/00")
        assert len(data["output_files"]) == 20
        assert data["output_files"][0] == {
            "name": "out/00",
            "ref": "workspace://out/00",
            "mime_type": "application/octet-stream",
            "size_bytes": 99999,
            "truncated": False,
        }
        assert "only the first 20 were collected" in said(data)


async def test_patterns_bring_the_content_of_text_and_never_of_anything_else(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        data = await call(
            context, "echo é > out/a.txt; printf '\\0' > out/z.bin; echo no > work/n", output_files="$OUTPUT_DIR/*"
        )
        assert [file.get("content") for file in data["output_files"]] == ["é\n", None]
        data = await call(context, "echo 1 > out/a.txt", output_files=["out/a.txt"], omit_inline_content=True)
        assert "content" not in data["output_files"][0]
        assert "content" not in data["primary_output"]
        assert data["primary_output"]["ref"] == "workspace://out/a.txt"
        data = await call(context, "true", output_files=["out/a.*"])
        assert said(data) == "no new or changed file matches out/a.*"
        data = await call(context, "true", output_files=["out/a.txt"])
        assert [file["name"] for file in data["output_files"]] == ["out/a.txt"]


async def test_a_file_larger_than_its_limit_is_cut_between_characters_and_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        outputs = {"Globs": ["out/*"], "MaxFileBytes": 2}
        (file,) = (await call(context, "printf 'aéz' > out/a", outputs=outputs))["output_files"]
        assert (file["content"], file["size_bytes"], file["truncated"]) == ("a", 4, True)


async def test_a_png_becomes_an_artifact_unchanged_and_can_come_back_by_its_ref(tmp_path: Path) -> None:
    artifacts = MemoryArtifactStore()

    async with opened(tmp_path, artifacts=artifacts, uploads=(upload_from_bytes("p.png", PNG),)) as context:
        data = await call(
            context, "cp inputs/p.png out/chart.png", outputs={"globs": ["out/*.png"], "inline": False, "save": True}
        )
        assert data["artifact_files"] == [{"name": "out/chart.png", "version": 0, "ref": "artifact://out/chart.png@0"}]
        assert data["output_files"][0]["mime_type"] == "image/png"
        assert await read_artifact(artifacts, SCOPE, "out/chart.png") == PNG
        inputs = [{"from": data["artifact_files"][0]["ref"], "to": "inputs/again.png"}]
        again = await call(context, "cmp inputs/again.png inputs/p.png && echo same", inputs=inputs)
        assert again["stdout"] == "same\n"


async def test_the_older_way_saves_under_its_prefix(tmp_path: Path) -> None:
    artifacts = MemoryArtifactStore()

    async with opened(tmp_path, artifacts=artifacts) as context:
        data = await call(
            context,
            "echo report > out/report.txt",
            output_files=["out/report.txt"],
            omit_inline_content=True,
            save_as_artifacts=True,
            artifact_prefix="pref/",
        )
        assert data["artifact_files"][0]["ref"] == "artifact://pref/out/report.txt@0"
        assert await read_artifact(artifacts, SCOPE, "pref/out/report.txt") == b"report\n"


async def test_forced_saving_keeps_whole_files_that_nobody_asked_for(tmp_path: Path) -> None:
    artifacts = MemoryArtifactStore()

    async with opened(tmp_path, artifacts=artifacts, options=ToolOptions(force_save=True)) as context:
        data = await call(context, "head -c 300000 /dev/zero > out/zeros")
        assert [one["name"] for one in data["artifact_files"]] == ["out/zeros"]
        assert len(await read_artifact(artifacts, SCOPE, "out/zeros")) == 300_000
        assert "artifact_files" not in await call(context, "true")


async def test_without_a_store_files_come_back_and_a_warning_says_that_they_are_not_kept(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        data = await call(context, "echo x > out/a", output_files=["out/a"], save_as_artifacts=True)
        assert data["output_files"][0]["content"] == "x\n"
        assert "no artifact store" in said(data)
        assert "artifact_files" not in data


async def test_empty_leftovers_of_a_failed_run_are_left_out(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        data = await call(context, "nosuchprogram > out/result.txt")
        assert (data["exit_code"], data["output_files"], "primary_output" in data) == (127, [], False)
        assert "1 empty output files" in said(data)
        assert names(await call(context, ": > out/result.txt")) == ["out/result.txt"]


async def test_a_ref_is_an_input_of_a_later_call_as_a_copy_or_a_link(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        ref = (await call(context, "echo one > out/a.txt"))["output_files"][0]["ref"]
        inputs = [{"from": ref}, {"From": ref, "To": "work/linked.txt", "Mode": "link"}]
        data = await call(context, "cat inputs/a.txt work/linked.txt; readlink work/linked.txt", inputs=inputs)
        assert data["stdout"] == "one\none\n../out/a.txt\n"
        assert "staged_inputs" not in data


async def test_a_pinned_artifact_keeps_its_version(tmp_path: Path) -> None:
    artifacts = MemoryArtifactStore()

    async with opened(tmp_path, artifacts=artifacts) as context:
        for version in (b"v0 ", b"v1 "):
            await artifacts.put(SCOPE, "data", version)
            inputs = [{"from": "artifact://data", "to": "work/p", "pin": True}, {"from": "artifact://data"}]
            data = await call(context, "cat work/p inputs/data", inputs=inputs)
        assert data["stdout"] == "v0 v1 "


async def test_a_file_of_another_skill_is_an_input_although_that_was_never_loaded(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        data = await call(context, "cat inputs/x.txt", inputs=["skill://other/data/x.txt"])
        assert data["stdout"] == "of other"


async def test_a_file_of_the_host_needs_to_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a\nb\n")

    async with opened(tmp_path, rules=CommandRules(host_roots=[tmp_path])) as context:
        data = await call(
            context,
            "wc -l < work/inputs/notes.txt > out/lines.txt",
            inputs=[{"from": f"host://{tmp_path}/notes.txt", "to": "work/inputs/notes.txt", "mode": "copy"}],
            outputs={"globs": ["$OUTPUT_DIR/lines.txt"], "inline": True, "save": False, "max_files": 1},
        )
        assert data["primary_output"]["content"].strip() == "2"
    async with opened(tmp_path) as context:
        with pytest.raises(ForbiddenPath):
            await call(context, "true", inputs=[f"host://{tmp_path}/notes.txt"])


async def test_content_is_cut_to_what_the_operator_allows_and_kept_whole(tmp_path: Path) -> None:
    options = ToolOptions(max_inline_bytes=1000)
    async with opened(tmp_path, options=options, artifacts=MemoryArtifactStore()) as context:
        data = await call(
            context,
            "head -c 3000000 /dev/zero | tr '\\0' x > $OUTPUT_DIR/big.txt; echo 1 > $OUTPUT_DIR/report.md",
            outputs={"globs": ["out/*"], "max_file_bytes": 10**9, "max_total_bytes": 10**9, "save": True},
        )
        big, report = data["output_files"]
        assert (len(big["content"]), big["truncated"], big["size_bytes"]) == (998, True, 3_000_000)
        assert (report["content"], data["primary_output"]["content"]) == ("1\n", "1\n")
        assert said(data) == (
            "the content of 1 file was cut to 1,000 bytes in total; read on by ref, with read_file or a command"
        )
        assert context.artifacts is not None
        assert [one.size for one in await context.artifacts.list(context.scope)] == [3_000_000, 2]


async def test_files_of_the_conversation_are_there_and_told_once(tmp_path: Path) -> None:
    async with opened(
        tmp_path, uploads=(upload_from_bytes("my data.csv", b"1,2\n"), upload_from_bytes("../b", b"b"))
    ) as context:
        context.uploads.add_from_messages(
            [{"role": "user", "content": [{"type": "file", "file": {"filename": "x", "data": "!"}}]}]
        )
        with pytest.raises(InvalidArgument):
            await call(context, "true", cwd="nosuch")
        data = await call(context, "cat 'inputs/my data.csv'; cat work/inputs/b")
        assert data["stdout"] == "1,2\nb"
        assert data["staged_inputs"] == [
            {
                "name": "work/inputs/my data.csv",
                "original_name": "my data.csv",
                "mime_type": "text/csv",
                "size_bytes": 4,
            },
            {"name": "work/inputs/b", "original_name": "../b", "mime_type": "text/plain", "size_bytes": 1},
        ]
        assert said(data) == "x is unavailable: the content is not valid base64"
        again = await call(context, "rm inputs/b; echo mine > 'inputs/my data.csv'")
        assert "staged_inputs" not in again
        assert "warnings" not in again
        assert (await call(context, "ls inputs; cat inputs/*"))["stdout"] == "my data.csv\nmine\n"


@pytest.mark.parametrize(
    ("trap", "reason"),
    [
        ("mkfifo work/inputs/u", ""),
        ("ln -s /etc/hostname work/inputs/u", ""),
        ("ln -s ../../out/u work/inputs/u", ""),
        ("mkdir work/inputs/u", "is a directory"),
        ("rmdir work/inputs; ln -s /tmp work/inputs", "leads out"),
        ("rmdir work/inputs; echo no > work/inputs", "has a file where a directory is needed"),
    ],
)
async def test_whatever_lies_where_a_file_of_the_user_belongs_the_command_runs(
    tmp_path: Path, trap: str, reason: str
) -> None:
    async with opened(tmp_path) as context:
        await call(context, f"mkdir -p work/inputs; {trap}", cwd="$WORKSPACE_DIR")
        context.uploads.add(upload_from_bytes("u", b"user"))
        data = await call(context, "[ -f work/inputs/u ] && cat work/inputs/u", cwd="$WORKSPACE_DIR")
        assert data["stdout"] == ("" if reason else "user")
        assert ("u is unavailable: " in said(data), reason in said(data)) == (bool(reason), True)


async def test_in_a_sandbox_a_skill_works_from_the_users_file_to_the_artifact(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    for program in ("bwrap", "setpriv"):
        require_program(program)
    artifacts = MemoryArtifactStore()

    uploads = (upload_from_bytes("p.png", PNG), upload_from_bytes("notes.txt", b"one"))
    async with opened(tmp_path, executor="sandbox", artifacts=artifacts, uploads=uploads) as context:
        data = await call(
            context,
            "scripts/hello.sh && cp inputs/p.png out/chart.png && sed s/one/two/ inputs/notes.txt > out/answer.md",
            save_as_artifacts=True,
        )
        assert (data["stdout"], data["exit_code"], data["isolation"]) == ("hello from demo\n", 0, "bubblewrap")
        assert names(data) == ["out/answer.md", "out/chart.png"]
        assert data["primary_output"]["content"] == "two"
        assert [one["ref"] for one in data["artifact_files"]] == [
            "artifact://out/answer.md@0",
            "artifact://out/chart.png@0",
        ]
        assert await read_artifact(artifacts, SCOPE, "out/chart.png") == PNG
        inputs = [{"from": data["output_files"][0]["ref"], "to": "work/a.md"}, "skill://other/data/x.txt"]
        later = await call(context, "cat ../work/a.md ../work/inputs/x.txt; pwd", inputs=inputs, cwd="/workspace/out")
        assert later["stdout"] == "twoof other/workspace/out\n"
        assert "staged_inputs" not in later
