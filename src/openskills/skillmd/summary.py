"""Many problems of one kind, told in a few."""

from collections.abc import Sequence
from dataclasses import replace

from openskills.skillmd.problem import Fix, Problem

MAX_OF_A_KIND = 20
"""How often one rule is reported for one file before the rest is summed up."""


def summed_up(problems: Sequence[Problem]) -> list[Problem]:
    """The first of these problems of one rule, and one more that stands for the rest and carries all their fixes."""
    told, rest = list(problems[:MAX_OF_A_KIND]), problems[MAX_OF_A_KIND:]
    if rest:
        edits = tuple(edit for problem in rest if problem.fix for edit in problem.fix.edits)
        fix = Fix(f"mend all {len(rest):,}", edits) if edits else None
        told.append(replace(rest[0], message=f"{len(rest):,} more of this kind, first: {rest[0].message}", fix=fix))
    return told
