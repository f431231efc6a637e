"""Text that arrives in pieces, given on in whole characters."""


class WholeCharacters:
    """Puts pieces together that were cut in the middle of a character.

    JSON may write a character beyond the first 65,536 as two escapes, and servers cut between them. Half of one can
    neither be printed nor stored; a half that stays alone becomes U+FFFD.
    """

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """What is whole by now."""
        text = self._half + piece
        self._half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return whole(text[:-1] if self._half else text)

    def end(self) -> str:
        """What is left when nothing more comes."""
        text, self._half = self._half, ""
        return whole(text)


def whole(text: str) -> str:
    """The text with halves of characters joined, and U+FFFD for those that stand alone."""
    if not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
