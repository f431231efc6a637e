"""Which documents a model means."""

from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.session.changes import ALL
from openskills.tools.documents import checked_docs
from tests.tools.contexts import skills_in, write_skill


def test_each_document_counts_once_and_parts_by_lines_are_documents(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {"a.md": "A"})
    skill = skills_in(tmp_path).get("demo")
    assert checked_docs(skill, ["a.md", "./a.md", "a.md#L3-L5", "SKILL.md#L9"]) == ("a.md", "a.md#L3-L5", "SKILL.md#L9")
    assert checked_docs(skill, None) is None
    assert checked_docs(skill, []) == ()
    assert checked_docs(skill, ["a.md", "*"]) == (ALL,)
    assert checked_docs(skill, None, include_all=True) == (ALL,)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("SKILL.md", "skill_load itself"),
        ("scripts/go.py", "skill://demo/scripts/go.py"),
        ("b.md", r"did you mean 'deep/b.md'"),
        ("../../etc/passwd", "it has a.md, deep/b.md"),
        ("nothing-like-it", "it has a.md"),
        ("", "it has a.md"),
    ],
)
def test_what_is_no_document_is_refused_with_what_to_do(tmp_path: Path, wanted: str, said: str) -> None:
    write_skill(tmp_path, "demo", {"a.md": "A", "deep/b.md": "B", "scripts/go.py": ""})
    with pytest.raises(InvalidArgument, match=said):
        checked_docs(skills_in(tmp_path).get("demo"), [wanted])


def test_a_skill_without_documents_says_so(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo")
    with pytest.raises(InvalidArgument, match="it has none"):
        checked_docs(skills_in(tmp_path).get("demo"), ["a.md"])


def test_of_many_documents_a_few_are_named(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {f"{number:02}.md": "" for number in range(30)})
    with pytest.raises(InvalidArgument, match="and 20 more; see skill_list_docs"):
        checked_docs(skills_in(tmp_path).get("demo"), ["nothing-like-it"])
