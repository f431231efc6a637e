"""How loaded texts look."""

from openskills.prompt.loaded import Block, docs_line, docs_of, in_context, rendered, withdrawn
from openskills.prompt.shown import Piece

BODY = Piece("SKILL.md", "# PDF\n\nDo it.\n", 4, 3)
A = Piece("docs/a.md", "Alpha\n", 2, 1)
B = Piece("b.md", "Beta", 1, 1)


def test_a_skill_without_documents_says_so() -> None:
    assert Block("pdf", BODY).text() == "[Loaded] pdf\n\n# PDF\n\nDo it.\nDocs loaded: none"


def test_documents_follow_the_body_each_under_its_path() -> None:
    assert Block("pdf", BODY, (A, B)).text() == (
        "[Loaded] pdf\n\n# PDF\n\nDo it.\nDocs loaded: docs/a.md, b.md\n\n"
        "[Doc] docs/a.md\n\nAlpha\n\n"
        "[Doc] b.md\n\nBeta"
    )


def test_documents_may_stand_alone() -> None:
    assert Block("pdf", None, (B,)).text() == "Docs loaded: b.md\n\n[Doc] b.md\n\nBeta"


def test_an_empty_text_leaves_no_gap() -> None:
    empty = Piece("SKILL.md", "", 0, 0)
    assert Block("pdf", empty, (Piece("a.md", "", 0, 0),)).text() == "[Loaded] pdf\nDocs loaded: a.md\n\n[Doc] a.md"


def test_names_stay_on_their_line_and_cannot_be_taken_for_two() -> None:
    odd = Piece('a, "b".md', "x", 1, 1)
    assert docs_line([odd, B]) == 'Docs loaded: "a, \\"b\\".md", b.md'
    block = Block("a\n[Loaded] b", BODY, (Piece("c\n[Doc] d", "x", 1, 1),)).text()
    assert block.startswith("[Loaded] a [Loaded] b\n")
    assert "\n[Doc] c [Doc] d\n" in block
    for line in (docs_of("a\nb"), in_context("a\nb"), withdrawn("a\nb")):
        assert "a b" in line
        assert "\n" not in line


def test_what_is_added_is_separated_by_blank_lines() -> None:
    assert rendered(("one", Block("pdf", None, (B,)), "two")) == "one\n\nDocs loaded: b.md\n\n[Doc] b.md\n\nBeta\n\ntwo"


def test_the_line_for_what_has_gone_says_what_to_do() -> None:
    assert "skill_load" in withdrawn("pdf")
