"""A whole conversation on a real terminal: slash commands, skills by name, files, an interrupted run, resuming."""

from dataclasses import replace
from pathlib import Path

import pytest

from openskills.agent.models.model import ModelResponse, Usage
from openskills.testing.model_server import ModelServer
from openskills.testing.models import call_tools
from tests.cli.chatting import Chat
from tests.cli.command import Command
from tests.executors.wheels import wheel
from tests.skill_writer import WriteSkill

LOCAL = ("--executor", "local", "--yes", "--skills", "skills")
MODEL = ("--model", "openai/scripted", *LOCAL, "--session", "days")


@pytest.fixture(autouse=True)
def alpha(openskills: Command, write_skill: WriteSkill) -> Path:
    """A skill that waits for a file that nobody writes."""
    del openskills  # makes the directory in which the skill is written
    return write_skill("alpha", body="BODY OF ALPHA")


def running(command: str) -> ModelResponse:
    return call_tools(("skill_run", {"skill": "alpha", "command": command}))


def test_everything_that_can_be_typed_works_and_another_process_goes_on(openskills: Command) -> None:
    (openskills.cwd / "a.csv").write_text("1,2\n")
    counted = ModelResponse("Counted.", usage=Usage(1200, 40, 1000))
    answers = [
        running("cp inputs/a.csv out/copy.csv"),
        counted,
        running("echo begun > out/begun.txt; sleep 600"),
        "I was stopped before.",
        "Loaded for good.",
    ]
    with ModelServer(answers) as server, Chat(openskills, *MODEL, environment=server.environment) as chat:
        assert "session days; 1 skill" in chat.expect()
        assert "alpha" in chat.say("/skills")
        said = chat.say("/alpha copy @a.csv")
        assert "* skill_run alpha: cp inputs/a.csv out/copy.csv" in said
        assert "saved artifact://out/copy.csv@0" in said
        files = chat.say("/files")
        assert [name in files for name in ("work/inputs/a.csv", "out/copy.csv", "uploads/a.csv")] == [True] * 3
        assert "1,200 in (1,000 of them cached), 40 out" in chat.say("/tokens")
        assert "4 bytes in mine.csv" in chat.say("/save out/copy.csv mine.csv")
        chat.type("$alpha wait\n")
        chat.expect("* skill_run alpha: echo begun")
        chat.type("\x03")
        assert "stopped; the conversation continues" in chat.expect()
        assert "I was stopped before." in chat.say("and?")
        assert "alpha is loaded for all following messages" in chat.say("/load alpha")
        assert "Loaded for good." in chat.say("still there?")
        assert chat.say("/session").split("\n")[1] == "days"
        assert chat.end("/quit\n").code == 0
    assert (openskills.cwd / "mine.csv").read_text() == "1,2\n"
    bodies = ["BODY OF ALPHA" in str(request.body) for request in server.requests]
    assert bodies == [True, True, True, False, True]
    stopped = [message["content"] for message in server.requests[3].body["messages"] if message["role"] == "tool"]
    assert "interrupted" in stopped[-1]
    with (
        ModelServer(["Good morning."]) as server,
        Chat(openskills, *MODEL, environment=server.environment) as chat,
    ):
        assert "so far; 1 skill" in chat.expect()
        assert "1,200 in" in chat.say("/tokens")
        assert "Good morning." in chat.say("hello again")
        chat.end()
    sent = [message["content"] for message in server.requests[0].body["messages"] if message["role"] == "user"]
    assert [text.split("\n")[0] for text in sent] == [
        "Use the skill alpha: copy a.csv",
        "$alpha wait",
        "and?",
        "still there?",
        "hello again",
    ]


@pytest.mark.slow
def test_declared_packages_are_installed_when_the_user_allows_it(openskills: Command, alpha: Path) -> None:
    name, data = wheel("tiny", "1.0", "VERSION = '1.0'\n")
    wheels = alpha.parents[1] / "wheels"
    wheels.mkdir()
    (wheels / name).write_bytes(data)
    (alpha / "requirements.txt").write_text("tiny\n")
    say = 'python3 -c "import tiny; print(tiny.VERSION * 2)"'
    index = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    for install, came in (((), "ModuleNotFoundError"), (("--install", "always"), "1.01.0")):
        with ModelServer([running(say), "Done."]) as server:
            variables = {**index, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
            ran = replace(openskills, environment=variables)("chat", *MODEL, *install, "$alpha say")
        assert ran.code == 0
        assert came in str(server.requests[-1].body["messages"][-1]["content"])


KEYED = 'metadata: {"openclaw": {"requires": {"env": ["ALPHA_KEY"]}}}\ncompatibility: Needs a key\n'
SHOW = running("echo key=${#ALPHA_KEY}. colour=$COLOUR.")


def results(server: ModelServer) -> list[str]:
    return [message["content"] for message in server.requests[-1].body["messages"] if message["role"] == "tool"]


def test_a_declared_variable_is_asked_for_when_the_skill_is_loaded_and_the_model_is_told(
    openskills: Command, write_skill: WriteSkill
) -> None:
    write_skill("alpha", front=KEYED)
    load = call_tools(("skill_load", {"skill": "alpha"}))
    question = "The skill alpha needs the variable ALPHA_KEY. Pass it on to its commands? [y/N] "
    for answer, told, length in (
        ("n", "requires: variables ALPHA_KEY; not granted, so commands do not have it: ALPHA_KEY", 0),
        ("y", "requires: variables ALPHA_KEY", 7),
    ):
        with (
            ModelServer([load, SHOW, "Done."]) as server,
            Chat(openskills, *MODEL[:-1], answer, environment={**server.environment, "ALPHA_KEY": "hunter2"}) as chat,
        ):
            chat.expect()
            chat.type("go\n")
            chat.expect(question)
            chat.type(f"{answer}\n")
            chat.expect("Done.")
            chat.expect()
            chat.end()
        loaded, ran = results(server)
        assert loaded.splitlines()[:3] == ["loaded: alpha", told, "compatibility: Needs a key"]
        assert f"key={length}." in ran
        assert "hunter2" not in str(server.requests[-1].body)
        (openskills.home / ".local/state/openskills/grants/secrets.json").unlink()


def test_options_and_the_project_file_apply_to_commands_of_a_chat(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", front=KEYED)
    (openskills.cwd / "openskills.toml").write_text('[skills.alpha]\ntimeout = 300\nenvironment = { COLOUR = "red" }\n')

    def ask(*options: str, script: ModelResponse = SHOW) -> tuple[str, str]:
        with ModelServer([script, "Done."]) as server:
            variables = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "ALPHA_KEY": "hunter2"}
            ran = replace(openskills, environment=variables)("chat", *MODEL[:-2], *options, "$alpha go")
            assert ran.code == 0, ran.err
            return results(server)[-1], ran.err

    told, err = ask()
    assert "key=0. colour=." in told
    assert "openskills.toml: not trusted yet" in err
    assert "alpha needs ALPHA_KEY, which was not granted; allow it with --secret ALPHA_KEY" in err
    told, err = ask("--secret", "ALPHA_KEY", "--trust")
    assert "key=7. colour=red." in told
    assert "not granted" not in err
    assert "colour=blue." in ask("--env", "COLOUR=blue", "--trust")[0]
    slow = call_tools(("skill_run", {"skill": "alpha", "command": "sleep 60"}))
    assert (
        "timed out after 0.2 s; do less per call; the user granted at most 0.2 s"
        in ask("--timeout", "0.2", "--trust", script=slow)[0]
    )


def test_wrong_options_are_refused_before_the_chat_begins(openskills: Command) -> None:
    for options, message in (
        (("--network", "a b"), "network: invalid host name 'a b'"),
        (("--secret", "NOT_SET"), "--secret: no value for NOT_SET; set it in your environment"),
        (("--env", "A"), "--env: invalid assignment 'A'; use NAME=VALUE"),
        (("--env", "LD_PRELOAD=x"), "environment: LD_PRELOAD changes which code programs load"),
        (("--timeout", "soon"), "--timeout: invalid duration 'soon'; use 90s, 15m, 24h or 7d"),
        (("--timeout", "0"), "--timeout: invalid number of seconds: 0"),
    ):
        for command in (("chat", "hi", *LOCAL), ("serve", "--port", "0"), ("run", "alpha", "skills")):
            ran = openskills(*command, *options, *(("--", "true") if command[0] == "run" else ()))
            assert (ran.code, message in ran.err) == (2, True), (command, ran.err)


def test_a_skill_is_not_hidden_if_the_variable_that_it_requires_is_granted(
    openskills: Command, write_skill: WriteSkill
) -> None:
    write_skill("alpha", front=KEYED)
    for options, skills in (((), "0 skills"), (("--env", "ALPHA_KEY=x"), "1 skill")):
        with ModelServer(["Done."]) as server:
            variables = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
            ran = replace(openskills, environment=variables)(
                "chat", "--model", "openai/scripted", "--executor", "none", *options, "go", SKILLS_ROOT="skills"
            )
        assert skills in ran.err
