"""Lists of commands are applied to the file that would be run, and say what they want."""

import pytest

from openskills.errors import CommandDenied, InvalidArgument
from openskills.executors.rules.policy import CommandPolicy, Surroundings

ROOT = "/workspace"
SKILL = f"{ROOT}/skills/pdf"
MACHINE = {name: f"/usr/bin/{name}" for name in ("python3", "ls", "rm", "bash", "env", "cat", "timeout")}
FILES = {*MACHINE.values(), f"{SKILL}/scripts/run.sh", f"{SKILL}/.venv/bin/tool", f"{SKILL}/bin/own", f"{ROOT}/work/ls"}


def where(brought: dict[str, str] | None = None, cwd: str = SKILL, skill: str | None = "pdf") -> Surroundings:
    """A machine with a few programs, and a workspace whose skill brings those of `brought`."""
    names = {**MACHINE, "tool": f"{SKILL}/.venv/bin/tool", "own": f"{SKILL}/bin/own", **(brought or {})}

    def resolve(program: str) -> str | None:
        if "/" not in program:
            return names.get(program)
        path = program if program.startswith("/") else f"{cwd}/{program}"
        return path if path.replace("/./", "/") in FILES else None

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
