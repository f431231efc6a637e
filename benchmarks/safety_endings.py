"""What becomes of commands that do not want to end, leave something, or give too much: under ours and others."""

from collections import Counter
from collections.abc import Mapping

from report import Target
from running_part import NotMeasured, Part, Surroundings, plain_table
from safety_hosts import hosts, not_tried, subjects

LEAKED, HUNG = "leaked", "hung"

_ABOUT = """
Commands with a timeout of one second that try to survive it, a command that exits while a grandchild keeps its pipes
open, one that starts ten processes which try to survive it in different ways, one that writes 200 MB, and one that
fills its output directory with links to the outside and named pipes before its files are collected. *Hung*: no answer
within three seconds after the timeout, or after the end of the command. *Leaked*: a process of the command still ran
two seconds later, the host grew by more than 64 MB, or a file from outside was collected. Otherwise the case was
*held*. Cells are empty where a library does not collect files.
"""


async def measure(at: Surroundings) -> Part:
    """All subjects, one after the other."""
    ours, peers = subjects(at.extent)
    missing = not_tried(at.extent)
    found: dict[str, Mapping[str, str]] = {}
    with hosts() as running:
        for subject in (*ours, *peers):
            name = subject if isinstance(subject, str) else subject.name
            at.say(f"endings: {name}")
            try:
                found[name] = running.endings(subject)
            except NotMeasured as reason:
                missing.append(str(reason))
    targets = [_target(name, found.get(name), missing) for name in ours]
    return Part("Timeouts and cleanup", _ABOUT, targets, _table(found), missing=missing, raw={"cases": found})


def _target(name: str, cases: Mapping[str, str] | None, missing: list[str]) -> Target:
    value = None if cases is None else float(sum(one in (LEAKED, HUNG) for one in cases.values()))
    why = "; ".join(reason for reason in missing if reason.startswith(name))
    return Target(f"{name}: cases that leaked or hung", value, 0, at_least=False, unit="cases", digits=0, why=why)


def _table(found: Mapping[str, Mapping[str, str]]) -> str:
    cases = list(dict.fromkeys(case for by_case in found.values() for case in by_case))
    rows = [[case, *(_shown(by_case.get(case, "")) for by_case in found.values())] for case in cases]
    counts = [Counter(by_case.values()) for by_case in found.values()]
    rows.append(["held / leaked / hung", *(f"{one['held']} / {one[LEAKED]} / {one[HUNG]}" for one in counts)])
    return plain_table(["the command", *found], rows)


def _shown(ending: str) -> str:
    return f"**{ending}**" if ending in (LEAKED, HUNG) else ending
