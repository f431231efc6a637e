"""A typed line is an order or words; skills and files are found in words, and nothing else is taken for one."""

import pytest

from openskills.cli.chat_words import Order, Sent, files_in, first_unknown_skill, order_in, skills_in, words_in

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
        ("/help", Order("help")),
        ("  /load  csv-report a.md ", Order("load", "csv-report a.md")),
        ("/", Order("")),
        ("/csv-report what\nis this", Order("csv-report", "what\nis this")),
        ("/表格 看", Order("表格", "看")),
    ],
)
def test_a_slash_and_a_name_are_an_order(line: str, order: Order) -> None:
    assert order_in(line) == order


@pytest.mark.parametrize("line", ["hello", "/etc/hosts is what?", "/a.txt", "//help", "what does /help do", ""])
def test_paths_and_other_words_are_no_order(line: str) -> None:
    assert order_in(line) is None


def test_two_slashes_are_one_that_is_meant() -> None:
    assert (words_in(" //help me "), words_in("/etc/hosts")) == ("/help me", "/etc/hosts")


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
    assert skills_in(text, known) == skills


def test_only_at_the_beginning_an_unknown_name_is_suspicious() -> None:
    assert first_unknown_skill("$pdff it", known) == "pdff"
    assert first_unknown_skill("$pdf it", known) is None
    assert first_unknown_skill("take $pdff", known) is None


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("What is in @sales.csv?", Sent("What is in sales.csv?", ("sales.csv",))),
        ("(@sales.csv)", Sent("(sales.csv)", ("sales.csv",))),
        ("看看@sales.csv里有什么", Sent("看看sales.csv里有什么", ("sales.csv",))),
        ("看看@sales.csv。", Sent("看看sales.csv。", ("sales.csv",))),
        ("@sales.csv, @sales.csv!", Sent("sales.csv, sales.csv!", ("sales.csv",))),
        ('@"data/my file.csv" please', Sent("my file.csv please", ("data/my file.csv",))),
        ("@notes.", Sent("notes.", ("notes.",))),
        ("看 @～表.csv。", Sent("看 ～表.csv。", ("～表.csv",))),
        ("@ alone, me@sales.csv, thanks @ada", Sent("@ alone, me@sales.csv, thanks @ada")),
        ("@slaes.csv or @no/where", Sent("@slaes.csv or @no/where", (), ("slaes.csv", "no/where"))),
        ('@"not there"', Sent('@"not there"', (), ("not there",))),
    ],
)
def test_files_are_named_with_an_at_sign_and_stand_in_the_text_by_their_names(text: str, sent: Sent) -> None:
    assert files_in(text, FILES.get) == sent
