from benchmarks.reasons import LONGEST, last_line, one_line


def test_of_a_traceback_the_last_line_is_the_reason() -> None:
    said = "Traceback (most recent call last):\n  File 'x', line 1\nRuntimeError: the disk is full\n\n"
    assert last_line(said) == "RuntimeError: the disk is full"


def test_who_says_nothing_gets_a_reason_that_says_so() -> None:
    assert last_line(" \n\n") == "it said nothing"


def test_a_reason_fits_into_a_cell_of_a_table_however_long_it_was() -> None:
    folded = one_line("a | b\n\tc " + "x" * 1000)
    assert folded.startswith("a / b c xxx")
    assert len(folded) == LONGEST
    assert folded.endswith("…")
