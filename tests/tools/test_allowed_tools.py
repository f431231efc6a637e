"""`allowed-tools` takes questions away, and no more of them than its author meant."""

import pytest

from openskills.tools.allowed_tools import Allowed, entries, for_commands, is_preapproved


def covered(allowed: str, command: str, **where: bool) -> bool:
    return is_preapproved((allowed,), "skill_run", command, **where)


def test_entries_are_read_however_they_are_written() -> None:
    expected = (
        Allowed("Bash", "git:*"),
        Allowed("Bash", "python scripts/*.py:*"),
        Allowed("Read"),
        Allowed("mcp__x__y"),
    )
    assert entries(["Bash(git:*) Bash(python scripts/*.py:*) Read mcp__x__y"]) == expected
    assert entries(["Bash(git:*), Bash(python scripts/*.py:*), Read, mcp__x__y"]) == expected
    assert entries(["Bash(git:*)", " Bash( python scripts/*.py:* ) ", "Read", "mcp__x__y"]) == expected
    assert entries(["Bash(*)", "Read()"]) == (Allowed("Bash"), Allowed("Read", ""))


@pytest.mark.parametrize("broken", ["Bash(git", "Bash)", "(git:*)", "Bash(git:*)x", "", "()"])
def test_an_entry_that_cannot_be_read_means_nothing(broken: str) -> None:
    assert entries([broken]) == ()
    assert not covered(broken, "git status")


@pytest.mark.parametrize("tool", ["skill_run", "skill_exec", "Bash", "bash", "Shell"])
@pytest.mark.parametrize("entry", ["Bash", "bash", "Shell", "skill_run", "skill_exec", "Bash(*)", "skill_run(*)", "*"])
def test_a_plain_tool_for_commands_covers_every_command(tool: str, entry: str) -> None:
    assert is_preapproved(("Read", entry), tool, "a | b; c > d", at_home=False, variables=True)


def test_other_tools_are_matched_by_name() -> None:
    assert is_preapproved(("Read", "mcp__x__y"), "mcp__x__y")
    assert is_preapproved(("mcp__x__*",), "mcp__x__y")
    assert not is_preapproved(("mcp__x__*",), "mcp__z__y")
    assert not is_preapproved(("Read(docs/**)",), "Read")
    assert not is_preapproved(("Read", "Write"), "skill_run", "ls")
    assert not is_preapproved(("read",), "Read")
    assert not is_preapproved((), "skill_run", "ls")


@pytest.mark.parametrize(
    ("entry", "command"),
    [
        ("Bash(git:*)", "git"),
        ("Bash(git:*)", "git status"),
        ("Bash(git:*)", "git commit -m 'a; b && c'"),
        ("Bash(git:*)", "'git' add *.py $OUTPUT_DIR/x ~/y {a,b}"),
        ("Bash(git *)", "git log"),
        ("Bash(git commit:*)", "git commit --amend"),
        ("Bash(git commit *)", "git  commit"),
        ("Bash(npm run build)", "npm run build"),
        ("skill_run(python:*)", "python -V"),
        ("skill_exec(python:*)", "python -V"),
        ("Bash(python scripts/*.py:*)", "python scripts/fill.py in.pdf $OUTPUT_DIR/out.pdf"),
        ("Bash(./scripts/run.sh:*)", "./scripts/run.sh x"),
        ("Bash(test-*:*)", "test-unit x"),
        ("Bash(a*b*c*d)", "aXbYcZd"),
        ("Bash(* --version)", "node --version"),
        ("Bash(echo 'a b':*)", 'echo "a b" c'),
    ],
)
def test_an_entry_with_a_command_covers_it_with_what_may_follow(entry: str, command: str) -> None:
    assert covered(entry, command)


@pytest.mark.parametrize(
    ("entry", "command"),
    [
        ("Bash(git:*)", "gitk"),
        ("Bash(git:*)", "git-evil status"),
        ("Bash(git:*)", "./git status"),
        ("Bash(git:*)", "/tmp/git status"),
        ("Bash(git:*)", "$GIT status"),
        ("Bash(git:*)", "gi? status"),
        ("Bash(git)", "git status"),
        ("Bash(git commit:*)", "git -c core.pager=x commit"),
        ("Bash(git commit:*)", "git commi{t,} x"),
        ("Bash(npm run build)", "npm run build x"),
        ("Bash(npm run build)", "npm run"),
        ("Bash(python scripts/*.py:*)", "python -c 'x' scripts/a.py"),
        ("Bash(python scripts/*.py:*)", "python scripts/../../../work/evil.py"),
        ("Bash(python scripts/*.py:*)", "python scripts/sub/evil.py"),
        ("Bash(python scripts/*.py:*)", "python scripts/$X.py"),
        ("Bash(python scripts/*.py:*)", "python scripts/*.py"),
        ("Bash(python scripts/*.py:*)", "python scripts/.hidden.py"),
        ("Bash(python */run.py:*)", "python work/run.py"),
        ("Bash(python */run.py:*)", "python ../run.py"),
        ("Bash(python */run.py:*)", "python .venv/run.py"),
        ("Bash(a*b*c)", "acb"),
        ("Bash(a*b*b)", "aXb"),
        ("Bash(cat */x)", "cat /x"),
        ("Bash(cat .*/x)", "cat ../x"),
        ("Bash(ab*bc)", "abc"),
        ("Bash(:*)", "ls"),
        ("Bash()", "ls"),
        ("Bash(echo 'a *':*)", "echo 'a b'"),
        ("Bash(a; b:*)", "a"),
        ("Bash('a; $(b)':*)", "a"),
    ],
)
def test_nothing_else_is_covered(entry: str, command: str) -> None:
    assert not covered(entry, command)


TRICKS = [
    *("git status; rm -rf x", "git status && rm x", "git status || rm x", "git status | sh", "git status & rm x"),
    *("git $(rm x)", "git `rm x`", 'git "$(rm x)"', "git <(rm x)", "git status > ~/.bashrc", "git log < /etc/passwd"),
    *("git status\nrm x", "git status\r\nrm x", "A=b git status", "GIT_PAGER=x git log", "(git status)", "! git x; y"),
    *("git ${x:=$(rm x)}", "git $'x'", "git 'unfinished", "git \\", "git # x", "git[$(rm x)]=1 git", "\0git"),
]


@pytest.mark.parametrize("command", TRICKS)
def test_a_preapproved_program_is_no_way_to_another_one(command: str) -> None:
    for entry in ("Bash(git:*)", "Bash(git *)", "Bash(*:*)"):
        assert not covered(entry, command)
    assert covered("Bash", command)


def test_a_variable_of_the_call_is_like_one_before_the_command() -> None:
    assert not covered("Bash(git:*)", "git log", variables=True)


@pytest.mark.parametrize("entry", ["Bash(scripts/run.sh:*)", "Bash(python run.py:*)", "Bash(bash ./x:*)"])
def test_an_entry_that_names_a_file_means_the_one_in_the_skills_folder(entry: str) -> None:
    command = entry.removeprefix("Bash(").removesuffix(":*)")
    assert covered(entry, command)
    assert not covered(entry, command, at_home=False)


@pytest.mark.parametrize("entry", ["Bash(git log:*)", "Bash(/usr/bin/git log:*)", "Bash(python3.11 -V)"])
def test_an_entry_that_names_none_holds_in_every_directory(entry: str) -> None:
    command = entry.removeprefix("Bash(").removesuffix(")").removesuffix(":*")
    assert covered(entry, command, at_home=False)


def test_a_pattern_with_many_stars_takes_no_longer_than_it_should() -> None:
    assert not covered(f"Bash({'a*' * 50}b)", "a" * 10_000)


def test_the_entries_about_commands_are_told_from_the_others() -> None:
    written = ("Bash(git:*), Read", "shell", "Write(x)", "skill_*", "Bash(git", "*")
    assert for_commands(written) == ("Bash(git:*)", "shell", "skill_*", "*")
