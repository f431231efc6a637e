"""How a skill says no."""

from collections.abc import Iterator

from openskills.errors import SkillError


class Refused(Exception):
    """The skill does not do what was asked; `word` is one of the words of `openskills.errors`.

    `INVALID_ARGUMENT` (400) for what the caller can mend, `FORBIDDEN_PATH` (403) for files out of bounds, `INTERNAL`
    (500) for what it cannot. `details` go to `error.details`. A word that is not known is a `ValueError`.
    """

    def __init__(self, word: str, message: str, **details: object) -> None:
        codes = {kind.reason: kind.code for kind in _kinds(SkillError)}
        if word not in codes:
            raise ValueError(f"{word!r} is no reason; use one of {', '.join(sorted(codes))}")
        super().__init__(message)
        self.word = word
        self.code = codes[word]
        self.message = message
        self.details = details


def _kinds(kind: type[SkillError]) -> Iterator[type[SkillError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _kinds(child)
