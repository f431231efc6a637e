"""Names that fit a pattern in which `*` stands for anything. Pure."""


def fits(pattern: str, name: str) -> bool:
    """Whether a name fits.

    Piece by piece instead of with an expression: whoever writes the pattern must not decide how long this takes.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return name == first
    *between, last = rest
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    place, end = len(first), len(name) - len(last)
    for part in between:
        found = name.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
