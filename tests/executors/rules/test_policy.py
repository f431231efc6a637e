"""Lists of commands are applied to the file that would be run, and say what they want."""

from collections.abc import Mapping

import pytest

from openskills.errors import CommandDenied, InvalidArgument
from openskills.executors.rules.policy import CommandPolicy, Program, Surroundings

ROOT = "/workspace"
SKILL = f"{ROOT}/skills/pdf"
MACHINE = {name: f"/usr/bin/{name}" for name in ("python3", "ls", "rm", "bash", "env", "cat", "timeout")}
FILES = {*MACHINE.values(), f"{SKILL}/scripts/run.sh", f"{SKILL}/.venv/bin/tool", f"{SKILL}/bin/own", f"{ROOT}/work/ls"}


def where(
    brought: Mapping[str, str | Program] | None = None, cwd: str = SKILL, skill: str | None = "pdf"
) -> Surroundings:
    """A machine with a few programs, and a workspace whose skill brings those of `brought`."""
    names = {**MACHINE, "tool": f"{SKILL}/.venv/bin/tool", "own": f"{SKILL}/bin/own", **(brought or {})}

    def resolve(program: str) -> Program | None:
        path = program if program.startswith("/") else f"{cwd}/{program}"
        if program in names:
            found = names[program]
            return found if isinstance(found, Program) else Program(found)
        return Program(path) if "/" in program and path.replace("/./", "/") in FILES else None

    return Surroundings(ROOT, resolve, skill)


def denied(
    policy: CommandPolicy, command: str | tuple[str, ...], rule: str, surroundings: Surroundings | None = None
) -> str:
    with pytest.raises(CommandDenied) as raised:
        policy.argv(command, surroundings or where())
    assert raised.value.details["rule"] == rule
    return str(raised.value)


def test_without_lists_text_goes_to_bash_and_arguments_stay() -> None:
    policy = CommandPolicy()
    assert not policy.restricts
    assert policy.argv("ls | wc; A=b", where()) == ("bash", "-c", "ls | wc; A=b")
    assert policy.argv(["no such", "a\nb"], where()) == ("no such", "a\nb")


NO_COMMANDS = ["", "  ", [], [""], ["ls", "a\0b"], "a\0b", ["ls", "x" * 131072], "x" * 131072, "ls \ud800"]


@pytest.mark.parametrize("command", NO_COMMANDS)
def test_what_can_be_no_command_is_refused_with_and_without_lists(command: str | list[str]) -> None:
    for policy in (CommandPolicy(), CommandPolicy(deny=("rm",))):
        with pytest.raises(InvalidArgument, match="command"):
            policy.argv(command, where())


def test_an_allowed_name_runs_the_file_of_the_machine() -> None:
    policy = CommandPolicy.of(["python3", "ls"])
    assert policy.argv("python3 -c 'print(1)' ''", where()) == ("/usr/bin/python3", "-c", "print(1)", "")
    assert policy.argv(("ls", "a;b|c"), where()) == ("/usr/bin/ls", "a;b|c")


def test_what_is_not_allowed_is_denied_with_what_is() -> None:
    policy = CommandPolicy.of(["python3", "ls"])
    assert denied(policy, "cat x", "allow") == "'cat' is not on the list of allowed commands; allowed: python3, ls"
    many = CommandPolicy.of([f"c{number}" for number in range(25)])
    assert denied(many, "cat", "allow").endswith("c18, c19 (+5 more)")
    assert denied(CommandPolicy(allow=()), "ls", "allow").endswith("allowed: nothing")


def test_a_file_that_a_skill_brings_is_not_the_program_of_that_name() -> None:
    policy = CommandPolicy.of(["python3", "ls"])
    brought = where({"python3": f"{SKILL}/.venv/bin/python3"})
    said = denied(policy, "python3 x.py", "allow", brought)
    assert "would run .venv/bin/python3, which is not the machine's; allow '.venv/bin/python3' if that is meant" in said
    for program in ("./ls", "work/ls", f"{ROOT}/work/ls", "/workspace/work/ls"):
        denied(policy, program, "allow", where(cwd=ROOT))


def test_the_path_of_a_program_is_not_its_name() -> None:
    policy = CommandPolicy.of(["python3"])
    denied(policy, "/usr/bin/python3", "allow")
    denied(policy, "/usr/bin/../bin/python3", "path")
    assert CommandPolicy.of(["/usr/bin/python3"]).argv("/usr/bin/python3 -V", where()) == ("/usr/bin/python3", "-V")
    assert CommandPolicy.of(["/usr/bin/python3"]).argv("python3", where()) == ("/usr/bin/python3",)


def test_an_entry_with_a_slash_is_that_file_of_the_skill_however_it_is_called() -> None:
    policy = CommandPolicy.of(["./scripts/run.sh", " .venv/bin/tool ", "bin//own"])
    assert policy.allow == ("scripts/run.sh", ".venv/bin/tool", "bin/own")
    for command in ("scripts/run.sh x", "./scripts/run.sh x", f"{SKILL}/scripts/run.sh x"):
        assert policy.argv(command, where()) == (f"{SKILL}/scripts/run.sh", "x")
    assert policy.argv("tool", where()) == (f"{SKILL}/.venv/bin/tool",)
    assert policy.argv("own", where()) == (f"{SKILL}/bin/own",)
    denied(policy, "scripts/run.sh", "allow", where(cwd=f"{ROOT}/work"))


def test_without_a_skill_paths_are_below_the_workspace() -> None:
    surroundings = where(cwd=ROOT, skill=None)
    assert CommandPolicy.of(["work/ls"]).argv("work/ls", surroundings) == (f"{ROOT}/work/ls",)


def test_deny_wins_over_allow_wherever_the_file_lies_and_however_it_is_written() -> None:
    policy = CommandPolicy.of(["ls", "rm", "work/ls", "scripts/run.sh"], ["LS", "scripts/run.sh"])
    for command in ("ls", "/usr/bin/ls", f"{ROOT}/work/ls", "./scripts/run.sh"):
        assert "is on the list of denied commands" in denied(policy, command, "deny")
    assert policy.argv("rm x", where()) == ("/usr/bin/rm", "x")


def test_a_denied_name_cannot_be_reached_by_another_one() -> None:
    aliased = where({"list": "/usr/bin/ls"})
    denied(CommandPolicy.of(None, ["ls"]), "list", "deny", aliased)


def test_with_only_denials_everything_else_runs_without_a_shell() -> None:
    policy = CommandPolicy.of(None, ["rm"])
    assert policy.argv("cat a", where()) == ("/usr/bin/cat", "a")
    assert policy.argv("tool", where()) == (f"{SKILL}/.venv/bin/tool",)
    denied(policy, "cat a; rm b", "shell")
    assert denied(policy, "rm b", "deny") == "'rm' is on the list of denied commands"


@pytest.mark.parametrize("command", ["bash -c 'rm x'", "env rm x", "timeout 5 rm x", "/usr/bin/env rm", "BASH"])
def test_programs_that_run_others_must_be_allowed_by_name(command: str) -> None:
    surroundings = where({"BASH": "/usr/bin/bash"})
    for policy in (CommandPolicy.of(None, ["rm"]), CommandPolicy.of(["python3"])):
        assert "runs other commands, so a policy must allow it by name" in denied(
            policy, command, "wrapper", surroundings
        )
    assert CommandPolicy.of(["env"]).argv("env ls", where()) == ("/usr/bin/env", "ls")


def test_a_link_to_a_denied_program_or_a_shell_is_what_it_leads_to() -> None:
    linked = where({"innocent": Program(f"{ROOT}/work/innocent", "/usr/bin/dash")})
    denied(CommandPolicy.of(None, ["rm"]), "innocent", "wrapper", linked)
    denied(CommandPolicy.of(None, ["dash"]), "innocent", "deny", linked)
    denied(CommandPolicy.of(["ls"]), "innocent", "allow", linked)


def test_another_name_for_a_denied_file_is_denied_too() -> None:
    surroundings = where(
        {"python3.11": Program("/usr/bin/python3.11", same=("python3",)), "/bin/rm": Program("/bin/rm", "/usr/bin/rm")}
    )
    assert CommandPolicy.of(None, ["python3"]).denied(surroundings) == ("python3",)
    assert CommandPolicy.of(None, ["./x", "a/b"]).denied(surroundings) == (f"{SKILL}/x", f"{SKILL}/a/b")
    denied(CommandPolicy.of(None, ["python3"]), "python3.11", "deny", surroundings)
    denied(CommandPolicy.of(None, ["rm"]), "/bin/rm", "deny", surroundings)


def test_a_program_that_is_many_is_what_it_is_called_as() -> None:
    box = "/usr/bin/busybox"
    machine = where(
        {name: Program(f"/usr/bin/{name}", box, same=("rm",)) for name in ("ls", "rm", "sh")}
        | {"busybox": Program(box, box)}
    )
    policy = CommandPolicy.of(None, ["rm"])
    assert policy.argv("ls", machine) == ("/usr/bin/ls",)
    denied(policy, "rm", "deny", machine)
    for command in ("sh -c x", "busybox rm"):
        denied(policy, command, "wrapper", machine)


DASH, PYTHON = Program("/usr/bin/dash"), Program(f"{SKILL}/.venv/bin/python", "/usr/bin/python3.11")


def test_a_script_that_a_command_wrote_is_judged_by_what_runs_it() -> None:
    made = where(
        {
            "work/x": Program(f"{ROOT}/work/x", run_by=(DASH,)),
            "work/y": Program(f"{ROOT}/work/y", run_by=(PYTHON,)),
            "work/z": Program(f"{ROOT}/work/z", run_by=(Program(f"{ROOT}/work/i"), PYTHON)),
            "tool": Program(f"{SKILL}/.venv/bin/tool", run_by=(PYTHON,)),
            "evil": Program(f"{SKILL}/.venv/bin/evil", run_by=(DASH,)),
            "out/x": Program(f"{SKILL}/out/x", f"{ROOT}/out/x", run_by=(DASH,)),
        }
    )
    policy = CommandPolicy.of(None, ["rm"])
    for refused in ("work/x", "work/z", "out/x", "evil"):
        denied(policy, refused, "wrapper", made)
    assert policy.argv("work/y", made) == (f"{ROOT}/work/y",)
    assert policy.argv("tool", made) == (f"{SKILL}/.venv/bin/tool",)


def test_a_script_that_a_command_wrote_for_a_program_with_a_language_is_refused_and_that_of_the_skill_runs() -> None:
    awk = Program("/usr/bin/mawk")
    scripts = where({"out/x": Program(f"{ROOT}/out/x", run_by=(awk,)), "x": Program(f"{SKILL}/bin/x", run_by=(awk,))})
    policy = CommandPolicy.of(None, ["rm"])
    denied(policy, "out/x", "wrapper", scripts)
    assert policy.argv("x BEGIN", scripts) == (f"{SKILL}/bin/x", "BEGIN")


def test_code_in_arguments_is_refused_unless_the_program_is_allowed_by_name() -> None:
    machine = where({"innocent": Program(f"{ROOT}/work/innocent", "/usr/bin/python3.11")})
    policy = CommandPolicy.of(None, ["rm"])
    said = denied(policy, "python3 -c x", "inline")
    assert said == (
        "'python3' with -c runs what no list of commands can judge; run a script, or have it allowed by name"
    )
    denied(policy, ("innocent", "-c", "x"), "inline", machine)
    assert policy.argv("python3 scripts/x.py -c", where()) == ("/usr/bin/python3", "scripts/x.py", "-c")
    assert CommandPolicy.of(["python3"], ["rm"]).argv("python3 -c x", where())[1:] == ("-c", "x")


def test_a_file_of_the_skill_is_not_the_program_of_the_same_name() -> None:
    own = where({"find": Program(f"{SKILL}/bin/find"), "work/find": Program(f"{ROOT}/work/find")})
    policy = CommandPolicy.of(None, ["rm"])
    assert policy.argv("find -exec", own) == (f"{SKILL}/bin/find", "-exec")
    denied(policy, "work/find -exec", "inline", own)


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        ("scripts/x", True),
        ("./scripts//x", True),
        (f"{SKILL}/x", True),
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
def test_a_file_is_the_skills_own_where_no_command_can_write(path: str, is_own: bool) -> None:
    assert Surroundings(ROOT, skill="pdf", cwd="skills/pdf").is_authored(path) is is_own
    assert not Surroundings(ROOT, skill="pdf", cwd="out").is_authored("scripts/x")
    assert not Surroundings(ROOT, skill="pdf").is_authored("scripts/x")


def test_a_script_of_the_skill_runs_unless_what_runs_it_is_denied() -> None:
    own = where({"scripts/run.sh": Program(f"{SKILL}/scripts/run.sh", run_by=(DASH,))})
    assert CommandPolicy.of(None, ["rm"]).argv("scripts/run.sh", own) == (f"{SKILL}/scripts/run.sh",)
    said = denied(CommandPolicy.of(None, ["dash"]), "scripts/run.sh", "deny", own)
    assert said == "'scripts/run.sh' leads to /usr/bin/dash, which is on the list of denied commands"
    denied(CommandPolicy.of(["scripts/run.sh"], ["dash"]), "scripts/run.sh", "deny", own)


def test_a_link_of_the_machine_into_the_workspace_is_not_the_machines() -> None:
    linked = where({"ls": Program("/usr/local/bin/ls", f"{ROOT}/work/ls")})
    denied(CommandPolicy.of(["ls"]), "ls", "allow", linked)


def test_a_program_that_does_not_exist_is_no_question_of_policy() -> None:
    policy = CommandPolicy.of(["nothing", "scripts/none.sh"])
    with pytest.raises(InvalidArgument, match="there is no program 'nothing' here"):
        policy.argv("nothing", where())
    denied(policy, "scripts/none.sh", "allow")
    with pytest.raises(InvalidArgument, match="there is no program 'absent' here"):
        CommandPolicy.of(None, ["rm"]).argv("absent", where())


def test_lists_are_tidied() -> None:
    policy = CommandPolicy.of(["ls ", "", "ls", "./x", "/"], (" rm", "rm"))
    assert (policy.allow, policy.deny) == (("ls", "./x"), ("rm",))
    assert CommandPolicy.of(None).allow is None


def test_the_model_is_told_what_it_may_run() -> None:
    assert CommandPolicy().summary() == ""
    assert (
        CommandPolicy.of(["ls", "cat"], ["rm"]).summary()
        == "One command without a shell; allowed: ls, cat; denied: rm."
    )
    assert CommandPolicy.of(None, ["rm"]).summary() == "One command without a shell; denied: rm."
