"""`skill_run`, from the call of a model to its result.

Load first.

Packages that skills declare: installed only where the application says so, by real installers, without a network.

What is told about a run.

From what a model wrote to a command.
"""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.artifacts.store import Artifact
from openskills.errors import (
    CommandDenied,
    ExecutorUnavailable,
    ForbiddenPath,
    InvalidArgument,
    NotLoaded,
    SkillError,
    UnknownSkill,
)
from openskills.executors.commands import CommandRules
from openskills.executors.package_index import PackageIndex
from openskills.executors.policy import CommandPolicy
from openskills.executors.requests import RunResult
from openskills.executors.spec import CapturedOutput, CommandResult, EndReason, Isolation, Limits
from openskills.executors.staging.outputs import OutputFile, OutputSpec
from openskills.project import SkillGrants
from openskills.runtime.options import SessionOptions
from openskills.session.state import (
    AgentView,
    Change,
    Consumed,
    Loaded,
    RecordedChange,
    SkillState,
    TurnBegan,
    Unloaded,
    apply_changes,
)
from openskills.testing.fake_executor import FakeExecutor, FakeRun
from openskills.tools.approvals import ApprovalDecision, ApprovalQuestion
from openskills.tools.run import (
    CONTENT_BYTES,
    SKILL_RUN,
    RunPlan,
    RunResultOptions,
    build_output_spec,
    build_result_data,
    describe_result,
    prepare_run,
    require_loaded,
)
from openskills.tools.run_arguments import RunOutputs
from openskills.tools.tool import ToolContext, ToolOptions
from openskills.tools.uploads import WorkspaceUpload, upload_from_bytes
from tests.conftest import RequireProgram
from tests.executors.running import alive, eventually
from tests.executors.wheels import wheel
from tests.runtime.talking import runtime_in
from tests.tools.contexts import AGENT, loaded_view, tool_context, write_skill
from tests.tools.run_calls import PNG, call, names, opened, said, written


async def test_a_script_of_the_skill_runs_and_the_text_is_the_data(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        result = await SKILL_RUN.run(context, written(command="scripts/hello.sh; echo oops >&2; exit 3"))
        assert json.loads(result.text) == result.data
        assert (result.data["stdout"], result.data["stderr"]) == ("hello from demo\n", "oops\n")
        assert (result.data["exit_code"], result.data["isolation"]) == (3, "none")
        assert (result.error, result.changes) == (None, ())


@pytest.mark.parametrize(
    ("cwd", "ends"),
    [
        ("", "/skills/demo"),
        ("scripts/sub", "/skills/demo/scripts/sub"),
        ("$WORK_DIR", "/work"),
        ("${WORK_DIR}/inputs", "work/inputs"),
        ("$OUTPUT_DIR", "/out"),
        ("$SKILLS_DIR/demo/scripts", "/skills/demo/scripts"),
        ("$WORKSPACE_DIR", "/tree"),
        ("/work", "/work"),
    ],
)
async def test_a_command_starts_where_it_is_told_to(tmp_path: Path, cwd: str, ends: str) -> None:
    async with opened(tmp_path) as context:
        assert (await call(context, "pwd -P", cwd=cwd))["stdout"].strip().endswith(ends)


async def test_the_modules_that_a_skill_wants_loaded_ahead_are_loaded_when_its_script_begins(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, files={"scripts/a.py": "import sys; print('wave' in sys.modules, sys.argv[1:])"})
    (folder / "SKILL.md").write_text("---\nname: demo\ndescription: d\nmetadata:\n  openskills-warm: wave\n---\n")

    async with tool_context(tmp_path, executor="local", loaded=["demo"]) as context:
        for _ in range(2):
            assert (await call(context, "python3 scripts/a.py 'x y'"))["stdout"] == "True ['x y']\n"
        assert (await call(context, "python3 scripts/a.py | cat"))["stdout"] == "False []\n"


async def test_each_run_may_start_in_a_directory_of_its_own(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        data = await call(
            context, '[ "$PWD" = "$RUN_DIR" ] && echo x > made', cwd="$RUN_DIR", output_files="$RUN_DIR/*"
        )
        assert data["output_files"][0]["content"] == "x\n"
        assert names(data)[0].startswith("runs/run_")


@pytest.mark.parametrize("cwd", ["..", "../other", "/etc", "$HOME", "$WORK_DIR/../..", "nosuch", "$NOSUCH/x", "a\0b"])
async def test_an_invalid_directory_is_refused_and_nothing_runs(tmp_path: Path, cwd: str) -> None:
    async with opened(tmp_path) as context:
        with pytest.raises((ForbiddenPath, InvalidArgument), match="cwd"):
            await call(context, "touch $OUTPUT_DIR/ran", cwd=cwd)
        assert (await call(context, "ls $OUTPUT_DIR"))["stdout"] == ""


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PATH", "HOME", "BASH_ENV", "OUTPUT_DIR", "not a name", "PYTHONPATH"])
async def test_variables_that_change_other_programs_are_refused_with_their_name(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path) as context:
        with pytest.raises(InvalidArgument, match=f"env: .*{name}"):
            await call(context, "true", env={name: "x"})


async def test_variables_stdin_and_the_text_of_an_editor_arrive(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        command = 'echo $N-$YES; cat; $EDITOR work/message; cat work/message; echo "$SKILL_NAME"'
        data = await call(context, command, env={"N": 5, "YES": True}, stdin="in é\n", editor_text="edited\n")
        assert data["stdout"] == "5-true\nin é\nedited\ndemo\n"


async def test_secrets_reach_only_the_skills_that_they_are_for(tmp_path: Path) -> None:
    secrets = {"*": "ALL", "demo": "OWN", "other": "FOREIGN"}
    options = ToolOptions(grants={skill: SkillGrants(secrets=(name,)) for skill, name in secrets.items()})

    values = {"ALL": "for-all", "OWN": "for-demo", "FOREIGN": "for-other"}
    async with opened(tmp_path, options=options, rules=CommandRules(values=values)) as context:
        command = "echo ${#ALL} ${#OWN} ${#FOREIGN} $ALL"
        assert (await call(context, command))["stdout"] == "7 8 0 *******\n"


async def test_a_command_whose_time_is_up_says_what_to_do_and_what_it_had_made(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        data = await call(context, "echo begun; echo x > out/a; : > out/empty; exec sleep 60", timeout="2")
        assert (data["timed_out"], data["exit_code"], data["stdout"]) == (True, 143, "begun\n")
        assert names(data) == ["out/a"]
        assert data["warnings"][0].startswith("the command was stopped: timed out after 2 s; set a longer timeout")


async def test_long_output_is_cut_in_the_middle(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        data = await call(context, "seq 100000; seq 100000 >&2")
        for name in ("stdout", "stderr"):
            assert data[name].startswith("1\n2\n")
            assert data[name].endswith("99999\n100000\n")
            assert len(data[name]) < 17_000
            assert f"{name} has 588,895 bytes; head and tail, 16,384 bytes, are shown" in said(data)


async def test_a_denied_command_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, rules=CommandRules(policy=CommandPolicy.of(["ls"]))) as context:
        with pytest.raises(CommandDenied, match="allowed: ls"):
            await call(context, "cat SKILL.md")
        assert "SKILL.md" in (await call(context, "ls"))["stdout"]


async def test_under_a_policy_words_in_a_list_may_contain_what_a_command_line_may_not(tmp_path: Path) -> None:
    async with opened(tmp_path, rules=CommandRules(policy=CommandPolicy.of(["echo"]))) as context:
        with pytest.raises(CommandDenied, match="pass its arguments as a list"):
            await call(context, "echo 'a; b'")
        assert (await call(context, ["echo", "a; b | $HOME"]))["stdout"] == "a; b | $HOME\n"
        with pytest.raises(CommandDenied, match="allowed: echo"):
            await call(context, ["cat", "SKILL.md"])


async def test_a_skill_that_is_not_loaded_does_not_run(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        with pytest.raises(NotLoaded, match=r'call skill_load with \{"skill": "other"\} first'):
            await call(context, "true", skill="other")


async def test_a_loaded_skill_runs_as_it_was_and_loaded_again_as_it_is(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        await call(context, "true")
        script = tmp_path / "skills" / "demo" / "scripts" / "hello.sh"
        script.write_text("#!/bin/sh\necho changed\n")
        assert (await call(context, "scripts/hello.sh"))["stdout"] == "hello from demo\n"
        again = replace(context, view=lambda: loaded_view("other", "demo"))
        assert (await call(again, "scripts/hello.sh"))["stdout"] == "changed\n"
        (tmp_path / "skills" / "demo").rename(tmp_path / "gone")
        once_more = replace(context, view=lambda: loaded_view("other", "another", "demo"))
        with pytest.raises(SkillError):
            await call(once_more, "scripts/hello.sh")


async def test_calls_at_the_same_time_run_at_the_same_time(tmp_path: Path) -> None:
    async with opened(tmp_path, uploads=(upload_from_bytes("u", b"up"),)) as context:
        # Each waits for the other, so one after the other neither would end.
        meet = "touch work/{0}; until [ -e work/{1} ]; do sleep 0.01; done; echo {0} > out/{0}; cat inputs/u"
        one, two = await asyncio.gather(
            call(context, meet.format("a", "b"), output_files="out/a", timeout=30),
            call(context, meet.format("b", "a"), output_files="out/b", timeout=30),
        )
        assert (one["stdout"], two["stdout"]) == ("up", "up")
        assert (names(one), names(two)) == (["out/a"], ["out/b"])


async def test_a_cancelled_call_ends_its_command(tmp_path: Path) -> None:
    async with opened(tmp_path) as context:
        bench = await context.open_runner()
        task = asyncio.ensure_future(call(context, "echo $$ > work/pid; exec sleep 60"))
        async with asyncio.timeout(20):
            while not any(file.size for file in (await bench.workspace.list(["work/pid"])).files):
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        pid = int((await call(context, "cat work/pid"))["stdout"])
        assert await eventually(lambda: not alive(pid))


async def test_in_a_sandbox_a_command_may_change_the_users_file_and_its_copy_of_the_skill(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    for program in ("bwrap", "setpriv"):
        require_program(program)

    async with opened(tmp_path, executor="sandbox", uploads=(upload_from_bytes("u", b"up\n"),)) as context:
        data = await call(context, "echo mine >> inputs/u && cat inputs/u; echo x > SKILL.md; touch ../new")
        assert (data["stdout"], data["exit_code"]) == ("up\nmine\n", 1)
        assert "Read-only file system" in data["stderr"]
        assert (await call(context, "sleep 60", timeout=0.3))["timed_out"]


def view_after(*changes: Change) -> AgentView:
    """What the agent sees after these, one after the other."""
    return apply_changes(
        SkillState(), [RecordedChange(at, AGENT, change) for at, change in enumerate(changes, 1)]
    ).view_for(AGENT)


async def asked_for(directory: Path, name: str, changes: Sequence[Change] = (), *, required: bool = True) -> str:
    """The name of the skill that is let through."""
    write_skill(directory)

    options = ToolOptions(require_loaded=required)
    async with tool_context(directory, options=options, view=lambda: view_after(*changes)) as context:
        return require_loaded(context, name).name


async def test_a_loaded_skill_passes_whatever_blanks_are_around_its_name(tmp_path: Path) -> None:
    assert await asked_for(tmp_path, " demo ", [Loaded("demo")]) == "demo"


async def test_a_skill_that_was_shown_once_may_still_be_run(tmp_path: Path) -> None:
    assert await asked_for(tmp_path, "demo", [Loaded("demo"), Consumed("demo")]) == "demo"


async def test_a_skill_that_was_never_loaded_is_refused_with_the_call_to_make(tmp_path: Path) -> None:
    with pytest.raises(NotLoaded, match=r'^\'demo\' is not loaded; call skill_load with \{"skill": "demo"\} first$'):
        await asked_for(tmp_path, "demo")


async def test_a_skill_of_an_earlier_turn_is_refused_with_that_reason(tmp_path: Path) -> None:
    with pytest.raises(NotLoaded, match=r"before the user's last message .* call skill_load .* again first"):
        await asked_for(tmp_path, "demo", [Loaded("demo"), TurnBegan()])


@pytest.mark.parametrize("evicted", [True, False])
async def test_a_skill_that_was_unloaded_or_evicted_is_refused_with_that_reason(tmp_path: Path, evicted: bool) -> None:
    with pytest.raises(NotLoaded, match="was unloaded, or evicted") as refusal:
        await asked_for(tmp_path, "demo", [TurnBegan(), Loaded("demo"), Unloaded("demo", evicted)])
    assert refusal.value.details == {"skill": "demo"}


async def test_a_name_that_is_wrong_is_that_and_not_a_skill_to_load(tmp_path: Path) -> None:
    with pytest.raises(UnknownSkill, match="did you mean 'demo'"):
        await asked_for(tmp_path, "demmo")


async def test_the_gate_can_be_switched_off_but_finds_no_skill_that_is_not_there(tmp_path: Path) -> None:
    assert await asked_for(tmp_path, "demo", required=False) == "demo"
    with pytest.raises(UnknownSkill):
        await asked_for(tmp_path, "other", required=False)


SAY = "import tiny; print(tiny.VERSION)"
RUN = {"skill": "tiny-user", "command": "python3 scripts/say.py"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A skill that needs a package, with the wheel of it; and one that needs nothing."""
    name, data = wheel("tiny", "1.0", "VERSION = '1.0'\n")
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / name).write_bytes(data)
    write_skill(tmp_path, "tiny-user", {"requirements.txt": "tiny\n", "scripts/say.py": SAY})
    write_skill(tmp_path, "plain", {"scripts/say.py": "print('plain')"})
    return tmp_path


async def called(place: Path, *calls: dict[str, Any], **options: Any) -> list[str]:
    """What comes of commands in one session."""

    index = PackageIndex(no_index=True, find_links=(str(place / "wheels"),))
    made = runtime_in(place, executor="local", options=SessionOptions(index=index, **options))
    async with made as runtime, runtime.session("s") as session:
        for name in ("tiny-user", "plain"):
            await session.call("skill_load", {"skill": name})
        return [(await session.call("skill_run", arguments)).text for arguments in calls]


def answering(answer: ApprovalDecision, asked: list[bool]) -> Callable[[ApprovalQuestion], Any]:
    async def ask(question: ApprovalQuestion) -> ApprovalDecision:
        asked.append(question.installs)
        return answer

    return ask


async def test_nothing_is_installed_unless_the_application_says_so(place: Path) -> None:
    (found,) = await called(place, RUN)
    assert "No module named 'tiny'" in json.loads(found)["stderr"]


async def test_what_a_skill_declares_is_installed_after_the_user_was_asked_once(place: Path) -> None:
    asked: list[bool] = []
    ask = answering(ApprovalDecision.ALLOW_ONCE, asked)
    options: dict[str, Any] = {"install": "ask", "ask": ask}
    first, again, other = await called(
        place, RUN, RUN, {"skill": "plain", "command": "python3 scripts/say.py"}, **options
    )
    assert [json.loads(found)["stdout"] for found in (first, again, other)] == ["1.0\n", "1.0\n", "plain\n"]
    assert asked == [True, False, False, False]


async def test_a_script_with_a_block_of_its_own_gets_what_that_names(place: Path) -> None:
    folder = place / "skills" / "tiny-user"
    (folder / "requirements.txt").unlink()
    block = '# /// script\n# dependencies = ["tiny"]\n# ///\n'
    (folder / "scripts" / "say.py").write_text(block + SAY)
    (found,) = await called(place, RUN, install="always")
    assert json.loads(found)["stdout"] == "1.0\n"


async def test_packages_of_the_application_and_of_a_grant_are_installed_without_asking(place: Path) -> None:
    (place / "skills" / "tiny-user" / "requirements.txt").unlink()
    (found,) = await called(place, RUN, with_packages=("tiny",))
    assert json.loads(found)["stdout"] == "1.0\n"
    plain = {"skill": "plain", "command": f"python3 -c '{SAY}'"}
    found, other = await called(place, RUN, plain, grants={"tiny-user": SkillGrants(packages=("tiny==1.0",))})
    assert json.loads(found)["stdout"] == "1.0\n"
    assert json.loads(other)["exit_code"] == 1


async def test_after_a_no_the_command_runs_without_the_packages_and_the_model_hears_why(place: Path) -> None:
    asked: list[bool] = []
    (found,) = await called(place, RUN, install="ask", ask_install=answering(ApprovalDecision.DENY, asked))
    told = json.loads(found)
    assert (told["exit_code"], asked) == (1, [True])
    assert told["warnings"][0] == "requirements.txt declares tiny; not installed: the user declined"
    assert "the Python module 'tiny' is missing: run again with --with tiny" in told["warnings"][1]


async def test_restricted_commands_do_not_install_packages_that_nobody_approved(place: Path) -> None:
    (found,) = await called(place, RUN, install="ask", restrict=True)
    assert found.startswith("error: ")
    assert not (place / "state" / "environments").exists()


async def test_an_installation_that_fails_is_reported_with_the_reason(place: Path) -> None:
    (place / "skills" / "tiny-user" / "requirements.txt").write_text("no-such-package-at-all\n")
    (found,) = await called(place, RUN, install="always")
    assert found.startswith("error: cannot install no-such-package-at-all: the index has no package")


async def test_a_command_that_is_not_a_shell_text_is_for_the_shell_to_judge(place: Path) -> None:
    (found,) = await called(place, {"skill": "plain", "command": "echo 'x"}, install="always")
    assert "exit_code" in found or found.startswith("error: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"install": "sometimes"}, r"install: unknown value 'sometimes'; use one of ask, never, always"),
        ({"with_packages": ("-e .",)}, r"packages: '-e \.' is not a requirement"),
        ({"grants": {"*": SkillGrants(npm=("a b",))}}, r"npm: 'a b' is not an npm package"),
    ],
)
def test_invalid_options_for_packages_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        SessionOptions(**options)


def test_a_large_file_leaves_room_for_small_ones_and_for_the_primary_output() -> None:
    files = (
        text("out/a.log", "x" * 5_000),
        text("out/b.log", "y" * 4_000),
        text("out/report.md", "short"),
        text("out/e", ""),
    )
    data = build_result_data(result(*files), RunResultOptions(content_bytes=1_005))
    shown = {one["name"]: one.get("content") for one in data["output_files"]}
    assert {name: content and len(content) for name, content in shown.items()} == {
        "out/a.log": 500,
        "out/b.log": 500,
        "out/report.md": 5,
        "out/e": "",
    }
    assert data["primary_output"]["content"] == "short"
    nothing = build_result_data(result(*files), RunResultOptions(content_bytes=0))
    assert [one["name"] for one in nothing["output_files"] if "content" in one] == ["out/e"]


def test_limits_of_content_are_the_same_in_options_and_schema() -> None:
    schema = RunOutputs.model_json_schema()["properties"]
    assert schema["max_total_bytes"]["default"] == SessionOptions().max_inline_bytes == ToolOptions().max_inline_bytes
    assert ToolOptions().max_inline_bytes == CONTENT_BYTES


REQUIRED = ["stdout", "stderr", "exit_code", "timed_out", "duration_ms", "isolation", "output_files"]


def result(
    *files: OutputFile,
    stdout: bytes | CapturedOutput = b"",
    ending: EndReason = EndReason.EXITED,
    detail: str = "",
    artifacts: tuple[Artifact, ...] = (),
    warnings: tuple[str, ...] = (),
) -> RunResult:
    """How a run went."""
    captured = stdout if isinstance(stdout, CapturedOutput) else CapturedOutput(stdout)
    ended = CommandResult(
        0 if ending is EndReason.EXITED else 143, ending, 12, captured, CapturedOutput(b"e\n"), detail=detail
    )
    return RunResult(ended, Isolation.NONE, "r1", output_files=files, artifact_files=artifacts, warnings=warnings)


def text(path: str, content: str, *, truncated: bool = False) -> OutputFile:
    """A file with text in it."""
    data = content.encode()
    return OutputFile(path, data, len(data) + truncated, "text/plain", truncated=truncated)


def contents(data: dict[str, Any]) -> list[str | None]:
    """What the files have as content."""
    return [file.get("content") for file in data["output_files"]]


def test_a_quiet_run_has_what_every_result_has_and_nothing_else() -> None:
    data = build_result_data(result(stdout=b"hi\n"), RunResultOptions())
    assert list(data) == REQUIRED
    assert (data["stdout"], data["stderr"], data["exit_code"], data["timed_out"]) == ("hi\n", "e\n", 0, False)
    assert (data["duration_ms"], data["isolation"], data["output_files"]) == (12, "none", [])


def test_files_have_their_fields_and_text_its_content() -> None:
    picture = OutputFile("out/p.png", PNG, len(PNG), "image/png")
    data = build_result_data(result(text("out/a.txt", "é\n"), picture), RunResultOptions())
    assert data["output_files"] == [
        {
            "name": "out/a.txt",
            "ref": "workspace://out/a.txt",
            "content": "é\n",
            "mime_type": "text/plain",
            "size_bytes": 3,
            "truncated": False,
        },
        {
            "name": "out/p.png",
            "ref": "workspace://out/p.png",
            "mime_type": "image/png",
            "size_bytes": len(PNG),
            "truncated": False,
        },
    ]
    assert data["primary_output"] == data["output_files"][0]


@pytest.mark.parametrize("data", [b"%PDF-1.4 all letters", b"GIF89a letters", b"a\0b", b"\xff\xfe", b"PK\x03\x04abc"])
def test_what_is_not_text_is_never_inlined_even_when_its_bytes_are_letters(data: bytes) -> None:
    found = build_result_data(result(OutputFile("out/x.txt", data, len(data), "text/plain")), RunResultOptions())
    assert contents(found) == [None]
    assert "primary_output" not in found


def test_without_inline_files_have_no_content_but_the_primary_output_does() -> None:
    long = text("out/long.txt", "x" * 10, truncated=True)
    data = build_result_data(result(text("out/report.md", "# R"), long), RunResultOptions(inline=False))
    assert contents(data) == [None, None]
    assert [file["truncated"] for file in data["output_files"]] == [False, False]
    assert data["primary_output"]["content"] == "# R"


def test_without_any_content_the_rest_stays() -> None:
    data = build_result_data(
        result(text("out/report.md", "# R")), RunResultOptions(inline=False, primary_content=False)
    )
    fields = {"name", "ref", "mime_type", "size_bytes", "truncated"}
    assert set(data["primary_output"]) == set(data["output_files"][0]) == fields


def test_a_primary_output_is_whole_text_that_is_not_too_long() -> None:
    assert (
        build_result_data(result(text("out/report.md", "x" * 11)), RunResultOptions(primary_bytes=10)).get(
            "primary_output"
        )
        is None
    )
    assert (
        build_result_data(result(text("out/report.md", "x", truncated=True)), RunResultOptions()).get("primary_output")
        is None
    )
    assert build_result_data(result(text("out/report.md", " \n")), RunResultOptions()).get("primary_output") is None
    assert build_result_data(result(), RunResultOptions()).get("primary_output") is None


def test_an_empty_file_has_an_empty_content() -> None:
    assert contents(build_result_data(result(text("out/empty", "")), RunResultOptions())) == [""]


def test_content_is_cut_where_there_is_no_more_room_and_the_result_says_so() -> None:
    data = build_result_data(
        result(text("out/a", "aaaa"), text("out/b", "bébb"), text("out/c", "c")), RunResultOptions(content_bytes=6)
    )
    assert contents(data) == ["aa", "bé", "c"]
    assert [file["truncated"] for file in data["output_files"]] == [True, True, False]
    said = "the content of 2 files was cut to 6 bytes in total; read on by ref, with read_file or a command"
    assert data["warnings"] == [said]


def test_of_very_many_files_and_warnings_only_so_many_are_told() -> None:
    files = [text(f"out/{number:05}", "") for number in range(3000)]
    data = build_result_data(result(*files, warnings=tuple(f"w{number}" for number in range(500))), RunResultOptions())
    assert len(data["output_files"]) == 1000
    assert "2,000 more files are not listed here" in data["warnings"][0]
    assert (len(data["warnings"]), data["warnings"][-1]) == (51, "451 more warnings")


def test_a_pattern_that_is_not_text_does_not_make_the_result_one_that_cannot_be_sent() -> None:
    describe_result(build_result_data(result(), RunResultOptions(patterns=("out/\udcff*",)))).encode()


def test_artifacts_and_staged_files_and_warnings_are_told() -> None:
    kept = Artifact("out/a", 3, 1, "text/plain", "0" * 64, datetime.now(UTC))
    staged = WorkspaceUpload("work/inputs/a b.csv", "a b.csv", "text/csv", 4)
    data = build_result_data(result(artifacts=(kept,), warnings=("later",)), RunResultOptions(), [staged], ["earlier"])
    assert data["artifact_files"] == [{"name": "out/a", "version": 3, "ref": "artifact://out/a@3"}]
    assert data["staged_inputs"] == [
        {"name": "work/inputs/a b.csv", "original_name": "a b.csv", "mime_type": "text/csv", "size_bytes": 4}
    ]
    assert data["warnings"] == ["earlier", "later"]


def test_what_a_warm_start_would_have_saved_is_not_for_models() -> None:
    assert "warnings" not in build_result_data(result(warnings=("started cold: it has threads",)), RunResultOptions())


def test_a_long_stream_keeps_its_beginning_and_its_end() -> None:
    data = build_result_data(result(stdout=b"begin" + b"x" * 1000 + b"end!!"), RunResultOptions(stream_bytes=10))
    assert data["stdout"] == "begin\n[... 1,000 bytes not kept ...]\nend!!"
    (warning,) = data["warnings"]
    assert warning.startswith("stdout has 1,010 bytes; head and tail, 10 bytes, are shown; write")


def test_a_stream_that_was_cut_before_is_cut_further_and_the_count_is_of_all() -> None:
    data = build_result_data(
        result(stdout=CapturedOutput(b"a" * 50, b"z" * 50, 900)), RunResultOptions(stream_bytes=10)
    )
    assert data["stdout"] == "aaaaa\n[... 990 bytes not kept ...]\nzzzzz"
    assert "stdout has 1,000 bytes; head and tail, 10 bytes, are shown" in data["warnings"][0]


def test_of_an_odd_number_of_bytes_the_beginning_gets_one_more() -> None:
    assert build_result_data(result(stdout=b"abcdefgh"), RunResultOptions(stream_bytes=5))["stdout"].startswith(
        "abc\n[... 3 bytes"
    )


def test_a_stream_with_little_at_one_end_shows_what_there_is() -> None:
    data = build_result_data(result(stdout=CapturedOutput(b"a", b"z" * 50, 900)), RunResultOptions(stream_bytes=10))
    assert data["stdout"] == "a\n[... 941 bytes not kept ...]\nzzzzzzzzz"
    data = build_result_data(result(stdout=CapturedOutput(b"a" * 50, b"z", 900)), RunResultOptions(stream_bytes=10))
    assert data["stdout"] == "aaaaa\n[... 945 bytes not kept ...]\nz"


def test_a_stream_that_fits_is_as_it_was() -> None:
    data = build_result_data(result(stdout=CapturedOutput(b"a" * 5, b"z" * 5, 90)), RunResultOptions(stream_bytes=10))
    assert data["stdout"] == "aaaaa\n[... 90 bytes not kept ...]\nzzzzz"


@given(st.text(st.sampled_from("aé漢😀"), max_size=40), st.integers(0, 60), st.integers(0, 160))
def test_no_character_is_cut_in_two_and_every_byte_is_accounted_for(content: str, limit: int, split: int) -> None:
    data = content.encode()
    captured = CapturedOutput(data[:split], data[split:])
    shown = build_result_data(result(stdout=captured), RunResultOptions(stream_bytes=limit))["stdout"]
    if len(data) <= limit:
        assert shown == content
    else:
        head, _, rest = shown.partition("\n[... ")
        count, _, tail = rest.partition(" bytes not kept ...]\n")
        assert content.startswith(head)
        assert content.endswith(tail)
        assert len(head.encode()) + len(tail.encode()) == len(data) - int(count) <= limit


@pytest.mark.parametrize(
    ("ending", "detail", "words"),
    [
        (EndReason.TIMED_OUT, "it did not end within 5 seconds", "stopped: it did not end within 5 seconds; do less"),
        (
            EndReason.LIMIT,
            "it had 300 processes; 128 is the most",
            "stopped: it had 300 processes; .* make it use less",
        ),
        (EndReason.KILLED, "", "the command was killed$"),
        (EndReason.KILLED, "nobody asked for it", "killed: nobody asked for it"),
        (EndReason.INTERRUPTED, "the host ended", "unknown: the host ended; check its files"),
        (EndReason.EXITED, "some of its processes could not be ended", "could not be ended"),
    ],
)
def test_who_ended_a_command_is_said_first(ending: EndReason, detail: str, words: str) -> None:
    ended = result(ending=ending, detail=detail, warnings=("another",))
    data = build_result_data(ended, RunResultOptions(advice="do less"))
    assert re.search(words, data["warnings"][0])
    assert data["timed_out"] is (ending is EndReason.TIMED_OUT)


def test_patterns_that_match_nothing_are_named() -> None:
    data = build_result_data(result(), RunResultOptions(patterns=("out/*.pdf", "out/b")))
    assert data["warnings"] == ["no new or changed file matches out/*.pdf", "no new or changed file matches out/b"]
    data = build_result_data(result(text("out/b", "x")), RunResultOptions(patterns=("out/*.pdf", "out/b")))
    assert data["warnings"] == ["no new or changed file matches out/*.pdf"]


def test_a_model_reads_the_same_as_compact_json_with_no_content_twice() -> None:
    data = build_result_data(result(text("out/report.md", "é")), RunResultOptions())
    read = json.loads(describe_result(data))
    assert "é" in describe_result(data)
    assert ", " not in describe_result(data)
    assert "content" not in read["primary_output"]
    assert read["output_files"] == data["output_files"]
    assert data["primary_output"]["content"] == "é"


def test_a_model_reads_the_content_of_a_primary_output_that_stands_nowhere_else() -> None:
    data = build_result_data(result(text("out/report.md", "é")), RunResultOptions(inline=False))
    assert json.loads(describe_result(data)) == data


KIB32 = 32 * 1024


async def ready(directory: Path, options: ToolOptions | None = None, **arguments: object) -> RunPlan:
    """What is made of a call, on an executor that runs nothing."""

    async with demo_context(directory, options) as opened:
        return await prepare_run(opened, written(**arguments))


def demo_context(directory: Path, options: ToolOptions | None = None) -> AbstractAsyncContextManager[ToolContext]:
    write_skill(directory, "demo", {"scripts/a.py": "print(1)"})
    write_skill(directory, "other", {"data/x.txt": "x"})
    return tool_context(
        directory,
        executor=FakeExecutor(),
        options=options,
        loaded=["demo"],
        tools=["skill_run", "skill_exec"],
        rules=CommandRules(network=["example.org"]),
        uploads=[upload_from_bytes("a.csv", b"1")],
    )


async def test_a_call_becomes_a_request_with_the_limits_of_the_session(tmp_path: Path) -> None:
    limits = Limits(timeout=120, processes=7)
    made = await ready(
        tmp_path, ToolOptions(limits=limits), command="ls", env={"A": 1}, stdin="é", editor_text="t", cwd="work"
    )
    request = made.request
    assert (request.command, request.skill, request.cwd, request.env) == ("ls", "demo", "work", {"A": "1"})
    assert (request.stdin, request.editor_text, request.limits) == ("é".encode(), "t", limits)


async def test_a_call_may_ask_for_another_timeout_up_to_the_most(tmp_path: Path) -> None:
    options = ToolOptions(limits=Limits(timeout=10, processes=7), max_timeout=100)
    assert (await ready(tmp_path, options, timeout=5)).request.limits == Limits(timeout=5, processes=7)
    assert (await ready(tmp_path, options, timeout="100")).request.limits.timeout == 100
    assert (await ready(tmp_path, options, timeout=-1)).request.limits.timeout == 10
    with pytest.raises(InvalidArgument, match="timeout: 60000 s is too long, at most 100 s; use skill_exec for"):
        await ready(tmp_path, options, timeout=60_000)
    with pytest.raises(InvalidArgument, match="timeout: inf s is too long"):
        await ready(tmp_path, options, timeout=float("inf"))


async def test_a_skill_gets_its_own_grants_and_those_of_all_skills(tmp_path: Path) -> None:
    grants = {
        "*": SkillGrants(
            secrets=("ALL", "BOTH"), network=("example.org",), environment={"A": "1", "B": "1"}, timeout=9
        ),
        "demo": SkillGrants(secrets=("BOTH", "OWN"), environment={"B": "2", "C": "2"}, timeout=5),
        "other": SkillGrants(secrets=("FOREIGN",), network=("other.example",), timeout=1),
    }
    request = (await ready(tmp_path, ToolOptions(grants=grants), env={"C": "3"})).request
    assert (request.secrets, request.network) == (("ALL", "BOTH", "OWN"), ("example.org",))
    assert (request.env, request.limits.timeout) == ({"A": "1", "B": "2", "C": "3"}, 5)


async def test_a_granted_timeout_is_the_longest_that_a_model_may_ask_for(tmp_path: Path) -> None:
    options = ToolOptions(grants={"demo": SkillGrants(timeout=5)})
    assert (await ready(tmp_path, options, timeout=4)).request.limits.timeout == 4
    with pytest.raises(InvalidArgument, match="6 s is too long, at most 5 s, which is what the user granted"):
        await ready(tmp_path, options, timeout=6)
    assert (await ready(tmp_path, options)).result_options.advice == "do less per call; the user granted at most 5 s"


async def test_the_skill_and_those_that_inputs_come_from_are_staged_and_the_users_files_too(tmp_path: Path) -> None:
    inputs = ["skill://other/data/x.txt", "workspace://out/a", "Skill://demo/scripts/a.py"]
    async with demo_context(tmp_path) as opened:
        made = await prepare_run(opened, written(inputs=inputs))
        staged = (await made.runner.workspace.list(["skills/*/*/*", "work/**"])).files
    assert [one.path for one in staged] == ["skills/demo/scripts/a.py", "skills/other/data/x.txt", "work/inputs/a.csv"]
    assert [file.path for file in made.uploads.files.values()] == ["work/inputs/a.csv"]


async def test_the_modules_that_an_author_wants_loaded_ahead_are_those_of_the_command(tmp_path: Path) -> None:
    executor = FakeExecutor({"true": FakeRun()})
    folder = write_skill(tmp_path)
    (folder / "SKILL.md").write_text("---\nname: demo\ndescription: d\nmetadata:\n  openskills-warm: csv, json\n---\n")

    async with tool_context(tmp_path, executor=executor, loaded=["demo"]) as context:
        made = await prepare_run(context, written())
        await made.runner.run(made.request)

    assert [command.warm for command in executor.commands] == [("csv", "json")]


async def test_the_first_things_to_be_refused_are_the_skills(tmp_path: Path) -> None:
    with pytest.raises(UnknownSkill, match="did you mean 'other'"):
        await ready(tmp_path, skill="othr", timeout=10**9)
    with pytest.raises(NotLoaded):
        await ready(tmp_path, skill="other", timeout=10**9)
    with pytest.raises(UnknownSkill, match="did you mean 'other'"):
        await ready(tmp_path, inputs=["skill://othr/x"])


async def test_without_an_executor_the_call_says_so(tmp_path: Path) -> None:
    write_skill(tmp_path)

    async with tool_context(tmp_path, executor=None, loaded=["demo"]) as context:
        with pytest.raises(ExecutorUnavailable):
            await prepare_run(context, written())


async def test_a_lone_surrogate_on_stdin_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="stdin: contains a lone surrogate"):
        await ready(tmp_path, stdin="\ud800")


@pytest.mark.parametrize(
    ("cwd", "meant"),
    [
        ("/workspace/out", "/out"),
        ("/workspace", "/"),
        ("/workspaces", "/workspaces"),
        ("", ""),
        ("$RUN_DIR", "$RUN_DIR"),
    ],
)
async def test_a_directory_that_a_command_has_printed_is_below_the_workspace(
    tmp_path: Path, cwd: str, meant: str
) -> None:
    assert (await ready(tmp_path, cwd=cwd)).request.cwd == meant


async def test_without_patterns_what_is_new_in_out_is_listed_and_only_the_primary_output_shown(tmp_path: Path) -> None:
    made = await ready(tmp_path)
    assert made.request.outputs == OutputSpec(("out/**",), max_files=20, max_file_bytes=KIB32)
    assert (made.result_options.inline, made.result_options.primary_content, made.result_options.patterns) == (
        False,
        True,
        (),
    )
    no_primary = build_output_spec(written(), ToolOptions(primary_bytes=0))
    assert not no_primary.inline


async def test_patterns_bring_content_and_are_named_when_nothing_matches(tmp_path: Path) -> None:
    made = await ready(tmp_path, output_files=["out/*.txt"])
    assert made.request.outputs == OutputSpec(("out/*.txt",), max_file_bytes=CONTENT_BYTES + 1)
    assert (made.result_options.inline, made.result_options.patterns, made.result_options.content_bytes) == (
        True,
        ("out/*.txt",),
        CONTENT_BYTES,
    )


async def test_outputs_decide_about_content_and_its_limits(tmp_path: Path) -> None:
    shape = (await ready(tmp_path, outputs={"globs": ["out/*"], "inline": False})).result_options
    assert (shape.inline, shape.content_bytes) == (False, CONTENT_BYTES)
    shape = (await ready(tmp_path, outputs={"globs": ["out/*"], "max_total_bytes": 10**5})).result_options
    assert (shape.inline, shape.content_bytes) == (True, 10**5)


async def test_no_model_gets_more_content_than_the_operator_allows_and_no_more_is_read(tmp_path: Path) -> None:
    endless = {"globs": ["out/*"], "max_files": 10**9, "max_file_bytes": 10**9, "max_total_bytes": 10**9}
    assert (await ready(tmp_path, outputs=endless)).result_options.content_bytes == CONTENT_BYTES
    spec = build_output_spec(written(outputs=endless), ToolOptions(max_inline_bytes=10**5))
    assert (spec.max_file_bytes, spec.max_total_bytes) == (10**5 + 1, 64 * 1024 * 1024)
    little = build_output_spec(written(outputs={**endless, "max_file_bytes": 5, "max_total_bytes": 7}), ToolOptions())
    assert (little.max_file_bytes, little.max_total_bytes) == (5, 7)
    assert build_output_spec(written(output_files="out/*"), ToolOptions(max_inline_bytes=0)).max_file_bytes == KIB32


async def test_omitted_content_is_not_even_read_beyond_what_a_primary_output_may_have(tmp_path: Path) -> None:
    made = await ready(tmp_path, output_files=["out/*"], omit_inline_content=True)
    assert made.request.outputs == OutputSpec(("out/*",), max_file_bytes=KIB32)
    assert (made.result_options.inline, made.result_options.primary_content) == (False, False)


@pytest.mark.parametrize(
    ("arguments", "force", "save"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"save_as_artifacts": True}, False, True),
        ({"output_files": "out/*"}, False, False),
        ({"output_files": "out/*"}, True, True),
        ({"output_files": "out/*", "save_as_artifacts": True}, False, True),
        ({"outputs": {"globs": "out/*"}}, True, True),
        ({"outputs": {"globs": "out/*"}, "save_as_artifacts": True}, False, True),
        ({"outputs": {"globs": "out/*", "save": True}}, False, True),
    ],
)
def test_files_are_kept_when_somebody_wants_it(arguments: dict[str, object], force: bool, save: bool) -> None:
    assert build_output_spec(written(**arguments), ToolOptions(force_save=force)).save is save


def test_a_prefix_counts_for_either_way_to_collect() -> None:
    assert build_output_spec(written(artifact_prefix="p/"), ToolOptions()).name_template == "p/"
    both = written(outputs={"globs": "out/*", "name_template": "own/"}, artifact_prefix="p/")
    assert build_output_spec(both, ToolOptions()).name_template == "own/"
    assert build_output_spec(both, ToolOptions()) == replace(
        OutputSpec(("out/*",)), name_template="own/", max_file_bytes=CONTENT_BYTES + 1
    )
