"""What passes at a glance passes the rules."""

from hypothesis import example, given
from hypothesis import strategies as st

from openskills.skillmd.parse import parse
from openskills.skillmd.problem import select_errors
from openskills.skillmd.rules import MANIFEST_RULES, apply_rules, is_plainly_valid
from openskills.skillmd.rules.rule import Subject
from tests.skillmd.strategies import any_text, relaxed

CLEAN = "---\nname: pdf-tools\ndescription: Merge PDF files. Use when the user asks.\nmetadata:\n  a: b\n---\nDo it.\n"


def subject_of(text: str, folder: str = "pdf-tools") -> Subject | None:
    parsed = parse(text)
    return Subject(parsed, parsed.manifest, folder) if parsed.manifest else None


@relaxed
@given(any_text, st.sampled_from(["pdf-tools", "a", "x--y", ""]))
@example(CLEAN, "pdf-tools")
@example(CLEAN.replace("metadata:\n  a: b", "metadata: text"), "pdf-tools")
@example(CLEAN.replace("pdf-tools", "x--y"), "x--y")
@example(CLEAN.replace("pdf-tools", "'a '"), "a")
@example("---\nname: a\ndescription: [list]\n---\n", "a")
def test_what_passes_at_a_glance_has_no_error(text: str, folder: str) -> None:
    subject = subject_of(text, folder)
    if subject is not None and is_plainly_valid(subject):
        assert select_errors(apply_rules(subject, MANIFEST_RULES)) == ()


def test_an_ordinary_skill_passes_and_one_with_a_doubt_does_not() -> None:
    clean, doubtful = subject_of(CLEAN), subject_of(CLEAN.replace("metadata:\n  a: b", "license: [MIT]"))
    assert clean is not None
    assert doubtful is not None
    assert is_plainly_valid(clean)
    assert not is_plainly_valid(doubtful)
