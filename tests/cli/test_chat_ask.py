"""Commands that are not isolated are put to a person; only a clear yes is one."""

from dataclasses import replace
from pathlib import Path

import pytest

from openskills.cli.chat_ask import NOBODY, answered, asking, is_isolated
from openskills.cli.chat_view import TextView
from openskills.executors.choose import executor
from openskills.executors.spec import Isolation
from openskills.settings import Settings
from openskills.sync import run
from openskills.testing import FakeExecutor
from openskills.tools.approvals import ApprovalQuestion, Decision
from tests.cli.chatting import Chat
from tests.cli.command import Command
from tests.skill_writer import WriteSkill

QUESTION = ApprovalQuestion("pdf", "ls\n-l \x1b[2J", ("bash", "-c", "ls"), "skills/pdf")
RUNS = "# Say hello\n\nRun the script:\n\n```\npython3 scripts/hello.py\n```"
LOCAL = ("--model", "rule", "--skills", "skills", "--executor", "local")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y\n", Decision.ALLOW_ONCE),
        (" Yes \n", Decision.ALLOW_ONCE),
        ("s\n", Decision.ALLOW_SESSION),
        ("always\n", Decision.ALLOW_SESSION),
        ("\n", Decision.DENY),
        ("n\n", Decision.DENY),
        (None, Decision.DENY),
        ("only with --dry-run\n", "only with --dry-run"),
        ("yy\n", "yy"),
    ],
)
def test_an_answer_is_a_yes_a_no_or_a_reason_for_a_no(line: str | None, answer: str) -> None:
    assert answered(line) == answer


def test_where_nobody_can_be_asked_the_answer_is_no_and_everybody_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    question = replace(QUESTION, env=("A", "B"), network=("example.org",), stdin=b"in\xff", interactive=True)
    answer = run(_asked(replace(question, editor_text="line\n" * 50)))
    assert answer == NOBODY
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["pdf wants to run, in skills/pdf:", "    ls", "    -l \\x1b[2J"]
    assert lines[3:6] == ["  with the variables A, B", "  reaching example.org", "  it will be talked to while it runs"]
    assert lines[6:8] == ["  input:", "    in\ufffd"]
    assert lines[-2:] == ["    … and 11 more lines", f"denied: {NOBODY}"]


async def _asked(question: ApprovalQuestion) -> object:
    return await asking(TextView("assistant"), interactive=False)(question)


def test_an_installation_is_named_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    run(_asked(replace(QUESTION, installs=True)))
    assert capsys.readouterr().err.startswith("pdf wants to install what it declares, in skills/pdf:\n")


def test_isolation_is_known_by_the_name_or_tried(tmp_path: Path) -> None:
    settings = Settings.from_env({"HOME": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/nobody"})
    weak, strong = FakeExecutor(), FakeExecutor(isolation=Isolation.CONTAINER)
    for name in ("sandbox", "container", "landlock", "auto"):
        # Not tried: it would say that it isolates nothing.
        assert run(is_isolated(name, weak, settings))
    assert not run(is_isolated("local", weak, settings))
    allowed = replace(settings, allow_local=True)
    assert not run(is_isolated("auto", weak, allowed))
    assert run(is_isolated("auto", strong, allowed))
    assert run(is_isolated("package.module:mine", strong, settings))
    # One that cannot be used promises nothing.
    assert not run(is_isolated("package.module:mine", executor("container", settings), settings))


@pytest.fixture
def greeter(openskills: Command, write_skill: WriteSkill) -> Path:
    """A skill whose command leaves a mark outside of its workspace."""
    folder = write_skill("greeter", "Say hello. Use when the user wants a greeting.", body=RUNS)
    (folder / "scripts").mkdir()
    mark = openskills.cwd / "mark"
    (folder / "scripts" / "hello.py").write_text(f"open({str(mark)!r}, 'a').write('x')\nprint('hello there')\n")
    return mark


def test_at_a_terminal_a_person_allows_a_command_once_for_the_session_or_not(
    openskills: Command, greeter: Path
) -> None:
    with Chat(openskills, *LOCAL) as chat:
        assert "warning: commands of skills are not isolated" in chat.expect()
        chat.type("greeting please\n")
        asked = chat.expect("no > ")
        assert "greeter wants to run, in skills/greeter:\n    python3 scripts/hello.py" in asked
        assert not greeter.exists()
        assert "was not approved (not today)" in chat.say("not today")
        chat.type("greeting please\n")
        chat.expect("no > ")
        assert "exit code 0; hello there" in chat.say("y")
        chat.type("greeting please\n")
        chat.expect("no > ")
        assert "exit code 0; hello there" in chat.say("s")
        assert "exit code 0; hello there" in chat.say("greeting please")
        assert greeter.read_text() == "xxx"
        assert chat.end().code == 0


def test_what_was_typed_before_the_question_is_no_answer(openskills: Command, greeter: Path) -> None:
    with Chat(openskills, *LOCAL) as chat:
        chat.expect()
        chat.type("greeting please\ny\ny\n")
        chat.expect("no > ")
        chat.say("")
        chat.end()
    assert not greeter.exists()


def test_ctrl_c_at_the_question_is_a_no_and_the_next_line_is_a_message(openskills: Command, greeter: Path) -> None:
    with Chat(openskills, *LOCAL) as chat:
        chat.expect()
        chat.type("greeting please\n")
        chat.expect("no > ")
        chat.type("\x03")
        assert "stopped; the conversation goes on" in chat.expect()
        assert "/help" in chat.say("/help")
        chat.end()
    assert not greeter.exists()


def test_in_a_pipe_commands_without_isolation_need_yes(openskills: Command, greeter: Path) -> None:
    ran = openskills("chat", *LOCAL, "greeting please")
    assert f"denied: {NOBODY}" in ran.err
    assert not greeter.exists()
    ran = openskills("chat", *LOCAL, "--yes", "greeting please")
    assert (ran.code, greeter.read_text()) == (0, "x")
    assert "hello there" in ran.out
    assert "wants to run" not in ran.err
