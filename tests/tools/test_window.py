from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from openskills.tools.window import SHOWN, Hit, Window, excerpt

LINES = st.lists(st.sampled_from(["x", "a", "b"]), max_size=12)


def hits(lines: Sequence[str], context: int, size: int) -> list[Hit]:
    window = Window(context)
    found: list[Hit] = []
    for start in range(0, len(lines), size):
        block = "".join(f"{line}\n" for line in lines[start : start + size])
        found += looked(window, window.add(block))
    return found + looked(window, window.add("", last=True))


def looked(window: Window, text: str) -> list[Hit]:
    return window.take([(place, 0) for place, line in enumerate(text.split("\n")) if line == "x"])


@given(LINES, st.integers(0, 4), st.integers(1, 5))
def test_every_match_has_the_lines_around_it_however_the_file_comes(lines: list[str], context: int, size: int) -> None:
    assert hits(lines, context, size) == [
        Hit(
            place + 1,
            "x",
            tuple(lines[max(0, place - context) : place]),
            tuple(lines[place + 1 : place + 1 + context]),
        )
        for place, line in enumerate(lines)
        if line == "x"
    ]


def test_a_long_line_is_cut_around_its_match() -> None:
    line = "a" * 5000 + "needle" + "b" * 5000
    shown = excerpt(line, line.index("needle"))
    assert "needle" in shown
    assert len(shown) == SHOWN + 2
    assert shown[0] == shown[-1] == "…"


def test_a_cut_line_is_marked_only_where_it_was_cut() -> None:
    assert excerpt("a" * 1000) == "a" * SHOWN + "…"
    assert excerpt("a" * 1000, 999) == "…" + "a" * SHOWN
    assert excerpt("a" * SHOWN) == "a" * SHOWN
