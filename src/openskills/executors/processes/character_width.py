"""How many cells of a terminal a character takes. Pure."""

import unicodedata
from functools import lru_cache

_SOFT_HYPHEN = "\xad"
# Vowels and final consonants of Hangul are drawn into the cell of the consonant before them.
_JOINING = (("\u1160", "\u11ff"), ("\ud7b0", "\ud7ff"))


@lru_cache(maxsize=4096)
def width(char: str) -> int:
    """2 for wide characters, 0 for marks that stand on the one before, 1 for all others."""
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    if char != _SOFT_HYPHEN and unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 0 if any(first <= char <= last for first, last in _JOINING) else 1
