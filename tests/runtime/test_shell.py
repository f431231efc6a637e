"""Shell and editor calls of other vendors, in a real sandbox."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import ToolUseBlock
from openai.types.responses import ResponseFunctionShellToolCall

from openskills import Catalog, InvalidArgument, SessionOptions, SkillRuntime, SkillSession
from openskills.executors import Limits
from openskills.executors.open import open_executor
from openskills.executors.protocol import Executor
from openskills.project import SkillGrants
from openskills.tools.approvals import ApprovalQuestion
from tests.tools.contexts import settings_in, write_skill


@pytest.fixture(scope="module")
async def executor(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Executor]:
    found = open_executor("sandbox", settings_in(tmp_path_factory.mktemp("state")))
    yield found
    await found.close()


def runtime_with(executor: Executor, tmp_path: Path, **options: Any) -> SkillRuntime:
    """A runtime with one skill."""
    write_skill(tmp_path, "greeter", {"scripts/greet.py": "print('hello from the skill')\n"})
    tmp_path.chmod(0o755)
    catalog = Catalog.from_paths(tmp_path / "skills", settings=settings_in(tmp_path))
    return SkillRuntime(catalog, executor, settings=settings_in(tmp_path), options=SessionOptions(**options))


@pytest.fixture
async def session(executor: Executor, tmp_path: Path) -> AsyncIterator[SkillSession]:
    async with runtime_with(executor, tmp_path) as runtime, runtime.session(tmp_path.name) as opened:
        yield opened


def shell_call(*commands: str, **action: Any) -> dict[str, Any]:
    return {"type": "shell_call", "call_id": "call_1", "action": {"commands": list(commands), **action}}


def bash(command: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": command, **more}}


def edit(command: str, path: str, tool: str = "str_replace_based_edit_tool", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {"command": command, "path": path, **more}}


async def text_of(session: SkillSession, call: dict[str, Any]) -> str:
    """The content of a call that succeeds."""
    answer = await session.shell(call)
    assert not answer.get("is_error"), answer
    return answer["content"]


async def failure_of(session: SkillSession, call: dict[str, Any]) -> str:
    answer = await session.shell(call)
    assert answer["is_error"], answer
    return answer["content"]


async def test_each_command_of_a_shell_call_has_its_streams_and_its_exit_code(session: SkillSession) -> None:
    answer = await session.shell(shell_call("echo out; echo err >&2; exit 3", "pwd"))
    assert answer == {
        "type": "shell_call_output",
        "call_id": "call_1",
        "status": "completed",
        "output": [
            {"stdout": "out\n", "stderr": "err\n", "outcome": {"type": "exit", "exit_code": 3}},
            {"stdout": "/workspace/work\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
        ],
    }


async def test_the_objects_of_both_sdks_are_accepted(session: SkillSession) -> None:
    call = ResponseFunctionShellToolCall.model_validate(
        {"id": "sh_1", "status": "completed", "environment": {"type": "local"}, **shell_call("echo one")}
    )
    assert (await session.shell(call))["output"][0]["stdout"] == "one\n"
    block = ToolUseBlock.model_validate({**bash("echo two"), "caller": {"type": "direct"}})
    assert (await session.shell(block))["content"] == "two"


async def test_a_command_that_ignores_sigterm_ends_at_the_timeout_of_its_call(session: SkillSession) -> None:
    answer = await session.shell(shell_call("trap '' TERM; echo begun; sleep 600", "echo never", timeout_ms=1500))
    assert [one["outcome"] for one in answer["output"]] == [{"type": "timeout"}]
    assert answer["output"][0]["stdout"] == "begun\n"


async def test_output_is_cut_to_the_length_that_the_call_asks_for(session: SkillSession) -> None:
    answer = await session.shell(shell_call("seq 100000; echo last", max_output_length=200))
    text = answer["output"][0]["stdout"]
    assert len(text) <= 200
    assert text.startswith("1\n2\n")
    assert text.endswith("last\n")
    assert answer["max_output_length"] == 200


@pytest.mark.parametrize(("call", "size"), [(shell_call, 20_000_000), (bash, 100_000_000)])
async def test_100_megabytes_of_output_are_counted_and_not_kept(session: SkillSession, call: Any, size: int) -> None:
    answer = await session.shell(call(f"head -c {size} /dev/zero | tr '\\0' x; echo; echo last"))
    text = answer["content"] if "content" in answer else answer["output"][0]["stdout"]
    assert len(text) < 20_000
    assert "bytes not kept" in text
    assert text.rstrip().endswith("last")


@pytest.mark.parametrize("call", [shell_call, bash])
async def test_binary_output_becomes_text(session: SkillSession, call: Any) -> None:
    answer = await session.shell(call("printf 'a\\377\\0b'"))
    text = answer["content"] if "content" in answer else answer["output"][0]["stdout"]
    assert text == "a\ufffd\0b"


async def test_the_shell_keeps_its_directory_variables_functions_and_jobs(session: SkillSession) -> None:
    await text_of(session, bash("mkdir -p deep && cd deep; name=value; greet() { echo hi $1; }; sleep 300 &"))
    assert await text_of(session, bash("pwd; echo $name; greet you; jobs -r | wc -l")) == (
        "/workspace/work/deep\nvalue\nhi you\n1"
    )


async def test_a_restart_forgets_everything(session: SkillSession) -> None:
    await text_of(session, bash("name=value; sleep 300 &"))
    assert await text_of(session, bash(restart=True)) == "the shell was restarted"
    assert await text_of(session, bash("echo [$name]; jobs | wc -l")) == "[]\n0"


async def test_a_restart_ends_a_command_that_is_running(session: SkillSession) -> None:
    running = asyncio.create_task(session.shell(bash("echo begun; sleep 7703")))
    while not find_processes("sleep 7703"):
        await asyncio.sleep(0.02)
    await text_of(session, bash(restart=True))
    text = (await running)["content"]
    # SIGKILL follows SIGTERM, and a busy machine may need it.
    assert text.replace("137", "143") == "begun\n[exit code 143]\n[the shell ended (killed by request)]"
    assert not find_processes("sleep 7703")


@pytest.mark.parametrize(
    "command", ["echo 'never closed", "if true", "}", "))", "echo $((", "cat <<END", "\\", "echo a &&", "for x in"]
)
async def test_a_syntax_error_affects_only_its_own_call(session: SkillSession, command: str) -> None:
    await session.shell(bash(command))
    assert await text_of(session, bash("echo still here")) == "still here"


async def test_a_command_cannot_read_the_commands_that_follow(session: SkillSession) -> None:
    assert await text_of(session, bash("cat; read line; echo [$line]")) == "[]"


async def test_a_shell_that_ends_says_so_and_the_next_command_gets_a_new_one(session: SkillSession) -> None:
    assert await failure_of(session, bash("echo bye; exit 7")) == "bye\n[exit code 7]\n[the shell ended]"
    assert await text_of(session, bash("echo again")) == "again"


async def test_a_command_that_times_out_ends_with_its_shell(executor: Executor, tmp_path: Path) -> None:
    options = {"limits": Limits(timeout=1.0), "max_timeout": 1.0}
    async with runtime_with(executor, tmp_path, **options) as runtime, runtime.session("slow") as session:
        await text_of(session, bash("name=value"))
        text = await failure_of(session, bash("trap '' TERM; echo begun; setsid sleep 7829"))
        assert text.startswith("begun\n[the command timed out after 1 s; the shell was killed")
        assert await text_of(session, bash("echo [$name]")) == "[]"
        assert not find_processes("sleep 7829")


def find_processes(command: str) -> list[int]:
    """The processes of this machine with this command line."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if line.rstrip(b"\0").split(b"\0") == command.encode().split(b" "):
            found.append(int(place.name))
    return found


async def test_a_cancelled_call_ends_its_whole_process_tree(session: SkillSession) -> None:
    for call in (bash("(setsid sleep 7417 &) ; sleep 7417"), shell_call("(setsid sleep 7417 &); sleep 7417")):
        running = asyncio.create_task(session.shell(call))
        while len(find_processes("sleep 7417")) < 2:
            await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        # They are killed; under load the kernel may take a moment to end them.
        while find_processes("sleep 7417"):
            await asyncio.sleep(0.02)
    assert await text_of(session, bash("echo still here")) == "still here"


async def test_background_jobs_end_with_the_session(executor: Executor, tmp_path: Path) -> None:
    async with runtime_with(executor, tmp_path) as runtime:
        async with runtime.session("ends") as session:
            await text_of(session, bash("trap '' TERM; sleep 7523 & echo"))
            while not find_processes("sleep 7523"):
                await asyncio.sleep(0.02)
        assert not find_processes("sleep 7523")


async def test_two_sessions_do_not_see_each_others_files(executor: Executor, tmp_path: Path) -> None:
    async with (
        runtime_with(executor, tmp_path) as runtime,
        runtime.session("first") as first,
        runtime.session("second") as second,
    ):
        await text_of(first, edit("create", "secret.txt", file_text="mine"))
        await text_of(first, bash("cp secret.txt /tmp/ && cp secret.txt ~/"))
        assert await text_of(second, bash("find / -name secret.txt 2>/dev/null | wc -l")) == "0"
        assert "secret.txt" not in await text_of(second, edit("view", "."))


async def test_variables_of_the_host_are_not_in_the_environment(
    session: SkillSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-host-secret")
    for answer in (await session.shell(bash("env")), await session.shell(shell_call("env"))):
        assert "sk-host-secret" not in str(answer)
        assert "HOME=/home/u" in str(answer)


async def test_secrets_that_are_granted_are_there_and_are_masked(executor: Executor, tmp_path: Path) -> None:
    options = {"secrets": {"TOKEN": "t0p-s3cret-value"}, "grants": {"*": SkillGrants(secrets=("TOKEN",))}}
    async with runtime_with(executor, tmp_path, **options) as runtime, runtime.session("granted") as session:
        for call in (bash("echo ${#TOKEN} $TOKEN"), shell_call("echo ${#TOKEN} $TOKEN")):
            text = str(await session.shell(call))
            assert "16 " in text
            assert "t0p-s3cret" not in text


@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "/etc/passwd", "/workspace/../etc/passwd", "/", "$HOME/x", "~/../../etc/passwd", ""]
)
async def test_no_editor_command_leaves_the_workspace(session: SkillSession, path: str) -> None:
    for call in (
        edit("view", path),
        edit("create", path, file_text="x"),
        edit("str_replace", path, old_str="root", new_str="x"),
        edit("insert", path, insert_line=0, insert_text="x"),
        edit("undo_edit", path, "str_replace_editor"),
    ):
        assert "root:" not in await failure_of(session, call)


async def test_links_that_a_command_made_do_not_lead_out(session: SkillSession) -> None:
    await text_of(session, bash("ln -s /etc etc; ln -s /etc/passwd passwd; ln -s ../../../../etc up; ln -s / root"))
    for path in ("etc/passwd", "passwd", "up/passwd", "root/etc/passwd"):
        for call in (
            edit("view", path),
            edit("str_replace", path, old_str="root", new_str="x"),
            edit("insert", path, insert_line=0, insert_text="x"),
        ):
            assert "root:" not in await failure_of(session, call)
    # A link in place of the file itself is replaced, not followed.
    await text_of(session, edit("create", "passwd", file_text="mine"))
    assert await text_of(session, bash("test -L passwd || cat passwd")) == "mine"
    assert Path("/etc/passwd").read_text("utf-8").startswith("root:")
    await failure_of(session, edit("create", "etc/x", file_text="mine"))


async def test_skills_cannot_be_changed(session: SkillSession) -> None:
    await session.call("skill_load", {"skill": "greeter"})
    path = "/workspace/skills/greeter/scripts/greet.py"
    assert "read-only" in await failure_of(session, edit("create", path, file_text="x"))
    assert "Read-only" in await failure_of(session, bash(f"echo x > {path}"))


async def test_a_loaded_skill_can_be_run_and_viewed(session: SkillSession) -> None:
    await session.call("skill_load", {"skill": "greeter"})
    assert await text_of(session, bash("python3 ../skills/greeter/scripts/greet.py")) == "hello from the skill"
    assert "hello from" in await text_of(session, edit("view", "../skills/greeter/scripts/greet.py"))


async def test_local_skills_are_where_openai_is_told(session: SkillSession) -> None:
    [skill] = await session.local_skills()
    assert skill["name"] == "greeter"
    answer = await session.shell(shell_call(f"cat {skill['path']}/SKILL.md; python3 {skill['path']}/scripts/greet.py"))
    assert answer["output"][0]["stdout"].endswith("hello from the skill\n")


async def test_the_files_of_the_user_are_there(session: SkillSession) -> None:
    session.add_file("data.csv", b"a,b\n")
    assert await text_of(session, bash("cat inputs/data.csv")) == "a,b"


async def test_a_file_is_created_viewed_edited_and_restored(session: SkillSession) -> None:
    old = "str_replace_editor"
    await text_of(session, edit("create", "src/a.py", file_text="one\ntwo\nthree\n"))
    assert await text_of(session, edit("view", "src/a.py")) == "     1\tone\n     2\ttwo\n     3\tthree"
    assert await text_of(session, edit("view", "/workspace/work/src/a.py", view_range=[2, -1])) == (
        "     2\ttwo\n     3\tthree"
    )
    await text_of(session, edit("str_replace", "src/a.py", old, old_str="two", new_str="2"))
    await text_of(session, edit("insert", "src/a.py", old, insert_line=1, new_str="between"))
    assert await text_of(session, bash("cat src/a.py")) == "one\nbetween\n2\nthree"
    await text_of(session, edit("undo_edit", "src/a.py", old))
    await text_of(session, edit("undo_edit", "src/a.py", old))
    assert await text_of(session, bash("cat src/a.py")) == "one\ntwo\nthree"
    await text_of(session, edit("undo_edit", "src/a.py", old))
    assert await text_of(session, bash("ls src | wc -l")) == "0"
    assert "no edit" in await failure_of(session, edit("undo_edit", "src/a.py", old))


async def test_a_directory_is_listed_two_levels_deep_without_hidden_files(session: SkillSession) -> None:
    await text_of(session, bash("mkdir -p a/b/c .git; touch a/x a/b/y a/b/c/z .git/config top"))
    assert await text_of(session, edit("view", ".")) == "/workspace/work/\na/\na/b/\na/x\ntop"


async def test_an_edited_script_stays_executable(session: SkillSession) -> None:
    await text_of(session, bash("printf '#!/bin/sh\\necho one\\n' > run.sh; chmod +x run.sh"))
    await text_of(session, edit("str_replace", "run.sh", old_str="one", new_str="two"))
    assert await text_of(session, bash("./run.sh")) == "two"


async def test_a_script_is_executable_after_its_edit_was_undone(session: SkillSession) -> None:
    old = "str_replace_editor"
    await text_of(session, bash("printf '#!/bin/sh\\necho one\\n' > run.sh; chmod +x run.sh"))
    await text_of(session, edit("str_replace", "run.sh", old, old_str="one", new_str="two"))
    await text_of(session, edit("undo_edit", "run.sh", old))
    assert await text_of(session, bash("./run.sh")) == "one"


async def test_a_file_that_is_too_large_to_be_restored_is_not_removed_instead(session: SkillSession) -> None:
    old = "str_replace_editor"
    await text_of(session, bash("head -c 5000000 /dev/zero > big"))
    await text_of(session, edit("create", "big", old, file_text="small"))
    assert "no edit" in await failure_of(session, edit("undo_edit", "big", old))
    assert await text_of(session, bash("cat big")) == "small"


async def test_a_text_is_inserted_after_the_line_that_view_numbers(session: SkillSession) -> None:
    await text_of(session, edit("create", "f", file_text="a\fb\u2028c\nd\n"))
    await text_of(session, edit("insert", "f", insert_line=1, insert_text="x"))
    assert await text_of(session, edit("view", "f", view_range=[2, 3])) == "     2\tx\n     3\td"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (edit("str_replace", "f", old_str="missing"), "old_str: does not occur in f"),
        (edit("str_replace", "f", old_str="a"), "occurs 2 times in f (lines 1, 2)"),
        (edit("str_replace", "f", old_str=""), "old_str: is empty"),
        (edit("str_replace", "f"), "old_str: required"),
        (edit("insert", "f", insert_line=9, insert_text="x"), "insert_line: 9 is not in the file; use 0 to 2"),
        (edit("insert", "f", insert_line=-1, insert_text="x"), "insert_line: expected a number"),
        (edit("insert", "f", insert_text="x"), "insert_line: required"),
        (edit("view", "f", view_range=[5, 9]), "view_range: [5, 9] is not in 1 to 2"),
        (edit("view", "f", view_range=[1]), "view_range: expected"),
        (edit("view", "f", view_range=["1", "2"]), "view_range: expected"),
        (edit("view", "f", view_range=1), "view_range: expected"),
        (edit("view", "gone"), "does not exist"),
        (edit("view", "binary"), "not UTF-8"),
        (edit("create", "f"), "file_text: required"),
        (edit("create", "f/below", file_text="x"), "f/below"),
        (edit("undo_edit", "f"), "unknown command 'undo_edit'; use one of view, create, str_replace, insert"),
        (edit("view", "f\0"), "path"),
        (bash(), "command: required"),
        (bash("echo \0"), "NUL byte"),
        (bash(""), "command"),
        (bash(["ls"]), "command: expected text, got list"),  # type: ignore[arg-type]
    ],
)
async def test_a_mistake_of_the_model_is_a_result_that_says_what_is_wrong(
    session: SkillSession, call: dict[str, Any], said: str
) -> None:
    await text_of(session, bash("printf 'a\\na\\n' > f; printf '\\377' > binary"))
    assert said in await failure_of(session, call)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"type": "computer_call"}, "type 'computer_call' is not a shell call"),
        ({"type": "tool_use", "name": "web_search", "input": {}}, "a tool_use of 'web_search' is not a shell call"),
        ({}, "type None"),
        ("ls", "expected a mapping"),
        (None, "expected a mapping"),
        ({**shell_call("ls"), "environment": {"type": "container_reference"}}, "only 'local' calls"),
        ({"type": "shell_call", "action": {"commands": "ls"}}, "call.action.commands: expected a list"),
        ({"type": "shell_call"}, "expected a mapping"),
        (shell_call("ls", timeout_ms="soon"), "timeout_ms: expected a number"),
    ],
)
async def test_another_call_is_an_error_of_the_program(session: SkillSession, call: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await session.shell(call)
    assert said in caught.value.message


async def test_the_policy_applies_and_then_there_is_no_shell(executor: Executor, tmp_path: Path) -> None:
    options = {"allowed_commands": ["echo", "cat"]}
    async with runtime_with(executor, tmp_path, **options) as runtime, runtime.session("policy") as session:
        answer = await session.shell(shell_call("echo fine", "rm -rf .", "echo a; rm b"))
        assert [one["outcome"].get("exit_code") for one in answer["output"]] == [0, 126, 126]
        assert "not an allowed command; allowed: echo, cat" in answer["output"][1]["stderr"]
        assert await text_of(session, bash("echo fine")) == "fine"
        assert "not an allowed command" in await failure_of(session, bash("rm -rf ."))
        assert "not allowed under a command policy" in await failure_of(session, bash("echo a; rm b"))


async def test_every_command_needs_the_approval_that_skill_run_needs(executor: Executor, tmp_path: Path) -> None:
    asked: list[str] = []

    async def ask(question: ApprovalQuestion) -> bool:
        asked.append(question.command)
        return "rm" not in question.command

    async with runtime_with(executor, tmp_path, ask=ask) as runtime, runtime.session("asks") as session:
        assert await text_of(session, bash("echo one")) == "one"
        assert "not approved" in await failure_of(session, bash("rm x"))
        answer = await session.shell(shell_call("echo two", "rm y"))
    assert [one["outcome"]["exit_code"] for one in answer["output"]] == [0, 126]
    assert asked == ["echo one", "rm x", "echo two", "rm y"]


async def test_every_command_is_in_the_audit_log(executor: Executor, tmp_path: Path) -> None:
    async with runtime_with(executor, tmp_path) as runtime, runtime.session("logged") as session:
        await session.shell(bash("echo in the shell"))
        await session.shell(shell_call("echo alone"))
    log = (settings_in(tmp_path).state_dir / "audit.jsonl").read_text("utf-8")
    assert "echo in the shell" in log
    assert "echo alone" in log


async def test_without_an_executor_the_answer_says_what_to_do(tmp_path: Path) -> None:
    write_skill(tmp_path, "greeter", {})
    async with SkillRuntime(Catalog.from_paths(tmp_path / "skills")) as runtime, runtime.session("s") as session:
        assert "no executor" in await failure_of(session, bash("ls"))
        answer = await session.shell(shell_call("ls"))
        assert "no executor" in answer["output"][0]["stderr"]


async def test_calls_at_the_same_time_run_one_after_the_other_in_the_shell(session: SkillSession) -> None:
    answers = await asyncio.gather(*(session.shell(bash(f"x={n}; sleep 0.05; echo $x")) for n in range(5)))
    assert [answer["content"] for answer in answers] == ["0", "1", "2", "3", "4"]


async def test_a_shell_that_was_killed_from_outside_is_replaced(session: SkillSession) -> None:
    await text_of(session, bash("sleep 7611 & echo"))
    while not (jobs := find_processes("sleep 7611")):
        await asyncio.sleep(0.02)
    [job] = jobs
    parent = int(Path(f"/proc/{job}/stat").read_text("ascii").rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    answer = await session.shell(bash("echo gone?"))
    if answer.get("is_error"):
        assert "the shell ended" in answer["content"]
    assert await text_of(session, bash("echo here")) == "here"
