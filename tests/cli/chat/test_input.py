"""Commands that are not isolated are put to a person; only a clear yes is one.

Files of a person: whole, bounded, and never something that is not a file.

A typed line is an order or words; skills and files are found in words, and nothing else is taken for one.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.cli.chat.input import (
    NO_TERMINAL,
    ChatMessage,
    SlashCommand,
    attachment_name,
    create_approver,
    describe_attachment,
    extract_files,
    find_skill_mentions,
    find_unknown_skill,
    is_file,
    is_isolated,
    parse_decision,
    parse_slash_command,
    parse_words,
    read_attachment,
)
from openskills.cli.chat.view import TextChatView
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.executors.open import open_executor
from openskills.executors.spec import Isolation
from openskills.settings import Settings
from openskills.testing.fake_executor import FakeExecutor
from openskills.tools.approvals import ApprovalDecision, ApprovalQuestion
from openskills.tools.uploads import UploadLimits
from tests.cli.chatting import Chat
from tests.cli.command import Command
from tests.skill_writer import WriteSkill

QUESTION = ApprovalQuestion(("bash", "-c", "ls"), "skills/pdf", "pdf", command="ls\n-l \x1b[2J")
RUNS = "# Say hello\n\nRun the script:\n\n```\npython3 scripts/hello.py\n```"
LOCAL = ("--model", "rule", "--skills", "skills", "--executor", "local")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y\n", ApprovalDecision.ALLOW_ONCE),
        (" Yes \n", ApprovalDecision.ALLOW_ONCE),
        ("s\n", ApprovalDecision.ALLOW_SESSION),
        ("always\n", ApprovalDecision.ALLOW_SESSION),
        ("\n", ApprovalDecision.DENY),
        ("n\n", ApprovalDecision.DENY),
        (None, ApprovalDecision.DENY),
        ("only with --dry-run\n", "only with --dry-run"),
        ("yy\n", "yy"),
    ],
)
def test_an_answer_is_a_yes_a_no_or_a_reason_for_a_no(line: str | None, answer: str) -> None:
    assert parse_decision(line) == answer


async def test_without_a_terminal_commands_are_denied_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    question = replace(QUESTION, env=("A", "B"), network=("example.org",), stdin=b"in\xff", interactive=True)
    answer = await _asked(replace(question, editor_text="line\n" * 50))
    assert answer == NO_TERMINAL
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["pdf wants to run, in skills/pdf:", "    ls", "    -l \\x1b[2J"]
    assert lines[3:6] == [
        "  with variables A, B",
        "  with network access to example.org",
        "  interactively: the agent sends input while it runs",
    ]
    assert lines[6:8] == ["  input:", "    in\ufffd"]
    assert lines[-2:] == ["    … and 11 more lines", f"denied: {NO_TERMINAL}"]


async def _asked(question: ApprovalQuestion) -> object:
    return await create_approver(TextChatView("assistant"), interactive=False)(question)


async def test_an_installation_is_named_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    await _asked(replace(QUESTION, installs=True))
    assert capsys.readouterr().err.startswith("pdf wants to install its declared packages, in skills/pdf:\n")


async def test_isolation_is_known_by_the_name_or_tried(tmp_path: Path) -> None:
    settings = Settings.from_env({"HOME": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/nobody"})
    weak, strong = FakeExecutor(), FakeExecutor(isolation=Isolation.CONTAINER)
    for name in ("sandbox", "container", "landlock", "auto"):
        # Not tried: it would say that it isolates nothing.
        assert await is_isolated(name, weak, settings)
    assert not await is_isolated("local", weak, settings)
    allowed = replace(settings, allow_local=True)
    assert not await is_isolated("auto", weak, allowed)
    assert await is_isolated("auto", strong, allowed)
    assert await is_isolated("package.module:mine", strong, settings)
    # One that cannot be used promises nothing.
    assert not await is_isolated("package.module:mine", open_executor("container", settings), settings)


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


def test_input_before_the_question_is_not_an_answer(openskills: Command, greeter: Path) -> None:
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
        assert "stopped; the conversation continues" in chat.expect()
        assert "/help" in chat.say("/help")
        chat.end()
    assert not greeter.exists()


def test_in_a_pipe_commands_without_isolation_need_yes(openskills: Command, greeter: Path) -> None:
    ran = openskills("chat", *LOCAL, "greeting please")
    assert f"denied: {NO_TERMINAL}" in ran.err
    assert not greeter.exists()
    ran = openskills("chat", *LOCAL, "--yes", "greeting please")
    assert (ran.code, greeter.read_text()) == (0, "x")
    assert "hello there" in ran.out
    assert "wants to run" not in ran.err


def test_a_file_comes_with_its_name_its_bytes_and_its_type(tmp_path: Path) -> None:
    (tmp_path / "chart.bin").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    file = read_attachment(str(tmp_path / "chart.bin"))
    assert (file.name, file.data, file.mime_type) == ("chart.bin", b"\x89PNG\r\n\x1a\n\0", "image/png")
    assert describe_attachment(file) == "chart.bin (9 bytes)"
    assert attachment_name(str(tmp_path / "chart.bin")) == "chart.bin"


@pytest.mark.parametrize("path", ["nothing", "", "a\0b", ".", "pipe", "~nobody-has-this-name/x"])
def test_pipes_and_devices_are_refused_without_waiting(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    given = path if "\0" in path or path.startswith("~") else str(tmp_path / path)
    with pytest.raises(InvalidArgument, match="attach"):
        read_attachment(given)
    assert not is_file(given)
    assert attachment_name(given) is None


def test_a_file_that_is_too_large_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(UploadLimits().file_bytes + 1)
    with pytest.raises(LimitExceeded, match="large is larger than"):
        read_attachment(str(tmp_path / "large"))


FILES = {
    "sales.csv": "sales.csv",
    "data/my file.csv": "my file.csv",
    "notes.": "notes.",
    "a.b": "a.b",
    "～表.csv": "～表.csv",
}


def known(name: str) -> str | None:
    return name if name in ("csv-report", "pdf", "表格") else None


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("/help", SlashCommand("help")),
        ("  /load  csv-report a.md ", SlashCommand("load", "csv-report a.md")),
        ("/", SlashCommand("")),
        ("/csv-report what\nis this", SlashCommand("csv-report", "what\nis this")),
        ("/表格 看", SlashCommand("表格", "看")),
    ],
)
def test_a_slash_and_a_name_are_an_order(line: str, order: SlashCommand) -> None:
    assert parse_slash_command(line) == order


@pytest.mark.parametrize("line", ["hello", "/etc/hosts is what?", "/a.txt", "//help", "what does /help do", ""])
def test_paths_and_other_words_are_not_slash_commands(line: str) -> None:
    assert parse_slash_command(line) is None


def test_two_slashes_are_one_that_is_meant() -> None:
    assert (parse_words(" //help me "), parse_words("/etc/hosts")) == ("/help me", "/etc/hosts")


@pytest.mark.parametrize(
    ("text", "skills"),
    [
        ("$csv-report on it", ("csv-report",)),
        ("use $pdf, then $csv-report. And $pdf", ("pdf", "csv-report")),
        ("用 $表格 看", ("表格",)),
        ("用$csv-report分析", ("csv-report",)),
        ("costs $5, in $HOME, a$pdf, $$pdf, \\$pdf, $pdf-x, $pdf_x, @$pdf", ()),
    ],
)
def test_skills_are_named_with_a_dollar_sign(text: str, skills: tuple[str, ...]) -> None:
    assert find_skill_mentions(text, known) == skills


def test_only_at_the_beginning_an_unknown_name_is_suspicious() -> None:
    assert find_unknown_skill("$pdff it", known) == "pdff"
    assert find_unknown_skill("$pdf it", known) is None
    assert find_unknown_skill("take $pdff", known) is None


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("What is in @sales.csv?", ChatMessage("What is in sales.csv?", ("sales.csv",))),
        ("(@sales.csv)", ChatMessage("(sales.csv)", ("sales.csv",))),
        ("看看@sales.csv里有什么", ChatMessage("看看sales.csv里有什么", ("sales.csv",))),
        ("看看@sales.csv。", ChatMessage("看看sales.csv。", ("sales.csv",))),
        ("@sales.csv, @sales.csv!", ChatMessage("sales.csv, sales.csv!", ("sales.csv",))),
        ('@"data/my file.csv" please', ChatMessage("my file.csv please", ("data/my file.csv",))),
        ("@notes.", ChatMessage("notes.", ("notes.",))),
        ("看 @～表.csv。", ChatMessage("看 ～表.csv。", ("～表.csv",))),
        ("@ alone, me@sales.csv, thanks @ada", ChatMessage("@ alone, me@sales.csv, thanks @ada")),
        ("@slaes.csv or @no/where", ChatMessage("@slaes.csv or @no/where", (), ("slaes.csv", "no/where"))),
        ('@"not there"', ChatMessage('@"not there"', (), ("not there",))),
    ],
)
def test_files_are_named_with_an_at_sign_and_stand_in_the_text_by_their_names(text: str, sent: ChatMessage) -> None:
    assert extract_files(text, FILES.get) == sent
