"""Questions of the GAIA benchmark are read in every form in which they are published, and scored by what they mean."""

import json
from pathlib import Path

import pytest

from examples.gaia_dataset import final_answer, is_right, load
from tests.examples.newcomer import EXAMPLES

ROW = {"task_id": "t", "Question": "Why?", "Level": "2", "Final answer": "42", "file_name": "a.csv"}


def test_questions_come_with_their_files_and_notes() -> None:
    questions = load(EXAMPLES / "gaia")
    assert [(question.task_id, question.level) for question in questions] == [
        ("made-0001", 1),
        ("made-0002", 1),
        ("made-0003", 2),
    ]
    assert [question.file.name if question.file else None for question in questions] == ["sales.csv", "app.log", None]
    assert all(question.file is None or question.file.is_file() for question in questions)
    assert questions[0].notes["Tools"] == "1. A spreadsheet"


@pytest.mark.parametrize("content", [[ROW], {"rows": [{"row_idx": 0, "row": ROW}]}], ids=["list", "viewer"])
def test_json_is_a_list_or_what_the_viewer_of_the_dataset_gives(tmp_path: Path, content: object) -> None:
    (tmp_path / "metadata.json").write_text(json.dumps(content))
    (question,) = load(tmp_path)
    assert (question.text, question.level, question.answer, question.notes) == ("Why?", 2, "42", {})
    assert question.file == tmp_path / "a.csv"


def test_an_answer_that_is_kept_secret_is_none_and_no_file_leads_out_of_the_folder(tmp_path: Path) -> None:
    secret = {**ROW, "Final answer": "?", "file_name": "../../etc/passwd"}
    (tmp_path / "metadata.jsonl").write_text(f"{json.dumps(secret)}\n\n")
    (question,) = load(tmp_path)
    assert question.answer is None
    assert question.file == tmp_path / "passwd"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("1,214.50", "1214.5"),
        ("$17", "17"),
        ("25 ", "25"),
        ("25%", "25"),
        (".5", "0.5"),
        ("-3.", "-3"),
        ("Saint Petersburg", "saint petersburg."),
        ("a; B", "A, b"),
        ("1.0, two", "1,Two"),
        ("北京", "北京。"),
    ],
)
def test_answers_that_mean_the_same_are_right(answer: str, expected: str) -> None:
    assert is_right(answer, expected)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("12", "1,2"),
        ("1, 2, 3", "1, 2"),
        ("2, 1", "1, 2"),
        ("seventeen", "17"),
        ("", "0"),
        ("", "17"),
        ("-3", "3"),
        ("Petersburg", "Saint Petersburg"),
        ("", "a, b"),
    ],
)
def test_answers_that_mean_something_else_are_wrong(answer: str, expected: str) -> None:
    assert not is_right(answer, expected)


def test_the_final_answer_stands_behind_its_last_mark() -> None:
    assert final_answer("FINAL ANSWER: 1? No.\nFINAL ANSWER: 2\n") == "2"
    assert final_answer(" 3 ") == "3"
