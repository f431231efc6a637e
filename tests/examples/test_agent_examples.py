"""Every example with an agent runs from an empty home and shows what it says that it shows."""

import shutil
from pathlib import Path

from tests.container_engine import TestEngine
from tests.examples.newcomer import EXAMPLES, Newcomer, below

NO_ENGINE = {"DOCKER_HOST": "unix:///nowhere/engine.sock"}


def test_an_agent_makes_a_report_and_goes_on_after_its_program_began_again(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "agent.py", new=True)
    assert printed[0] == "User: Make a report of sales.csv, please."
    called = below("User:", printed) + below("[attached", printed)
    assert called[:2] == ['skill_load {"skill": "csv-report"}', "gives loaded: csv-report"]
    assert "keeps artifact://out/report.md@0" in called
    assert "    2 rows, 2 columns." in printed
    assert "It took 3 answers of the model and 2 calls of tools." in printed
    again = below("The program ends here", printed)
    assert again[0] == "Without the file being sent again, the agent makes artifact://out/report.md@1."


def test_a_conversation_at_the_terminal_goes_on_until_nothing_is_written(newcomer: Newcomer, tmp_path: Path) -> None:
    table = tmp_path / "sales.csv"
    table.write_text("month,amount\n2026-01,12\n")
    asked = "Make a report of sales.csv\nConvert 5 miles to km with math\n\nnever read\n"
    printed = newcomer.run(EXAMPLES / "chat.py", table, typed=asked)
    assert printed[0] == '> [skill_load {"skill": "csv-report"}]'
    assert "    1 rows, 2 columns." in printed
    assert "    5 mile = 8.04672 km" in printed
    assert printed[-1] == "> Goodbye."


def test_a_user_notices_nothing_of_a_server_that_has_a_bad_day(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "agent_openai.py")
    assert printed[1] == "Model: A marathon has 42.2 kilometres."
    loaded, nonsense, run = below("What the model was told", printed)
    assert loaded == "skill_load: loaded: math"
    assert nonsense.startswith("skill_run: error: arguments: not valid JSON")
    assert "26.2 mile = 42.1648128 km" in run
    assert printed[-2:] == [
        "The agent got 4 answers with 6 requests.",
        "It cost 2400 tokens, 2100 of them from the prompt cache.",
    ]


def test_a_team_shares_its_files_and_not_what_each_has_loaded(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "agent_team.py")
    who = [line.partition(":")[0] for line in printed if ": " in line][:11]
    assert who == [*["lead", *["analyst"] * 3], *["lead", *["writer"] * 3], "lead", "lead.apology", "lead"]
    assert below("Instructions that were", printed) == ["lead: none", "analyst: log-triage", "writer: meeting-notes"]


def test_a_hook_of_the_store_keeps_the_latest_three_skills(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "session_hook.py")
    assert printed[2:6] == [
        "loaded: math",
        "loaded: markdown-links, evicted: csv-report",
        "loaded: csv-report, evicted: log-triage",
        "loaded: text-tools, evicted: math",
    ]
    latest = ["markdown-links", "csv-report", "text-tools"]
    assert below("The model sees", printed) == [f"[Loaded] {skill}" for skill in latest]
    remembered = below("The session remembers", printed)
    assert remembered == [
        *(f"temp:skill:loaded_by_agent:reader/{skill} = 1" for skill in sorted(latest)),
        'temp:skill:loaded_order_by_agent:reader = ["markdown-links","csv-report","text-tools"]',
    ]


def test_a_summary_takes_the_place_of_a_history_and_not_of_a_skill(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "summary.py")
    restored = below('SessionOptions(when_lost="restore")', printed)
    unloaded = below('SessionOptions(when_lost="unload")', printed)
    assert restored[0] == unloaded[0]
    assert restored[0].startswith("system: 'Summary of the conversation so far:")
    assert "(the instructions)" in restored[1]
    assert "[Unloaded] text-tools" in unloaded[1]
    assert restored[-1] == "The model still reads the instructions of text-tools."
    assert unloaded[-1] == "The model does not read the instructions of text-tools."


def test_an_answer_gets_the_shape_that_its_skill_asks_for_with_one_more_try(newcomer: Newcomer) -> None:
    printed = [line.strip() for line in newcomer.run(EXAMPLES / "structured_output.py")]
    assert '/total: "19,90" is not of type "number". /currency: "Euro" is not one of "EUR", "USD" or "CNY".' in printed
    assert "A program has total = 19.9, currency = 'EUR'." in printed
    assert "That is not JSON." in printed
    assert printed[-1] == "A program has name = 'Ada Lovelace', mail = 'ada@example.org'."


def test_questions_over_files_are_answered_with_what_commands_print(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "gaia.py")
    said = [line.strip() for line in printed if "The agent says" in line]
    assert said == [
        "The agent says '1214.5': right.",
        "The agent says 'disk * is full': right.",
        "The agent says '1.75, 3.25': right.",
    ]
    assert printed[-1] == "3 of 3 answers are right."


def test_an_answer_to_a_question_that_is_not_the_expected_one_is_wrong(newcomer: Newcomer, tmp_path: Path) -> None:
    data = shutil.copytree(EXAMPLES / "gaia", tmp_path / "data")
    questions = (data / "metadata.jsonl").read_text("utf-8")
    (data / "metadata.jsonl").write_text(questions.replace("1.75, 3.25", "1.75, 3.5"), "utf-8")
    printed = newcomer.run(EXAMPLES / "gaia.py", "--data", data, "--level", "2")
    assert printed[1] == "  The agent says '1.75, 3.25': wrong, it is 1.75, 3.5."
    assert printed[-1] == "0 of 1 answers are right."


def test_a_skill_runs_in_a_container_where_there_is_an_engine(newcomer: Newcomer, container_engine: TestEngine) -> None:
    there = {"DOCKER_HOST": container_engine.address, "OPENSKILL_CONTAINER_IMAGE": container_engine.image}
    printed = newcomer.run(EXAMPLES / "containers.py", variables=there)
    assert printed[:2] == [
        "A container engine answers, and gives the isolation container.",
        "An agent made artifact://out/report.md@0 in a container.",
    ]
    around = below("A look around", printed)
    assert len(around) == 4
    assert all(line.endswith(": true.") for line in around)


def test_without_a_container_engine_nothing_is_run_and_a_sentence_says_why(newcomer: Newcomer) -> None:
    (printed,) = newcomer.run(EXAMPLES / "containers.py", variables=NO_ENGINE)
    engine = "the container engine at unix:///nowhere/engine.sock"
    assert printed.startswith(f"No command was run: {engine} does not respond")
