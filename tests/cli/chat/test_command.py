"""`chat` with one message: the answer on stdout, everything else beside it, and an exit status."""

import json
import subprocess
from pathlib import Path

import pytest

from openskills.agent.models.model import ModelResponse, Usage
from openskills.testing.model_server import ErrorReply, ModelServer
from openskills.testing.models import call_tools
from tests.cli.command import Command
from tests.cli.ran import TIMEOUT, Ran
from tests.conftest import RequireProgram
from tests.skill_writer import WriteSkill

RULE = ("chat", "--model", "rule", "--skills", "skills")
MODEL = ("chat", "--model", "openai/scripted", "--executor", "none", "--skills", "skills")
BODY = "# Count lines\n\nRun the script on the file:\n\n```\npython3 scripts/count.py FILE --output out/count.txt\n```"
SCRIPT = "import sys; open(sys.argv[3], 'w').write(f'{len(open(sys.argv[1]).readlines())} lines')\n"


@pytest.fixture(autouse=True)
def skill(openskills: Command, write_skill: WriteSkill) -> Path:
    """A skill with a script."""
    del openskills  # makes the directory in which the skill is written
    folder = write_skill(
        "line-count", "Counts the lines of a file. Use when the user wants to know how long it is.", body=BODY
    )
    (folder / "scripts").mkdir()
    (folder / "scripts" / "count.py").write_text(SCRIPT)
    return folder


def asking(openskills: Command, *arguments: str, server: ModelServer, piped: bytes = b"") -> Ran:
    """Run the command with something to read, and a model at this server."""
    openskills.environment |= server.environment
    return openskills(*arguments, piped=piped)


def test_a_request_in_words_runs_a_skill_on_a_file_and_keeps_what_it_made(
    openskills: Command, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    (openskills.cwd / "poem.txt").write_text("a\nb\nc\n")
    ran = openskills(*RULE, "--session", "mine", "$line-count How many lines are in @poem.txt?")
    assert ran.code == 0
    assert "3 lines" in ran.out
    lines = ran.err.splitlines()
    assert lines[0] == "session mine; 1 skill"
    assert "* loaded: line-count" in lines
    assert "  -> exit code 0; out/count.txt" in lines
    assert openskills("artifacts", "get", "mine", "out/count.txt").out == "3 lines"
    assert openskills("artifacts", "get", "mine", "uploads/poem.txt").out == "a\nb\nc\n"


def test_a_place_without_skills_is_refused(openskills: Command) -> None:
    ran = openskills("chat", "--model", "rule", "--skills", "nowhere", "hello")
    assert ran.code == 2
    assert "--skills: no usable skill in nowhere; see `openskills list nowhere`" in ran.err


def test_what_is_piped_in_is_the_message_or_a_file(openskills: Command) -> None:
    with ModelServer(["One.", "Two."]) as server:
        assert asking(openskills, *MODEL, server=server, piped="你好\n".encode()).out == "One.\n"
        ran = asking(openskills, *MODEL, "What is", "it?", "--attach", "-", server=server, piped=b"a,b\n")
        assert ran.out == "Two.\n"
    said = [request.body["messages"][-1]["content"] for request in server.requests]
    assert said[0] == "你好"
    assert said[1].startswith("What is it?\n\n[attached: stdin;")


def test_the_answer_alone_is_on_stdout(openskills: Command) -> None:
    answers = [call_tools(("skill_load", {"skill": "line-count"}), text="Let me see."), "Three.\n表"]
    with ModelServer(answers) as server:
        ran = asking(openskills, *MODEL, "how long?", server=server)
    assert (ran.code, ran.out) == (0, "Three.\n表\n")
    assert ran.err.splitlines()[1:] == ["Let me see.", "* skill_load line-count", "  -> loaded: line-count"]


def test_for_programs_every_event_is_a_line(openskills: Command) -> None:
    with ModelServer([ModelResponse("Hello there!", usage=Usage(10, 3, 4))]) as server:
        ran = asking(openskills, *MODEL, "--json", "hi", server=server)
    events = [json.loads(line) for line in ran.out.splitlines()]
    kinds = [event["kind"] for event in events]
    assert (ran.code, kinds[0], kinds[-2:]) == (0, "message", ["message", "end"])
    assert "".join(event["payload"]["text"] for event in events if event["kind"] == "assistant.delta") == "Hello there!"
    assert events[-1]["payload"]["usage"] == {"input": 10, "output": 3, "cached": 4}


def test_without_an_answer_the_status_is_1_and_the_reason_one_line(openskills: Command) -> None:
    with ModelServer([ErrorReply(401, "that key is not valid")]) as server:
        ran = asking(openskills, *MODEL, "hi", server=server)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines()[-1].startswith("error: ")
    with ModelServer([ErrorReply(401, "that key is not valid")]) as server:
        ran = asking(openskills, *MODEL, "hi", "--json", server=server)
    assert (ran.code, json.loads(ran.out.splitlines()[-1])["kind"]) == (1, "error")


def test_a_conversation_goes_on_under_its_name(openskills: Command) -> None:
    with ModelServer(["Hello Ada.", "Ada."]) as server:
        first = asking(openskills, *MODEL, "I am Ada", server=server)
        name = first.err.splitlines()[0].removeprefix("session ").partition(";")[0]
        assert name.startswith("chat-")
        second = asking(openskills, *MODEL, "Who am I?", "--session", name, server=server)
    assert second.out == "Ada.\n"
    assert second.err.splitlines()[0] == f"session {name}, 3 events so far; 1 skill"
    said = [message["content"] for message in server.requests[1].body["messages"][1:]]
    assert said == ["I am Ada", "Hello Ada.", "Who am I?"]


def test_without_a_model_rules_answer_with_a_note(openskills: Command) -> None:
    arguments = ("chat", "--executor", "none", "--skills", "skills", "hello")
    ran = openskills(*arguments)
    assert ran.code == 0
    assert ran.err.startswith("note: no language model is configured, so fixed rules answer;")
    assert "note:" not in openskills(*arguments, "--model", "rule").err
    ran = openskills(*arguments, OPENSKILL_MODEL="nonsense")
    assert (ran.code, ran.err.startswith("error: model: unknown model 'nonsense'")) == (2, True)


def test_verbose_shows_everything(openskills: Command) -> None:
    with ModelServer([call_tools(("skill_load", {"skill": "line-count"})), "Done."]) as server:
        ran = asking(openskills, *MODEL, "-v", "hi", server=server)
    assert '     {"skill": "line-count"}' in ran.err.splitlines()
    assert ran.err.splitlines()[-1].startswith("steps: 2; tool calls: 1; tokens: ")


def test_commands_are_asked_about_when_somebody_wants_that(
    openskills: Command, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    (openskills.cwd / "poem.txt").write_text("a\n")
    ran = openskills(*RULE, "--ask", "$line-count How many lines are in @poem.txt?")
    assert "line-count wants to run, in skills/line-count:" in ran.err
    assert "denied: no terminal to ask for approval" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("/nothing",), "/nothing: unknown command or skill"),
        (("hi", "--ask", "--yes"), "--yes: cannot be combined with --ask"),
        (("  ",), "MESSAGE: must not be empty"),
        ((), "MESSAGE: must not be empty"),
        (("hi", "--executor", "lokal"), "executor: unknown executor 'lokal'"),
        (("hi", "--attach", "nothing.csv"), "attach: cannot read 'nothing.csv': No such file"),
        (("hi", "--store", "nowhere"), "store: "),
        (("hi", "--session", "a\nb"), "session: "),
        (("hi", "--model", "gpt-5"), "did you mean openai/gpt-5?"),
        (("--attach", "-"), "--attach: stdin cannot be both the message and an attachment"),
    ],
)
def test_wrong_usage_is_one_sentence_and_nothing_begins(
    openskills: Command, arguments: tuple[str, ...], message: str
) -> None:
    ran = openskills(*RULE, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err.splitlines()[-1]
    assert openskills("sessions", "list").out == ""


def test_a_message_may_be_an_order_or_the_name_of_a_skill(openskills: Command) -> None:
    ran = openskills(*RULE, "--executor", "none", "/skills")
    assert (ran.code, ran.out.startswith("line-count\t")) == (0, True)
    ran = openskills(*RULE, "--executor", "none", "/line-count now")
    assert (ran.code, "* loaded: line-count" in ran.err.splitlines()) == (0, True)
    assert openskills(*RULE, "/quit").code == 0


def test_json_needs_a_message(openskills: Command) -> None:
    ran = openskills.on_terminal(*RULE, "--json")
    assert ran.code == 2
    assert "--json: needs a message as an argument or on stdin" in ran.out


def test_an_empty_message_is_refused(openskills: Command) -> None:
    ran = openskills(*RULE, piped=b"x" * (1024 * 1024 + 1))
    assert (ran.code, ran.out) == (2, "")
    assert "send it with --attach -" in ran.err


def test_a_reader_that_goes_away_ends_it_quietly(new_openskills: Command) -> None:
    line = " ".join(new_openskills.line([*MODEL, "--json", "hi"]))
    with ModelServer(["words " * 20_000]) as server:
        done = subprocess.run(
            ["bash", "-c", f"{line} | head -n 1; echo ${{PIPESTATUS[0]}}"],
            cwd=new_openskills.cwd,
            env=new_openskills.variables(server.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
        )
    assert done.stdout.splitlines()[-1] == b"1"
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
