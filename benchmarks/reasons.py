"""Why something was not measured, as it fits into a cell of a table. Pure."""

LONGEST = 200


def last_line(said: str) -> str:
    """What a program said last, in one line: of a traceback, what went wrong."""
    spoken = (line for line in reversed(said.splitlines()) if line.strip())
    return one_line(next(spoken, "no output"))


def one_line(text: str) -> str:
    """A text in one line of at most 200 characters, in which nothing ends the cell of a table."""
    folded = " ".join(text.split()).replace("|", "/")
    return folded if len(folded) <= LONGEST else f"{folded[: LONGEST - 1].rstrip()}…"
