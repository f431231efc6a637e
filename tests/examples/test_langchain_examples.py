"""The examples about LangChain do what they say."""

from tests.examples.newcomer import EXAMPLES, Newcomer


def test_an_agent_runs_a_skill_keeps_a_file_and_goes_back_to_what_was_loaded(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "langchain_agent.py")
    assert printed[0] == "skill_load: loaded: csv-report"
    assert printed[2:] == [
        "  kept artifact://out/report.md@0",
        "The agent says: One month has no amount; the report is ready.",
        "Loaded: csv-report",
        "After the next turn: nothing",
        "Back where the first turn ended: csv-report",
    ]


def test_a_deep_agent_loads_and_unloads_with_the_same_prompt(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "langchain_deep_agent.py")
    assert printed[-2:] == ["Loaded: text-tools", "The prompt of all 4 requests was the same."]


def test_a_person_says_no_to_one_command_and_yes_to_another(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "langchain_approval.py")
    assert printed[:2] == [
        "May I run 'rm -rf work'? No: nothing is to be removed.",
        "May I run 'wc -l SKILL.md'? Yes.",
    ]
    assert printed[2].startswith("error: error: 'rm -rf work' was not approved (nothing is to be removed)")
    assert printed[3].startswith("success: ")
