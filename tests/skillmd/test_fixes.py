import re
from dataclasses import replace

import pytest
from hypothesis import example, given

from openskills.skillmd.fixes import apply_all_fixes, apply_fixes
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Edit, Fix, Problem
from openskills.skillmd.rules import lint_skill
from tests.skillmd.strategies import damaged_files, relaxed


def judged(text: str, folder: str = "pdf-tools") -> tuple[Problem, ...]:
    return lint_skill(parse(text), folder, {})


def settled(text: str, folder: str = "pdf-tools") -> tuple[str, tuple[Problem, ...]]:
    return apply_all_fixes(text, lambda now: judged(now, folder))


def edited(rule: str, *edits: Edit) -> Problem:
    return Problem(rule, "found", fix=Fix("mend", edits))


def without_name(manifest: SkillManifest | None) -> SkillManifest | None:
    return replace(manifest, name="") if manifest else None


@relaxed
@given(damaged_files())
@example("---\nname: Pdf_Tools\ndescription: a: b\nmetadata:\n  v: 1.0\n  w: x: y\n---\nBody")
@example(
    "---\r\nname: 'pdf_tools\r\ndescription: one\r\n\r\ntwo: three\r\nallowed-tools:\r\n  - Read\r\n---\r\nBody\r\n"
)
@example("---\nname: x\n\tdescription: a\n---\n")
@example("---\ndescription: |\n  a\n b\n\n c: d\n---\n")
@example(
    "---\nname: pdf-tools\ndescription: a\nallowed-tools: [\n  Read,\n  'Bash(git:*)'\n]\nlicense: 2026-01-01\n---\n"
)
def test_mending_changes_nothing_but_the_name_and_twice_is_once(text: str) -> None:
    mended, fixed = settled(text)
    before, after = parse(text), parse(mended)
    assert without_name(after.manifest) == without_name(before.manifest)
    assert after.body == before.body
    assert bool(fixed) == (mended != text)
    assert settled(mended) == (mended, ())


@relaxed
@given(damaged_files())
def test_no_error_appears_that_was_not_there_before_mending(text: str) -> None:
    mended, _ = settled(text)
    before = {problem.rule for problem in judged(text)}
    assert {problem.rule for problem in judged(mended)} <= before


@relaxed
@given(damaged_files())
def test_a_file_with_one_kind_of_line_end_keeps_it(text: str) -> None:
    crlf = re.sub(r"\r\n|\r|\n", "\r\n", text)
    mended, _ = settled(crlf)
    assert not re.search(r"(?<!\r)\n|\r(?!\n)", mended)


def test_fixes_are_applied_from_wherever_they_come_and_reported() -> None:
    problems = (edited("b", Edit(4, 5, "Y")), Problem("c", "nothing to do"), edited("a", Edit(0, 1, "X")))
    assert apply_fixes("a b c d", problems) == ("X b Y d", (problems[0], problems[2]))


def test_of_two_fixes_that_overlap_the_first_is_applied_and_the_other_left_out_whole() -> None:
    first, second = edited("a", Edit(2, 6, "x")), edited("b", Edit(0, 1, "y"), Edit(5, 7, "z"))
    assert apply_fixes("0123456789", (first, second)) == ("01x6789", (first,))


def test_two_problems_with_the_same_fix_are_both_mended_by_it() -> None:
    first, second = edited("a", Edit(0, 2, "x")), edited("b", Edit(0, 2, "x"))
    assert apply_fixes("0123", (first, second)) == ("x23", (first, second))


def test_an_insertion_stands_before_what_is_replaced_at_its_place() -> None:
    replaced, inserted, another = (
        edited("a", Edit(2, 4, "x")),
        edited("b", Edit(2, 2, "+")),
        edited("c", Edit(2, 2, "-")),
    )
    assert apply_fixes("012345", (replaced, inserted, another)) == ("01+x45", (replaced, inserted))
    assert apply_fixes("012345", (edited("a", Edit(1, 4, "x")), inserted))[0] == "0x45"


def test_many_fixes_are_applied_in_one_pass() -> None:
    text = "ab" * 5_000
    problems = [edited("a", Edit(at, at + 1, "X")) for at in range(0, len(text), 2)]
    assert apply_fixes(text, reversed(problems))[0] == "Xb" * 5_000


def test_a_careless_file_becomes_a_sound_one() -> None:
    text = """\ufeff
---
name: PDF_Tools
description: Merge PDF files: all of them.

Use when the user asks for it.
license: MIT
metadata:
  version: 1.0
  released: 2026-01-01
  note: see: the manual
allowed-tools:
  - Read
  - Bash(git commit *)
---
Body.
"""
    mended, fixed = settled(text)
    assert (
        mended
        == """---
name: pdf-tools
description: |-
  Merge PDF files: all of them.
  Use when the user asks for it.
license: MIT
metadata:
  version: "1.0"
  released: "2026-01-01"
  note: "see: the manual"
allowed-tools: Read Bash(git commit *)
---
Body.
"""
    )
    assert {problem.rule for problem in fixed} == {
        *("text-bom", "frontmatter-first-line", "yaml-unquoted", "name-uppercase", "name-characters", "name-folder"),
        *("metadata-value-type", "allowed-tools-list"),
    }
    assert judged(mended) == ()


def test_two_faults_at_once_cost_a_map_neither_its_pairs_nor_its_shape() -> None:
    text = '---\nname: x\ndescription: one: two. Use when x.\nmetadata:\n\tversion: "1.0"\n\tauthor: me\n---\nbody\n'
    before = parse(text).manifest
    mended, _ = apply_all_fixes(text, lambda draft: lint_skill(parse(draft), "x"))
    parsed = parse(mended)
    assert parsed.manifest == before
    assert parsed.manifest is not None
    assert parsed.manifest.metadata == {"version": "1.0", "author": "me"}
    assert parsed.problems == ()


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("---\nname: |\n  Pdf_Tools\ndescription: Merge PDF files. Use when asked.\n---\nB\n", "pdf-tools"),
        ("---\n\ufeffname: foo\ndescription: Use when asked to do a thing.\nlicense: 1.0\n---\nB\n", "foo"),
        ("---\nname: foo\ndescription: Use when asked.\nallowed-tools: [Read, Write]# c\n---\nB\n", "foo"),
        ("---\nname: foo\ndescription: Use when asked.\nmetadata:\nAuthor: a: b\n---\nB\n", "foo"),
        ('---\nname: foo\ndescription: x\nmetadata: {"a": "\\ud83d\\udcc4 b", "c": {"bins": ["d"]}}\n---\nB\n', "foo"),
    ],
    ids=["block-name", "inner-byte-order-mark", "glued-comment", "pairs-of-nobody", "surrogates"],
)
def test_no_fix_changes_what_an_odd_file_means(text: str, folder: str) -> None:
    before = parse(text).manifest
    assert before is not None
    mended, _ = apply_all_fixes(text, lambda draft: lint_skill(parse(draft), folder))
    after = parse(mended).manifest
    assert after is not None
    assert replace(after, name="") == replace(before, name="")


def test_a_fix_that_would_change_the_meaning_is_left_out_and_the_others_are_applied() -> None:
    text = "\ufeff---\nname: foo\ndescription: Use when asked.\n---\nB\n"
    liar = Problem("liar", "wrong", line=3, fix=Fix("harmless", (Edit(text.index("Use"), text.index("asked"), ""),)))
    mended, fixed = apply_all_fixes(
        text, lambda draft: (liar, *lint_skill(parse(draft), "foo")) if draft == text else ()
    )
    assert mended == text.removeprefix("\ufeff")
    assert [problem.rule for problem in fixed] == ["text-bom"]
