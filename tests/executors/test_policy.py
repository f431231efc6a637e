"""Lists of commands are applied to the file that would be run, and say what they want.

Which file would be run is asked where it would be run, and nothing that lies there answers.

One command becomes its words as a POSIX shell would read them; what needs a shell is refused.

Programs that run others are known by name.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import CommandDenied, InvalidArgument
from openskills.executors.commands import CommandRunner
from openskills.executors.policy import (
    CommandPolicy,
    PolicyContext,
    ResolvedProgram,
    find_program,
    parse_command_line,
    parse_shebang,
)
from openskills.executors.policy_programs import is_multicall, is_wrapper
from openskills.executors.requests import RunRequest
from openskills.executors.spec import Command
from tests.executors.benches import workbench

ROOT = "/workspace"
SKILL = f"{ROOT}/skills/pdf"
MACHINE = {name: f"/usr/bin/{name}" for name in ("python3", "ls", "rm", "bash", "env", "cat", "timeout")}
FILES = {*MACHINE.values(), f"{SKILL}/scripts/run.sh", f"{SKILL}/.venv/bin/tool", f"{SKILL}/bin/own", f"{ROOT}/work/ls"}


def where(
    brought: Mapping[str, str | ResolvedProgram] | None = None, cwd: str = SKILL, skill: str | None = "pdf"
) -> PolicyContext:
    """A machine with a few programs, and a workspace whose skill brings those of `brought`."""
    names = {**MACHINE, "tool": f"{SKILL}/.venv/bin/tool", "own": f"{SKILL}/bin/own", **(brought or {})}

    def resolve(program: str) -> ResolvedProgram | None:
        path = program if program.startswith("/") else f"{cwd}/{program}"
        if program in names:
            found = names[program]
            return found if isinstance(found, ResolvedProgram) else ResolvedProgram(found)
        return ResolvedProgram(path) if "/" in program and path.replace("/./", "/") in FILES else None

    files = [f"skills/pdf/{name}" for name in ("scripts/run.sh", "scripts/x", "bin/own", "bin/find", "bin/x")]
    return PolicyContext(ROOT, resolve, skill, skill_files=files)


def denied(
    policy: CommandPolicy, command: str | tuple[str, ...], rule: str, surroundings: PolicyContext | None = None
) -> str:
    with pytest.raises(CommandDenied) as raised:
        policy.resolve_argv(command, surroundings or where())
    assert raised.value.details["rule"] == rule
    return str(raised.value)


def test_without_lists_text_goes_to_bash_and_arguments_stay() -> None:
    policy = CommandPolicy()
    assert not policy.has_lists
    assert policy.resolve_argv("ls | wc; A=b", where()) == ("bash", "-c", "ls | wc; A=b")
    assert policy.resolve_argv(["no such", "a\nb"], where()) == ("no such", "a\nb")


NO_COMMANDS = ["", "  ", [], [""], ["ls", "a\0b"], "a\0b", ["ls", "x" * 131072], "x" * 131072, "ls \ud800"]


@pytest.mark.parametrize("command", NO_COMMANDS)
def test_what_can_be_no_command_is_refused_with_and_without_lists(command: str | list[str]) -> None:
    for policy in (CommandPolicy(), CommandPolicy(deny=("rm",))):
        with pytest.raises(InvalidArgument, match="command"):
            policy.resolve_argv(command, where())


def test_an_allowed_name_runs_the_file_of_the_machine() -> None:
    policy = CommandPolicy.of(["python3", "ls"])
    assert policy.resolve_argv("python3 -c 'print(1)' ''", where()) == ("/usr/bin/python3", "-c", "print(1)", "")
    assert policy.resolve_argv(("ls", "a;b|c"), where()) == ("/usr/bin/ls", "a;b|c")


def test_what_is_not_allowed_is_denied_with_what_is() -> None:
    policy = CommandPolicy.of(["python3", "ls"])
    assert denied(policy, "cat x", "allow") == "'cat' is not an allowed command; allowed: python3, ls"
    many = CommandPolicy.of([f"c{number}" for number in range(25)])
    assert denied(many, "cat", "allow").endswith("c18, c19 (+5 more)")
    assert denied(CommandPolicy(allow=()), "ls", "allow").endswith("allowed: nothing")


def test_a_file_that_a_skill_brings_is_not_the_program_of_that_name() -> None:
    policy = CommandPolicy.of(["python3", "ls"])
    brought = where({"python3": f"{SKILL}/.venv/bin/python3"})
    said = denied(policy, "python3 x.py", "allow", brought)
    assert "would run .venv/bin/python3, not the machine's program; allow '.venv/bin/python3' if intended" in said
    for listed in ("./ls", "work/ls", f"{ROOT}/work/ls", "/workspace/work/ls"):
        denied(policy, listed, "allow", where(cwd=ROOT))


def test_the_path_of_a_program_is_not_its_name() -> None:
    policy = CommandPolicy.of(["python3"])
    denied(policy, "/usr/bin/python3", "allow")
    denied(policy, "/usr/bin/../bin/python3", "path")
    assert CommandPolicy.of(["/usr/bin/python3"]).resolve_argv("/usr/bin/python3 -V", where()) == (
        "/usr/bin/python3",
        "-V",
    )
    assert CommandPolicy.of(["/usr/bin/python3"]).resolve_argv("python3", where()) == ("/usr/bin/python3",)


def test_an_entry_with_a_slash_is_that_file_of_the_skill_however_it_is_called() -> None:
    policy = CommandPolicy.of(["./scripts/run.sh", " .venv/bin/tool ", "bin//own"])
    assert policy.allow == ("scripts/run.sh", ".venv/bin/tool", "bin/own")
    for command in ("scripts/run.sh x", "./scripts/run.sh x", f"{SKILL}/scripts/run.sh x"):
        assert policy.resolve_argv(command, where()) == (f"{SKILL}/scripts/run.sh", "x")
    assert policy.resolve_argv("tool", where()) == (f"{SKILL}/.venv/bin/tool",)
    assert policy.resolve_argv("own", where()) == (f"{SKILL}/bin/own",)
    denied(policy, "scripts/run.sh", "allow", where(cwd=f"{ROOT}/work"))


def test_without_a_skill_paths_are_below_the_workspace() -> None:
    surroundings = where(cwd=ROOT, skill=None)
    assert CommandPolicy.of(["work/ls"]).resolve_argv("work/ls", surroundings) == (f"{ROOT}/work/ls",)


def test_deny_wins_over_allow_wherever_the_file_lies_and_however_it_is_written() -> None:
    policy = CommandPolicy.of(["ls", "rm", "work/ls", "scripts/run.sh"], ["LS", "scripts/run.sh"])
    for command in ("ls", "/usr/bin/ls", f"{ROOT}/work/ls", "./scripts/run.sh"):
        assert "is a denied command" in denied(policy, command, "deny")
    assert policy.resolve_argv("rm x", where()) == ("/usr/bin/rm", "x")


def test_a_denied_name_cannot_be_reached_by_another_one() -> None:
    aliased = where({"list": "/usr/bin/ls"})
    denied(CommandPolicy.of(None, ["ls"]), "list", "deny", aliased)


def test_with_only_denials_everything_else_runs_without_a_shell() -> None:
    policy = CommandPolicy.of(None, ["rm"])
    assert policy.resolve_argv("cat a", where()) == ("/usr/bin/cat", "a")
    assert policy.resolve_argv("tool", where()) == (f"{SKILL}/.venv/bin/tool",)
    denied(policy, "cat a; rm b", "shell")
    assert denied(policy, "rm b", "deny") == "'rm' is a denied command"


@pytest.mark.parametrize("command", ["bash -c 'rm x'", "env rm x", "timeout 5 rm x", "/usr/bin/env rm", "BASH"])
def test_programs_that_run_others_must_be_allowed_by_name(command: str) -> None:
    surroundings = where({"BASH": "/usr/bin/bash"})
    for policy in (CommandPolicy.of(None, ["rm"]), CommandPolicy.of(["python3"])):
        assert "runs other commands and must be allowed by name" in denied(policy, command, "wrapper", surroundings)
    assert CommandPolicy.of(["env"]).resolve_argv("env ls", where()) == ("/usr/bin/env", "ls")


def test_a_link_to_a_denied_program_or_a_shell_is_what_it_leads_to() -> None:
    linked = where({"innocent": ResolvedProgram(f"{ROOT}/work/innocent", "/usr/bin/dash")})
    denied(CommandPolicy.of(None, ["rm"]), "innocent", "wrapper", linked)
    denied(CommandPolicy.of(None, ["dash"]), "innocent", "deny", linked)
    denied(CommandPolicy.of(["ls"]), "innocent", "allow", linked)


def test_another_name_for_a_denied_file_is_denied_too() -> None:
    surroundings = where(
        {
            "python3.11": ResolvedProgram("/usr/bin/python3.11", same=("python3",)),
            "/bin/rm": ResolvedProgram("/bin/rm", "/usr/bin/rm"),
        }
    )
    assert CommandPolicy.of(None, ["python3"]).resolve_denied(surroundings) == ("python3",)
    assert CommandPolicy.of(None, ["./x", "a/b"]).resolve_denied(surroundings) == (f"{SKILL}/x", f"{SKILL}/a/b")
    denied(CommandPolicy.of(None, ["python3"]), "python3.11", "deny", surroundings)
    denied(CommandPolicy.of(None, ["rm"]), "/bin/rm", "deny", surroundings)


def test_a_program_that_is_many_is_what_it_is_called_as() -> None:
    box = "/usr/bin/busybox"
    machine = where(
        {name: ResolvedProgram(f"/usr/bin/{name}", box, same=("rm",)) for name in ("ls", "rm", "sh")}
        | {"busybox": ResolvedProgram(box, box)}
    )
    policy = CommandPolicy.of(None, ["rm"])
    assert policy.resolve_argv("ls", machine) == ("/usr/bin/ls",)
    denied(policy, "rm", "deny", machine)
    for command in ("sh -c x", "busybox rm"):
        denied(policy, command, "wrapper", machine)


DASH, PYTHON = ResolvedProgram("/usr/bin/dash"), ResolvedProgram(f"{SKILL}/.venv/bin/python", "/usr/bin/python3.11")


def test_a_script_that_a_command_wrote_is_judged_by_what_runs_it() -> None:
    made = where(
        {
            "work/x": ResolvedProgram(f"{ROOT}/work/x", run_by=(DASH,)),
            "work/y": ResolvedProgram(f"{ROOT}/work/y", run_by=(PYTHON,)),
            "work/z": ResolvedProgram(f"{ROOT}/work/z", run_by=(ResolvedProgram(f"{ROOT}/work/i"), PYTHON)),
            "tool": ResolvedProgram(f"{SKILL}/.venv/bin/tool", run_by=(PYTHON,)),
            "evil": ResolvedProgram(f"{SKILL}/.venv/bin/evil", run_by=(DASH,)),
            "out/x": ResolvedProgram(f"{SKILL}/out/x", f"{ROOT}/out/x", run_by=(DASH,)),
        }
    )
    policy = CommandPolicy.of(None, ["rm"])
    for refused in ("work/x", "work/z", "out/x", "evil"):
        denied(policy, refused, "wrapper", made)
    assert policy.resolve_argv("work/y", made) == (f"{ROOT}/work/y",)
    assert policy.resolve_argv("tool", made) == (f"{SKILL}/.venv/bin/tool",)


def test_a_script_that_a_command_wrote_for_a_program_with_a_language_is_refused_and_that_of_the_skill_runs() -> None:
    awk = ResolvedProgram("/usr/bin/mawk")
    scripts = where(
        {
            "out/x": ResolvedProgram(f"{ROOT}/out/x", run_by=(awk,)),
            "x": ResolvedProgram(f"{SKILL}/bin/x", run_by=(awk,)),
        }
    )
    policy = CommandPolicy.of(None, ["rm"])
    denied(policy, "out/x", "wrapper", scripts)
    assert policy.resolve_argv("x BEGIN", scripts) == (f"{SKILL}/bin/x", "BEGIN")


def test_code_in_arguments_is_refused_unless_the_program_is_allowed_by_name() -> None:
    machine = where({"innocent": ResolvedProgram(f"{ROOT}/work/innocent", "/usr/bin/python3.11")})
    policy = CommandPolicy.of(None, ["rm"])
    said = denied(policy, "python3 -c x", "inline")
    assert said == ("'python3' with -c runs code that the policy cannot check; run a script, or allow it by name")
    denied(policy, ("innocent", "-c", "x"), "inline", machine)
    assert policy.resolve_argv("python3 scripts/x.py -c", where()) == ("/usr/bin/python3", "scripts/x.py", "-c")
    assert CommandPolicy.of(["python3"], ["rm"]).resolve_argv("python3 -c x", where())[1:] == ("-c", "x")


def test_a_file_of_the_skill_is_not_the_program_of_the_same_name() -> None:
    own = where({"find": ResolvedProgram(f"{SKILL}/bin/find"), "work/find": ResolvedProgram(f"{ROOT}/work/find")})
    policy = CommandPolicy.of(None, ["rm"])
    assert policy.resolve_argv("find -exec", own) == (f"{SKILL}/bin/find", "-exec")
    denied(policy, "work/find -exec", "inline", own)


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        ("scripts/x", True),
        ("./scripts//x", True),
        (f"{SKILL}/x", True),
        ("scripts/added", False),
        ("out/x", False),
        (".venv/x", False),
        ("inputs/x", False),
        ("../../out/x", False),
        ("a/../../../out/x", False),
        ("/etc/x", False),
        (f"{ROOT}/out/x", False),
        (f"{ROOT}/skills/x", False),
    ],
)
def test_a_file_is_the_skills_own_if_no_command_has_changed_it(path: str, is_own: bool) -> None:
    files = ("skills/pdf/x", "skills/pdf/scripts/x")
    assert PolicyContext(ROOT, skill="pdf", cwd="skills/pdf", skill_files=files).is_skill_file(path) is is_own
    assert not PolicyContext(ROOT, skill="pdf", cwd="out", skill_files=files).is_skill_file("scripts/x")
    assert not PolicyContext(ROOT, skill="pdf", skill_files=files).is_skill_file("scripts/x")


def test_a_script_of_the_skill_runs_unless_what_runs_it_is_denied() -> None:
    own = where({"scripts/run.sh": ResolvedProgram(f"{SKILL}/scripts/run.sh", run_by=(DASH,))})
    assert CommandPolicy.of(None, ["rm"]).resolve_argv("scripts/run.sh", own) == (f"{SKILL}/scripts/run.sh",)
    said = denied(CommandPolicy.of(None, ["dash"]), "scripts/run.sh", "deny", own)
    assert said == "'scripts/run.sh' leads to /usr/bin/dash, which is a denied command"
    denied(CommandPolicy.of(["scripts/run.sh"], ["dash"]), "scripts/run.sh", "deny", own)


def test_a_link_of_the_machine_into_the_workspace_is_not_the_machines() -> None:
    linked = where({"ls": ResolvedProgram("/usr/local/bin/ls", f"{ROOT}/work/ls")})
    denied(CommandPolicy.of(["ls"]), "ls", "allow", linked)


def test_a_program_that_does_not_exist_is_not_a_question_of_policy() -> None:
    policy = CommandPolicy.of(["nothing", "scripts/none.sh"])
    with pytest.raises(InvalidArgument, match="program 'nothing' not found"):
        policy.resolve_argv("nothing", where())
    denied(policy, "scripts/none.sh", "allow")
    with pytest.raises(InvalidArgument, match="program 'absent' not found"):
        CommandPolicy.of(None, ["rm"]).resolve_argv("absent", where())


def test_lists_are_tidied() -> None:
    policy = CommandPolicy.of(["ls ", "", "ls", "./x", "/"], (" rm", "rm"))
    assert (policy.allow, policy.deny) == (("ls", "./x"), ("rm",))
    assert CommandPolicy.of(None).allow is None


def test_the_model_is_told_what_it_may_run() -> None:
    assert CommandPolicy().describe() == ""
    assert (
        CommandPolicy.of(["ls", "cat"], ["rm"]).describe()
        == "One command without a shell; allowed: ls, cat; denied: rm."
    )
    assert CommandPolicy.of(None, ["rm"]).describe() == "One command without a shell; denied: rm."


HOME = Command(("true",), skill="demo", cwd="skills/demo", run_dir="runs/asking")


async def made(bench: CommandRunner, command: str) -> None:
    assert (await bench.run(RunRequest(command, skill="demo"))).exit_code == 0


async def test_a_program_of_the_machine_is_found_with_what_it_really_is(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        found = await find_program(bench.workspace, "sh -c x", HOME, ("cat", "sh", "/bin/sh", "/no/such"))
        assert found is not None
        assert os.path.samefile(found.file, "/bin/sh")
        assert found.real == os.path.realpath("/bin/sh")
        assert (found.same, found.run_by) == (("sh", "/bin/sh"), ())


@pytest.mark.parametrize("name", ["no-such-program", "./no", "scripts", "SKILL.md", "", "-x", "/", "a\nb"])
async def test_a_missing_or_invalid_program_is_not_found(tmp_path: Path, name: str) -> None:
    async with workbench(tmp_path) as bench:
        assert await find_program(bench.workspace, (name,), HOME) is None


async def test_a_script_of_the_workspace_says_what_runs_it(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        root = bench.workspace.root
        await made(bench, r"printf '#! /usr/bin/env sh\n' > work/x && printf '#!%s x\n' $PWD/work/x > work/y")
        await made(bench, "chmod +x work/x work/y && ln -s ../../work/y work/link && ln -s loop work/loop")
        hello = await find_program(bench.workspace, "scripts/hello.sh", HOME)
        assert hello is not None
        assert (hello.file, [one.file for one in hello.run_by]) == (f"{root}/skills/demo/scripts/hello.sh", ["/bin/sh"])
        nested = await find_program(bench.workspace, "work/y", HOME)
        assert nested is not None
        assert nested.real == f"{root}/work/y"
        assert [os.path.basename(one.file) for one in nested.run_by] == ["x", "sh"]
        assert await find_program(bench.workspace, "work/loop", HOME) is None


async def test_scripts_that_run_each_other_come_to_an_end(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        await made(bench, r"printf '#!%s\n' $PWD/work/self > work/self && chmod +x work/self")
        found = await find_program(bench.workspace, "work/self", HOME)
        assert found is not None
        assert {one.file for one in found.run_by} == {f"{bench.workspace.root}/skills/demo/work/self"}


async def test_the_answer_is_the_same_when_the_workspace_is_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    async with workbench(tmp_path / "link") as bench:
        root = bench.workspace.root
        found = await find_program(bench.workspace, "scripts/hello.sh", HOME)
        assert found is not None
        assert found.file == f"{root}/skills/demo/scripts/hello.sh"
        assert found.real == found.file


async def test_programs_that_a_command_planted_are_not_asked(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        fake = r"""printf '#!/bin/sh\necho asked >> work/asked; printf /bin/sh\n'"""
        plant = "for name in bash sh readlink head printf; do cp /bin/cat $name; cat ../../work/fake > $name; done"
        await made(bench, f"{fake} > work/fake && mkdir -p .venv/bin && cd .venv/bin && {plant}")
        found = await find_program(bench.workspace, "ls", HOME)
        assert found is not None
        assert os.path.samefile(found.file, "/bin/ls")
        assert (await bench.workspace.list(["work/asked"])).files == ()


async def test_variables_of_the_command_do_not_change_the_answer(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        asking = Command(("true",), run_dir="runs/asking", env={"found": "/bin/sh", "own": "x", "real": "y"})
        assert await find_program(bench.workspace, "no-such-program", asking) is None


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"#!/bin/sh\necho", ("/bin/sh",)),
        (b"#! /bin/sh -e", ("/bin/sh",)),
        (b"#!/usr/bin/env python3\n", ("python3",)),
        (b"#!/usr/bin/env  python3 \n", ("python3",)),
        (b"#!/usr/bin/env -S uv run\n", ("/usr/bin/env",)),
        (b"#!/usr/bin/env A=b sh\n", ("/usr/bin/env",)),
        (b"#!/usr/bin/env python3 -u\n", ("/usr/bin/env",)),
        (b"#!/usr/bin/env\n", ("/usr/bin/env",)),
        (b"#!\n/bin/sh", ()),
        (b"#!  ", ()),
        (b"\x7fELF#!/bin/sh", ()),
        (b"", ()),
    ],
)
def test_the_first_line_is_read_as_a_kernel_reads_it(head: bytes, expected: tuple[str, ...]) -> None:
    assert parse_shebang(head) == expected


def test_a_program_has_the_names_of_all_its_links() -> None:
    assert ResolvedProgram("/usr/bin/sh", "/usr/bin/dash").names == {"sh", "dash"}
    assert ResolvedProgram("/usr/bin/ls", "/usr/bin/busybox").names == {"ls"}


HARMLESS = st.text(st.characters(exclude_characters="\n\r;&|<>`\0$", exclude_categories=("Cs",)), max_size=20)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls", ("ls",)),
        ("  ls \t -l  ", ("ls", "-l")),
        ("echo '' \"\" x", ("echo", "", "", "x")),
        ("echo 'a b' \"c d\" e\\ f", ("echo", "a b", "c d", "e f")),
        ("echo a'b'\"c\"\\d", ("echo", "abcd")),
        (r'echo "a\"b\\c\$d\e"', ("echo", 'a"b\\c$d\\e')),
        (r"echo 'a\b'", ("echo", r"a\b")),
        ("echo $HOME * {a,b} ~ # !", ("echo", "$HOME", "*", "{a,b}", "~", "#", "!")),
        ("echo \u3000wide\u00a0blank", ("echo", "\u3000wide\u00a0blank")),
        ("x.sh A=b", ("x.sh", "A=b")),
    ],
)
def test_words_are_those_of_a_posix_shell(command: str, expected: tuple[str, ...]) -> None:
    assert parse_command_line(command) == expected


@given(st.lists(HARMLESS, min_size=1, max_size=5))
def test_what_was_quoted_comes_back(parts: list[str]) -> None:
    command = shlex.join(["program", *parts])
    assert parse_command_line(command) == ("program", *parts)


def test_a_real_shell_agrees() -> None:
    command = r"""printf '%s\n' '' "a\"b\\c\$d\e" x'y'"z"\ w "é" 'a\b'"""
    shell = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
    ours = subprocess.run(parse_command_line(command), capture_output=True, check=True)
    assert ours.stdout == shell.stdout


@pytest.mark.parametrize("mark", ["\n", "\r", ";", "&", "|", "<", ">", "`", "$("])
def test_what_needs_a_shell_is_refused_in_quotes_too(mark: str) -> None:
    for command in (f"python3{mark}id", f"echo '{mark}'", f'echo "{mark}"', f"echo {mark}"):
        with pytest.raises(CommandDenied, match="is not allowed under a command policy; run one command") as raised:
            parse_command_line(command)
        assert raised.value.details["rule"] == "shell"


@pytest.mark.parametrize("command", ["A=b ls", " _X1= ls", "A+=b", "A[0]=1 ls"])
def test_a_variable_before_the_command_is_refused(command: str) -> None:
    with pytest.raises(CommandDenied, match="before a command needs a shell; use env"):
        parse_command_line(command)


@pytest.mark.parametrize("command", ["", "  \t", "''", '"" x'])
def test_an_empty_text_is_not_a_command(command: str) -> None:
    with pytest.raises(InvalidArgument, match="command: empty; the first word is the program"):
        parse_command_line(command)


@pytest.mark.parametrize(("command", "place"), [("echo 'a", 6), ('echo "a\\"', 6), ("echo a\\", 7)])
def test_a_quote_that_is_never_closed_is_said_with_its_place(command: str, place: int) -> None:
    with pytest.raises(InvalidArgument, match=f"unclosed quote or backslash at character {place}"):
        parse_command_line(command)


def test_a_nul_byte_and_a_very_long_command_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="NUL byte"):
        parse_command_line("echo \0")
    assert len(parse_command_line("x" * 16384)[0]) == 16384
    with pytest.raises(InvalidArgument, match="longer than 16,384 bytes; put it into a script"):
        parse_command_line("x" * 16385)
    with pytest.raises(InvalidArgument, match="longer than"):
        parse_command_line("ü" * 8193)


def test_a_long_command_takes_no_longer_than_it_is_long() -> None:
    assert len(parse_command_line("a " + "'b'" * 5000)) == 2
    with pytest.raises(InvalidArgument, match="unclosed quote"):
        parse_command_line("\\a" * 8000 + '"')


@pytest.mark.parametrize(
    "name",
    [
        *("bash", "sh", "BASH", "env", "xargs", "nohup", "timeout", "sudo", "setsid", "nice", "busybox", "time"),
        *("ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1", "ssh", "flock", "script", "unshare", "strace", "stdbuf"),
        *("bash5", "zsh-5.9", "ksh93", "linux64", "npx", "hush", "static-sh", "uclampset", "aa-exec"),
    ],
)
def test_who_runs_others_is_known(name: str) -> None:
    assert is_wrapper(name)


@pytest.mark.parametrize(
    "name", ["python3", "ls", "shasum", "environment", "nicer", "", "bash.py", "run", "5", "python3.11"]
)
def test_who_does_not_is_let_alone(name: str) -> None:
    assert not is_wrapper(name)


def test_a_program_that_is_many_in_one_is_known() -> None:
    assert is_multicall("BusyBox")
    assert not is_multicall("bash")
