"""What a request in words gives to a command: a text, numbers, names of files. Pure."""

import re
from collections.abc import Sequence

from openskills.catalog.words import STOP_WORDS

_CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_QUOTED = re.compile('"([^"\n]+)"|“([^”\n]+)”|「([^」\n]+)」|『([^』\n]+)』|`([^`\n]+)`|《([^》\n]+)》')
_OPENING_QUOTE = '["“「『`《]'
_AFTER_VERB = re.compile(
    r"(?:\bfind\b|\bgrep\b|\bsearch(?:\s+for)?\b|搜索|检索|查找)\s*[:：]?\s*(?P<what>[^\s，,。；;]+)",
    re.IGNORECASE,
)
_COMMAND_PREFIX = re.compile(r"[\w-]{1,32}\s?[:：]\s*(?=\S)")
# Numbers, names of one letter (but not "a" and "I"), functions, and what stands between them.
_FORMULA = re.compile(
    r"(?:\d+[b-hj-z]?(?![a-z])|(?<![a-z])(?:[b-hj-z](?![a-z])|[a-z]{2,8}\d{0,2}(?=\())|[-+*/^=<>×÷(),.%!²³ ])+",
    re.IGNORECASE,
)
_ALSO = {"find": ("replace", "substitute"), "with": ("by",)}
"""Other words for an option, in a request."""
_OPERATION = re.compile(r"[-+*/^=×÷(]")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_NUMBERS = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w)", re.ASCII)


def is_chinese(text: str) -> bool:
    """Whether a request is to be answered in Chinese."""
    return _CHINESE.search(text) is not None


def payload(text: str) -> str:
    """What a command is to work on: what stands in quotes, else what follows `find` or `echo:`, else everything."""
    quoted = _QUOTED.search(text)
    if quoted is not None:
        return next(found for found in quoted.groups() if found is not None)
    wanted = _AFTER_VERB.search(text)
    if wanted is not None:
        return wanted["what"]
    text = text.strip()
    prefix = _COMMAND_PREFIX.match(text)
    return text[prefix.end() :] if prefix else text


def without_files(text: str, files: Sequence[str]) -> str:
    """The request without the names of these files."""
    for name in files:
        text = re.sub(re.escape(name), " ", text, flags=re.IGNORECASE)
    return text


def value_of(option: str, text: str) -> str:
    """What a request says for an option: the word or the quotation after its name, or the number before; or nothing.

    In "the top 5 errors" it is `5` for `top`, in "to 10 digits" `10` for `digits`.
    """
    names = "|".join(re.escape(name) for name in (option.replace("-", " "), *_ALSO.get(option, ())))
    quoted = re.search(rf"(?<![\w-])(?:{names})\s*[:=]?\s*(?={_OPENING_QUOTE})", text, re.IGNORECASE)
    if quoted is not None and (mark := _QUOTED.match(text, quoted.end())) is not None:
        return next(found for found in mark.groups() if found is not None)
    found = re.search(rf"(?<![\w-])(?:{names})(?:\s*[:=]\s*|\s+)(?P<value>[\w.+-]*\w)", text, re.IGNORECASE)
    if found and found["value"].lower() not in STOP_WORDS:
        return found["value"]
    before = re.search(rf"(?<![\w.])(?P<value>\d+)\s+(?:{names})(?![\w-])", text, re.IGNORECASE)
    return before["value"] if before else ""


def numbers_in(text: str) -> list[str]:
    """The numbers of a text as a command takes them: without separators of thousands."""
    return [found.replace(",", "") for found in _NUMBERS.findall(text)]


def formulas_in(text: str) -> list[str]:
    """The calculations and equations of a text, the longest first: `17 * 23`, `x^2 - x - 1 = 0`, `sqrt(2)`."""
    found = [match.group().strip(" ,.=<>*/+!").replace("×", "*").replace("÷", "/") for match in _FORMULA.finditer(text)]
    kept = [one for one in found if _OPERATION.search(one) and re.search(r"\d", one) and not _NUMBER.fullmatch(one)]
    return sorted(kept, key=len, reverse=True)


def meant(text: str, files: Sequence[str], earlier: Sequence[str]) -> tuple[str, ...]:
    """The user's files that a request is about: those it names, else those that came with it, else the last one."""
    named = [name for name in (*files, *earlier) if name.casefold() in text.casefold()]
    if named or files:
        return tuple(named or files)
    # Who gives numbers gives what the request is about; a file of an earlier turn is not meant then.
    return () if re.search(r"\d", text) else tuple(earlier[:1])
