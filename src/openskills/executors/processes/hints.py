"""Whether a running command seems to wait for somebody to type something. Pure: it judges what was printed."""

import re
from dataclasses import dataclass
from typing import Literal

WINDOW = 16 * 1024
"""How much of the end of the output is looked at, in characters, whatever came before."""

_MENU_LINES = 40
_SHOWN = 200
# Every part may stand alone, so that a sequence that never ends is no reason to look at it twice.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links, the clipboard
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CHOICE = re.compile(r"\s{0,8}\d{1,3}[.)](?!\d)")
_SELECTIONS = ("enter the number", "choose a number", "select a number")
_REQUESTS = ("press enter", "type your")
_ENDS = (":", "?")
# These end ordinary lines, too, so they count only on a line that is not finished.
_OPEN_ENDS = ("[y/n]", "(y/n)", "(yes/no)", "[yes/no]", "> ", "$ ", "# ")


@dataclass(frozen=True, slots=True)
class Interaction:
    """It seems to wait for input: for a choice from a list, or for an answer. `hint` is the line that says so."""

    kind: Literal["selection", "prompt"]
    hint: str
    needs_input: bool = True


def interaction(output: str) -> Interaction | None:
    """What a command waits for that has printed `output` since it was last given something, and still runs."""
    lines = _shown_lines(output[-WINDOW:])
    spoken = [line for line in lines if line.strip()]
    if not spoken:
        return None
    last = spoken[-1]
    kind = _kind(spoken, unfinished=lines[-1] is last)
    return Interaction(kind, last.strip()[:_SHOWN]) if kind else None


def _kind(spoken: list[str], *, unfinished: bool) -> Literal["selection", "prompt"] | None:
    last = spoken[-1].lower()
    choices = sum(1 for line in spoken[-_MENU_LINES:] if _CHOICE.match(line))
    if choices > 1 or any(words in last for words in _SELECTIONS):
        return "selection"
    if last.rstrip().endswith(_ENDS) or any(words in last for words in _REQUESTS):
        return "prompt"
    if unfinished and (last.endswith(_OPEN_ENDS) or last.rstrip().endswith(_OPEN_ENDS)):
        return "prompt"
    return None


def _shown_lines(text: str) -> list[str]:
    """The lines as a terminal shows them: without colours, and with only what stands after the last return."""
    plain = _ESCAPES.sub("", text).replace("\r\n", "\n")
    return [_CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2]) for line in plain.split("\n")]
