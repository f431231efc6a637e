"""Apply safe fixes to the text of a SKILL.md."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import replace

from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Edit, Problem

_MAX_ROUNDS = 8


def apply_fixes(text: str, problems: Iterable[Problem]) -> tuple[str, tuple[Problem, ...]]:
    """Apply the fixes of these problems; returns the new text and the fixed problems.

    A fix is applied completely or not at all: it is skipped when one of its edits overlaps an earlier one. Fixes with
    exactly the same edits count as one.
    """
    taken: list[Edit] = []
    fixed: list[Problem] = []
    for problem in problems:
        edits = problem.fix.edits if problem.fix else ()
        fresh = [edit for edit in edits if edit not in _nearby_edits(taken, edit)]
        if edits and not any(_has_overlap(edit, other) for edit in fresh for other in _nearby_edits(taken, edit)):
            for edit in fresh:
                taken.insert(bisect_left(taken, _edit_order(edit), key=_edit_order), edit)
            fixed.append(problem)
    return _apply_edits(text, taken), tuple(fixed)


def apply_all_fixes(text: str, judge: Callable[[str], Iterable[Problem]]) -> tuple[str, tuple[Problem, ...]]:
    """Check and fix until nothing is left to fix, because one fix may enable another. Idempotent.

    A fix that would change the meaning of the file is not applied: the body and the manifest, except for the name, stay
    the same.
    """
    fixed: list[Problem] = []
    for _ in range(_MAX_ROUNDS):
        problems = tuple(judge(text))
        # If all fixes together change the meaning, the first that keeps it is applied, the others in the next round.
        for chosen in (problems, *((problem,) for problem in problems if problem.fix)):
            mended, now = apply_fixes(text, chosen)
            if mended != text and _has_same_meaning(text, mended):
                break
        else:
            break
        text = mended
        fixed += now
    return text, tuple(fixed)


def _has_same_meaning(text: str, other: str) -> bool:
    before, after = parse(text), parse(other)
    if before.manifest is None or after.manifest is None:
        return before.manifest is after.manifest
    return before.body == after.body and replace(before.manifest, name="") == replace(after.manifest, name="")


def _edit_order(edit: Edit) -> tuple[int, int]:
    return edit.start, edit.end


def _nearby_edits(taken: list[Edit], edit: Edit) -> list[Edit]:
    """The edits in `taken` that could overlap this one; they are sorted and do not overlap each other."""
    index = bisect_left(taken, _edit_order(edit), key=_edit_order)
    end = bisect_left(taken, (edit.end + 1, 0), key=_edit_order)
    return taken[max(0, index - 1) : end]


def _has_overlap(edit: Edit, other: Edit) -> bool:
    # An insertion at the edge of a replacement does not conflict; two insertions at one position do.
    same_place = edit.start == edit.end == other.start == other.end
    return same_place or (edit.start < other.end and other.start < edit.end)


def _apply_edits(text: str, edits: list[Edit]) -> str:
    pieces: list[str] = []
    position = 0
    for edit in edits:
        pieces += (text[position : edit.start], edit.replacement)
        position = edit.end
    return "".join((*pieces, text[position:]))
