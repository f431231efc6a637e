"""`skill_run`, from the call of a model to its result."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import CommandDenied, ForbiddenPath, InvalidArgument, NotLoaded, SkillError
from openskills.executors.rules.policy import CommandPolicy
from openskills.executors.workbench import Rules
from openskills.sync import run
from openskills.tools.run import SKILL_RUN
from openskills.tools.tool import ToolContext, ToolOptions
from openskills.tools.uploads import upload_of
from tests.conftest import RequireProgram
from tests.executors.running import alive, eventually
from tests.tools.contexts import loaded_view, tool_context, write_skill
from tests.tools.run_calls import call, in_session, names, said, written


def test_a_script_of_the_skill_runs_and_the_text_is_the_data(tmp_path: Path) -> None:
    async def scenario(context: ToolContext) -> None:
        result = await SKILL_RUN.run(context, written(command="scripts/hello.sh; echo oops >&2; exit 3"))
        assert json.loads(result.text) == result.data
        assert (result.data["stdout"], result.data["stderr"]) == ("hello from demo\n", "oops\n")
        assert (result.data["exit_code"], result.data["isolation"]) == (3, "none")
        assert (result.error, result.changes) == (None, ())

    in_session(tmp_path, scenario)


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
def test_a_command_starts_where_it_is_told_to(tmp_path: Path, cwd: str, ends: str) -> None:
    async def scenario(context: ToolContext) -> None:
        assert (await call(context, "pwd -P", cwd=cwd))["stdout"].strip().endswith(ends)

    in_session(tmp_path, scenario)


def test_the_modules_that_a_skill_wants_loaded_ahead_are_loaded_when_its_script_begins(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, files={"scripts/a.py": "import sys; print('wave' in sys.modules, sys.argv[1:])"})
    (folder / "SKILL.md").write_text("---\nname: demo\ndescription: d\nmetadata:\n  openskills-warm: wave\n---\n")

    async def scenario() -> None:
        async with tool_context(tmp_path, executor="local", loaded=["demo"]) as context:
            for _ in range(2):
                assert (await call(context, "python3 scripts/a.py 'x y'"))["stdout"] == "True ['x y']\n"
            assert (await call(context, "python3 scripts/a.py | cat"))["stdout"] == "False []\n"

    run(scenario())


def test_each_run_may_start_in_a_directory_of_its_own(tmp_path: Path) -> None:
    async def scenario(context: ToolContext) -> None:
        data = await call(
            context, '[ "$PWD" = "$RUN_DIR" ] && echo x > made', cwd="$RUN_DIR", output_files="$RUN_DIR/*"
        )
        assert data["output_files"][0]["content"] == "x\n"
        assert names(data)[0].startswith("runs/run_")

    in_session(tmp_path, scenario)


@pytest.mark.parametrize("cwd", ["..", "../other", "/etc", "$HOME", "$WORK_DIR/../..", "nosuch", "$NOSUCH/x", "a\0b"])
def test_a_directory_that_is_none_is_refused_and_nothing_runs(tmp_path: Path, cwd: str) -> None:
    async def scenario(context: ToolContext) -> None:
        with pytest.raises((ForbiddenPath, InvalidArgument), match="cwd"):
            await call(context, "touch $OUTPUT_DIR/ran", cwd=cwd)
        assert (await call(context, "ls $OUTPUT_DIR"))["stdout"] == ""

    in_session(tmp_path, scenario)


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PATH", "HOME", "BASH_ENV", "OUTPUT_DIR", "not a name", "PYTHONPATH"])
def test_variables_that_change_other_programs_are_refused_with_their_name(tmp_path: Path, name: str) -> None:
    async def scenario(context: ToolContext) -> None:
        with pytest.raises(InvalidArgument, match=f"env: .*{name}"):
            await call(context, "true", env={name: "x"})

    in_session(tmp_path, scenario)


def test_variables_stdin_and_the_text_of_an_editor_arrive(tmp_path: Path) -> None:
    async def scenario(context: ToolContext) -> None:
        command = 'echo $N-$YES; cat; $EDITOR work/message; cat work/message; echo "$SKILL_NAME"'
        data = await call(context, command, env={"N": 5, "YES": True}, stdin="in é\n", editor_text="edited\n")
        assert data["stdout"] == "5-true\nin é\nedited\ndemo\n"

    in_session(tmp_path, scenario)


def test_secrets_reach_only_the_skills_that_they_are_for(tmp_path: Path) -> None:
    options = ToolOptions(secrets={"*": ("ALL",), "demo": ("OWN",), "other": ("FOREIGN",)})

    async def scenario(context: ToolContext) -> None:
        assert (await call(context, "echo $ALL $OWN $FOREIGN"))["stdout"] == "for-all for-demo\n"

    values = {"ALL": "for-all", "OWN": "for-demo", "FOREIGN": "for-other"}
    in_session(tmp_path, scenario, options=options, rules=Rules(values=values))


def test_a_command_whose_time_is_up_says_what_to_do_and_what_it_had_made(tmp_path: Path) -> None:
    async def scenario(context: ToolContext) -> None:
        data = await call(context, "echo begun; echo x > out/a; : > out/empty; exec sleep 60", timeout="2")
        assert (data["timed_out"], data["exit_code"], data["stdout"]) == (True, 143, "begun\n")
        assert names(data) == ["out/a"]
        assert data["warnings"][0].startswith("the command was stopped: it did not end within 2 seconds; give it more")

    in_session(tmp_path, scenario)


def test_long_output_is_cut_in_the_middle(tmp_path: Path) -> None:
    async def scenario(context: ToolContext) -> None:
        data = await call(context, "seq 100000; seq 100000 >&2")
        for name in ("stdout", "stderr"):
            assert data[name].startswith("1\n2\n")
            assert data[name].endswith("99999\n100000\n")
            assert len(data[name]) < 17_000
            assert f"{name} has 588,895 bytes, of which 16,384 are shown" in said(data)

    in_session(tmp_path, scenario)


def test_a_denied_command_is_refused(tmp_path: Path) -> None:
    async def scenario(context: ToolContext) -> None:
        with pytest.raises(CommandDenied, match="allowed: ls"):
            await call(context, "cat SKILL.md")
        assert "SKILL.md" in (await call(context, "ls"))["stdout"]

    in_session(tmp_path, scenario, rules=Rules(policy=CommandPolicy.of(["ls"])))


def test_a_skill_that_is_not_loaded_does_not_run(tmp_path: Path) -> None:
    async def scenario(context: ToolContext) -> None:
        with pytest.raises(NotLoaded, match=r'call skill_load with \{"skill": "other"\} first'):
            await call(context, "true", skill="other")

    in_session(tmp_path, scenario)


def test_a_loaded_skill_runs_as_it_was_and_loaded_again_as_it_is(tmp_path: Path) -> None:
    async def scenario(context: ToolContext) -> None:
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

    in_session(tmp_path, scenario)


def test_calls_at_the_same_time_run_at_the_same_time(tmp_path: Path) -> None:
    async def scenario(context: ToolContext) -> None:
        # Each waits for the other, so one after the other neither would end.
        meet = "touch work/{0}; until [ -e work/{1} ]; do sleep 0.01; done; echo {0} > out/{0}; cat inputs/u"
        one, two = await asyncio.gather(
            call(context, meet.format("a", "b"), output_files="out/a", timeout=30),
            call(context, meet.format("b", "a"), output_files="out/b", timeout=30),
        )
        assert (one["stdout"], two["stdout"]) == ("up", "up")
        assert (names(one), names(two)) == (["out/a"], ["out/b"])

    in_session(tmp_path, scenario, uploads=(upload_of("u", b"up"),))


def test_a_cancelled_call_ends_its_command(tmp_path: Path) -> None:
    async def scenario(context: ToolContext) -> None:
        bench = await context.bench()
        task = asyncio.ensure_future(call(context, "echo $$ > work/pid; exec sleep 60"))
        async with asyncio.timeout(20):
            while not any(file.size for file in (await bench.workspace.list(["work/pid"])).files):
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        pid = int((await call(context, "cat work/pid"))["stdout"])
        assert await eventually(lambda: not alive(pid))

    in_session(tmp_path, scenario)


def test_in_a_sandbox_a_command_may_change_the_users_file_but_not_the_skill(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    for program in ("bwrap", "setpriv"):
        require_program(program)

    async def scenario(context: ToolContext) -> None:
        data = await call(context, "echo mine >> inputs/u && cat inputs/u; echo x > SKILL.md")
        assert (data["stdout"], data["exit_code"]) == ("up\nmine\n", 1)
        assert "Read-only file system" in data["stderr"]
        assert (await call(context, "sleep 60", timeout=0.3))["timed_out"]

    in_session(tmp_path, scenario, executor="sandbox", uploads=(upload_of("u", b"up\n"),))
