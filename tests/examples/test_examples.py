"""Every example runs from an empty home and shows what it says that it shows."""

import re
from pathlib import Path

import pytest

from tests.examples.newcomer import EXAMPLES, Newcomer, below

NOT_RUN = {"gaia_dataset.py", "gaia_download.py", "scripted_chat_model.py", "scripted_server.py"}
"""Files that are not programs, but belong to one."""


def test_load_modes_differ_in_how_long_the_model_reads_the_instructions(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "load_modes.py")
    for mode, expected in (
        ("turn", ["reads", "reads", "does not read"]),
        ("once", ["reads", "does not read", "does not read"]),
        ("session", ["reads", "reads", "reads"]),
    ):
        *requests, transcript = below(f'SessionOptions(load_mode="{mode}")', printed)
        assert [re.sub(r".* the model (.*) the instructions\.", r"\1", line) for line in requests] == expected
        assert transcript == "The transcript keeps 'loaded: csv-report' and no more."


def test_profiles_give_different_tools_and_a_model_is_told_what_it_lacks(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "profiles.py")
    knowledge = "skill_load, skill_select_docs, skill_list_docs, skill_unload"
    assert printed[0].startswith("everything: 13 tools: ")
    assert printed[1] == f"knowledge: 4 tools: {knowledge}"
    assert printed[2] == "my-own-list: 3 tools: skill_load, skill_run, read_file"
    (refused,) = below("With knowledge_only", printed)
    assert refused.startswith("error: ")
    assert "skill_run is not available" in refused
    swapped, lacking = below("With my own list", printed)
    assert "did you mean skill_load?" in swapped
    assert "write_file is not available" in lacking
    assert "skill_run needs skill_load" in below("A list that can never work", printed)[0]
    assert below("Without an executor", printed) == [knowledge]


def test_agents_see_what_they_loaded_or_inherited_and_share_files(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "sub_agents.py")
    assert printed[:2] == ["The lead sees meeting-notes.", "The analyst sees csv-report."]
    assert "temp:skill:loaded_by_agent:lead/meeting-notes = 1" in below("What the session remembers", printed)
    assert "the analyst reads 'Begin with the sales of March.'" in below("Files belong", printed)[0]
    assert below("An editor", printed) == [
        "it begins with meeting-notes",
        "it unloads that and sees no skill; the lead still sees meeting-notes",
    ]


def test_a_command_is_talked_to_until_it_has_made_its_file(newcomer: Newcomer) -> None:
    assert newcomer.run(EXAMPLES / "interactive.py") == [
        "The command is running and asks 'Your name? '",
        "The command is running and asks 'Your company? '",
        "It needs input: True",
        "The command has exited with code 0.",
        r"It made workspace://out/badge.txt: 'Ada Lovelace, Analytical Engines\n'",
    ]


def test_artifacts_have_versions_and_a_picture_keeps_its_bytes(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "artifacts.py")
    assert [line.rpartition(" ")[2] for line in printed[:2]] == [
        "artifact://out/sales.md@0",
        "artifact://out/sales.md@1",
    ]
    assert [line.strip() for line in printed[2:5]] == [
        "artifact://out/sales.md@0 says: 1 rows, 2 columns.",
        "artifact://out/sales.md says: 2 rows, 2 columns.",
        "workspace://out/sales.md says: 2 rows, 2 columns.",
    ]
    assert "The picture is kept as artifact://out/logo.png@0; its bytes are the same." in printed
    assert "image/png, 264 bytes" in printed[7]
    assert printed[-1].endswith("artifact://out/note.txt@0")


def test_a_person_is_asked_unless_it_was_answered_before(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "approvals.py")
    asked = below("Asked before", printed)
    assert [line for line in asked if "wants to run" in line] == [
        "csv-report wants to run 'python3 scripts/report.py --help'. Yes, for the session.",
        "csv-report wants to run 'ls out'. Yes, once.",
        "csv-report wants to run 'ls out'. Yes, once.",
        "csv-report wants to run 'rm -r out'. No.",
    ]
    assert asked.count("-> it was run") == 4
    assert "(nothing is deleted without a backup)" in asked[-1]
    assert below("Not asked", printed) == ["-> it was run"]
    ran, refused = below("With restrict", printed)
    assert ran == "-> it was run"
    assert refused.startswith("-> error: 'ls out' is not allowed: 'markdown-links' may run")
    assert [line.rpartition(": ")[2] for line in below("The audit log", printed)] == [
        "allow_session",
        "remembered",
        "allow_once",
        "allow_once",
        "refused",
        "preapproved",
        "preapproved",
        "refused",
    ]


def test_the_official_client_takes_part_and_every_request_begins_with_the_one_before(newcomer: Newcomer) -> None:
    printed = newcomer.run(EXAMPLES / "openai_client.py")
    given = [line.removeprefix("    gives ") for line in printed if line.startswith("    gives ")]
    assert given[:2] == ["loaded: csv-report", "loaded: log-triage"]
    assert given[2].startswith('{"stdout":"# Report on sales.csv')
    assert "disk * is full" in given[3]
    assert '"selected_docs": ["references/types.md"]' in given[4]
    assert "Model: A column is numeric when every value that is there is a number." in printed
    requests = below("What a request begins with", printed)
    assert len(requests) == 4
    assert all(re.search(rf"begins with 100% of request {number}\.$", line) for number, line in enumerate(requests, 1))
    of_skills = [int(re.sub(r".* tokens, (\d+) of them .*", r"\1", line)) for line in requests]
    assert 0 < of_skills[0] == of_skills[2] < of_skills[3]


def test_the_table_of_the_examples_names_each_program_and_its_command() -> None:
    page = (EXAMPLES / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| \[(\S+)\]\((\S+)\) \| .+ \| `python examples/(\S+)` \|$", page, re.MULTILINE)
    programs = {path.name for path in EXAMPLES.glob("*.py")} - NOT_RUN
    assert {row[0] for row in rows} == programs
    assert all(len(set(row)) == 1 for row in rows)
    assert all(f"python examples/{name}" in (EXAMPLES / name).read_text("utf-8") for name in programs)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit(3)", "ended with 3"),
        ("import sys; print('careful', file=sys.stderr)", "careful"),
        ("open('notes.txt', 'w').close()", "left notes.txt"),
        ("import tempfile; tempfile.mkdtemp()", "left tmp/"),
    ],
)
def test_a_program_that_fails_complains_or_leaves_something_is_noticed(tmp_path: Path, code: str, said: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(code)
    with pytest.raises(AssertionError, match=said):
        Newcomer(tmp_path / "home").run(program)
