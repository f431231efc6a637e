"""`route`: the skill for a request, with the reason; and with `--invoke` its result."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.command import Command
from tests.host.scripted_server import Reply, Request, Scripted, as_json, failure, normal, scripted
from tests.skill_writer import WriteSkill

SKILLS = [
    {"id": "echo", "description": "Gives a text back.", "status": "ready"},
    {"id": "calculator", "description": "Statistics of numbers.", "status": "ready"},
    {
        "id": "invoice_pdf",
        "description": "Makes an invoice.",
        "status": "ready",
        "input_schema": {"required": ["customer", "items"]},
    },
    {"id": "broken_invoice", "description": "Makes an invoice, too.", "status": "broken"},
]


@pytest.fixture
def hosted(openskills: Command) -> Iterator[Scripted]:
    """A host with some skills that the command finds through the environment."""
    with scripted() as script:
        openskills.environment["OPENSKILL_HTTP_BASE_URL"] = script.url
        script.on("GET /skills", as_json(normal(data={"skills": SKILLS})))
        yield script


def computing(request: Request) -> Reply:
    return as_json(normal(skill_id="calculator", data=request.input, trace_id=request.headers["x-trace-id"]))


def test_a_rule_decides_and_says_by_which_word(openskills: Command, hosted: Scripted) -> None:
    ran = openskills("route", "mean of 1 and 2")
    assert (ran.code, ran.out, ran.err) == (0, "calculator\trule:mean\n", "")


def test_json_has_the_fields_of_the_document_and_the_input(openskills: Command, hosted: Scripted) -> None:
    ran = openskills("route", "mean of 1 and 2", "--json", "--trace-id", "demo-1")
    assert ran.json == {
        "selected_skill_id": "calculator",
        "routing_reason": "rule:mean",
        "trace_id": "demo-1",
        "understood": True,
        "hosted": True,
        "near": [],
        "notes": [],
        "input": {"numbers": [1, 2], "ops": ["mean"]},
        "missing": {},
        "available": ["echo", "calculator", "invoice_pdf"],
    }


def test_skills_of_the_host_are_searched_and_broken_ones_are_not(openskills: Command, hosted: Scripted) -> None:
    assert openskills("route", "make an invoice").out == "invoice_pdf\tsearch\n"


def test_skill_folders_are_searched_last(openskills: Command, hosted: Scripted, write_skill: WriteSkill) -> None:
    write_skill("brand-voice", "Writes press releases in the tone of the company.", under="home/.agents/skills")
    ran = openskills("route", "write a press release for the company")
    assert ran.out == "brand-voice\tcatalog\n"
    ran = openskills("route", "write a press release for the company", "--invoke")
    assert ran.code == 2
    assert "cannot be invoked" in ran.err


def test_a_request_without_a_match_goes_to_echo_with_a_note(openskills: Command, hosted: Scripted) -> None:
    ran = openskills("route", "good morning")
    assert (ran.code, ran.out) == (0, "echo\tdefault\n")
    assert "not understood" in ran.err
    assert "echo: TEXT" in ran.err
    assert "echo, calculator, invoice_pdf" in ran.err


def test_without_a_host_rules_decide_with_a_note(openskills: Command) -> None:
    ran = openskills("route", "mean of 1 and 2", "--url", "http://127.0.0.1:1")
    assert (ran.code, ran.out) == (0, "calculator\trule:mean\n")
    assert "cannot connect to a skill host" in ran.err
    ran = openskills("route", "mean of 1 and 2", "--invoke", "--url", "http://127.0.0.1:1")
    assert (ran.code, ran.out) == (1, "")


def test_what_the_text_says_is_invoked(openskills: Command, hosted: Scripted) -> None:
    hosted.on_invoke(computing, skill="calculator")
    ran = openskills("route", "比较 10 和 12", "--invoke", "--trace-id", "demo-2")
    assert ran.code == 0
    assert ran.json == {"numbers": [10, 12], "ops": ["min", "max"], "compare": {"a": 10, "b": 12}}
    assert ran.err.startswith("routed to calculator: the text says '比较'\ninput: {")
    assert [one.headers["x-trace-id"] for one in hosted.requests] == ["demo-2", "demo-2"]


def test_what_the_text_does_not_say_is_asked_for(openskills: Command, hosted: Scripted) -> None:
    ran = openskills("route", "mean of 10kg", "--invoke")
    assert (ran.code, ran.out) == (2, "")
    assert "numbers: '10kg' is not a plain number" in ran.err
    assert len(hosted.requests) == 1


def test_the_input_of_a_skill_that_was_searched_for_is_not_guessed(openskills: Command, hosted: Scripted) -> None:
    ran = openskills("route", "make an invoice", "--invoke")
    assert ran.code == 2
    assert "(customer, items) from text; use: openskills invoke invoice_pdf --input" in ran.err


def test_the_default_is_invoked_with_the_whole_text(openskills: Command, hosted: Scripted) -> None:
    hosted.on_invoke(lambda request: as_json(normal(data={"echoed": request.input["text"]})))
    ran = openskills("route", "good morning", "--invoke")
    assert (ran.code, ran.json) == (0, {"echoed": "good morning"})
    assert "not understood" in ran.err


def test_a_skill_that_fails_is_the_exit_code(openskills: Command, hosted: Scripted) -> None:
    hosted.on_invoke(failure(500, "boom"), skill="calculator")
    ran = openskills("route", "mean of 1 and 2", "--invoke", "--json")
    assert (ran.code, ran.json["error"]["message"]) == (1, "boom")


def test_debug_mode_prints_the_log_record(openskills: Command, hosted: Scripted) -> None:
    ran = openskills("route", "mean of 1 and 2", "--trace-id", "demo-3", OPENSKILL_DEBUG="1")
    line = json.loads(ran.err)
    assert (line["trace_id"], line["selected_skill_id"], line["routing_reason"]) == (
        "demo-3",
        "calculator",
        "rule:mean",
    )


def test_on_a_terminal_the_reason_is_a_sentence(openskills: Command, hosted: Scripted) -> None:
    ran = openskills.on_terminal("route", "mean of 1 and 2")
    assert ran.lines == ["calculator  the text says 'mean'"]


def test_a_missing_key_is_reported(openskills: Command, hosted: Scripted) -> None:
    hosted.on("GET /skills", failure(401, "a key is needed"))
    ran = openskills("route", "mean of 1 and 2")
    assert ran.code == 1
    assert "OPENSKILL_API_KEY" in ran.err


def test_an_empty_text_is_wrong_usage(openskills: Command, hosted: Scripted) -> None:
    assert openskills("route", " ").code == 2
