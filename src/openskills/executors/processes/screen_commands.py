"""Which sequence does what to a screen. Pure; what is not here is ignored, questions among it."""

from collections.abc import Callable, Mapping

from openskills.executors.processes.screen import Erase, Screen
from openskills.executors.processes.screen_parser import ControlSequence

Act = Callable[[Screen, ControlSequence], None]
_PARTS: Mapping[int, Erase] = {0: "after", 1: "before", 2: "all"}
_DRAWING = "0"


class Commands:
    """Does to a screen what a parser hears. Implements `Sink`."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def text(self, text: str) -> None:
        """See `Sink.text`."""
        self._screen.text(text)

    def control(self, char: str) -> None:
        """See `Sink.control`."""
        act = _CONTROLS.get(char)
        if act:
            act(self._screen)

    def escape(self, between: str, final: str) -> None:
        """See `Sink.escape`."""
        if between in ("(", ")"):
            self._screen.designate(second=between == ")", drawing=final == _DRAWING)
        act = _ESCAPES.get(final)
        if act and not between:
            act(self._screen)

    def sequence(self, found: ControlSequence) -> None:
        """See `Sink.sequence`."""
        act = _SEQUENCES.get(found.mark + found.between + found.final)
        if act:
            act(self._screen, found)


def _erase_in_display(screen: Screen, found: ControlSequence) -> None:
    part = _PARTS.get(found.number())
    if part:
        screen.erase_in_display(part)


def _erase_in_line(screen: Screen, found: ControlSequence) -> None:
    part = _PARTS.get(found.number())
    if part:
        screen.erase_in_line(part)


def _move_to(screen: Screen, found: ControlSequence) -> None:
    screen.move_to(max(found.number(0), 1) - 1, max(found.number(1), 1) - 1)


def _next_line(screen: Screen, found: ControlSequence) -> None:
    screen.down(found.count)
    screen.carriage_return()


def _line_before(screen: Screen, found: ControlSequence) -> None:
    screen.up(found.count)
    screen.carriage_return()


def _clear_stops(screen: Screen, found: ControlSequence) -> None:
    if found.number() == 3:
        screen.clear_stops()
    elif not found.number():
        screen.clear_stop()


def _set_region(screen: Screen, found: ControlSequence) -> None:
    screen.set_region(found.count - 1, (found.number(1) or screen.rows) - 1)


def _set_modes(screen: Screen, found: ControlSequence) -> None:
    for number in found.numbers:
        if number == 4:
            screen.insert_mode = found.final == "h"
        elif number == 20:
            screen.newline_mode = found.final == "h"


def _set_private_modes(screen: Screen, found: ControlSequence) -> None:
    for number in found.numbers:
        act = _PRIVATE_MODES.get(number)
        if act:
            act(screen, found.final == "h")


def _set_auto_wrap(screen: Screen, on: bool) -> None:
    screen.auto_wrap = on


def _save_or_restore(screen: Screen, on: bool) -> None:
    if on:
        screen.save()
    else:
        screen.restore()


def _alternate_with_cursor(screen: Screen, on: bool) -> None:
    if on == screen.is_alternate:
        return
    if on:
        screen.save()
    screen.use_alternate(on, clear=on)
    if not on:
        screen.restore()


def _next_row_begin(screen: Screen) -> None:
    screen.index()
    screen.carriage_return()


_PRIVATE_MODES: Mapping[int, Callable[[Screen, bool], None]] = {
    6: Screen.set_in_region,
    7: _set_auto_wrap,
    47: lambda screen, on: screen.use_alternate(on, clear=False),
    1047: lambda screen, on: screen.use_alternate(on, clear=not on),
    1048: _save_or_restore,
    1049: _alternate_with_cursor,
}

_CONTROLS: Mapping[str, Callable[[Screen], None]] = {
    "\b": lambda screen: screen.left(1),
    "\t": Screen.tab,
    "\n": Screen.line_feed,
    "\v": Screen.line_feed,
    "\f": Screen.line_feed,
    "\r": Screen.carriage_return,
    "\x0e": lambda screen: screen.shift(second=True),
    "\x0f": lambda screen: screen.shift(second=False),
}

_ESCAPES: Mapping[str, Callable[[Screen], None]] = {
    "7": Screen.save,
    "8": Screen.restore,
    "D": Screen.index,
    "E": _next_row_begin,
    "H": Screen.set_stop,
    "M": Screen.reverse_index,
    "c": Screen.reset,
}

_SEQUENCES: Mapping[str, Act] = {
    "@": lambda screen, found: screen.insert_characters(found.count),
    "A": lambda screen, found: screen.up(found.count),
    "B": lambda screen, found: screen.down(found.count),
    "C": lambda screen, found: screen.right(found.count),
    "D": lambda screen, found: screen.left(found.count),
    "E": _next_line,
    "F": _line_before,
    "G": lambda screen, found: screen.move_to_column(found.count - 1),
    "H": _move_to,
    "I": lambda screen, found: screen.tab(found.count),
    "J": _erase_in_display,
    "?J": _erase_in_display,
    "K": _erase_in_line,
    "?K": _erase_in_line,
    "L": lambda screen, found: screen.insert_lines(found.count),
    "M": lambda screen, found: screen.delete_lines(found.count),
    "P": lambda screen, found: screen.delete_characters(found.count),
    "S": lambda screen, found: screen.scroll_up(found.count),
    "T": lambda screen, found: screen.scroll_down(found.count),
    "X": lambda screen, found: screen.erase_characters(found.count),
    "Z": lambda screen, found: screen.tab_back(found.count),
    "`": lambda screen, found: screen.move_to_column(found.count - 1),
    "a": lambda screen, found: screen.right(found.count),
    "b": lambda screen, found: screen.repeat(found.count),
    "d": lambda screen, found: screen.move_to_row(found.count - 1),
    "e": lambda screen, found: screen.down(found.count),
    "f": _move_to,
    "g": _clear_stops,
    "h": _set_modes,
    "l": _set_modes,
    "?h": _set_private_modes,
    "?l": _set_private_modes,
    "r": _set_region,
    "s": lambda screen, _: screen.save(),
    "u": lambda screen, _: screen.restore(),
    "!p": lambda screen, _: screen.soft_reset(),
}
