"""Files that are no use, in few words."""

from openskills.tools.upload_problems import MOST, Problems


def test_files_with_one_reason_are_one_sentence() -> None:
    problems = Problems()
    assert problems.sentences() == ()
    problems.add("a", "it is late")
    assert problems.sentences() == ("a of the conversation is not there: it is late",)
    for name in "bcde":
        problems.add(name, "it is late")
    problems.add("f", "it is early")
    assert problems.sentences() == (
        "a, b, c and 2 more of the conversation are not there: it is late",
        "f of the conversation is not there: it is early",
    )


def test_of_many_reasons_only_some_are_told_and_the_other_files_are_counted() -> None:
    problems = Problems()
    for number in range(MOST + 5):
        problems.add(f"{number}", f"reason {number}")
        problems.add(f"{number}", f"reason {number}")
    sentences = problems.sentences()
    assert len(sentences) == MOST + 1
    assert sentences[-1] == "10 more files of the conversation are not there"
