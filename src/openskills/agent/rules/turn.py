"""The current turn as the rule model sees it: the request, its files, and the steps so far. Nothing here raises."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from openskills.agent.attached_line import split_files_line
from openskills.catalog.vocabulary import STOP_WORDS
from openskills.prompt.history import (
    SYSTEM_ROLES,
    TOOL_ROLES,
    get_field,
    get_string,
    get_text,
    get_tool_calls,
    parse_json_object,
)
from openskills.tools.names import LOAD, RUN

_LOADED = re.compile(r"^\[Loaded\] (?P<name>[^\n]+)\n", re.MULTILINE)
_BODY_END = re.compile(r"^(?:Docs loaded: |\[Loaded\] |\[Doc\] )", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TurnStep:
    """A tool call of this turn; `result` is None until it has one."""

    tool: str
    arguments: Mapping[str, object]
    result: str | None = None


@dataclass(frozen=True, slots=True)
class TurnProgress:
    """The current turn.

    `text` is the user's request without the line about its files; `files` came with it, `earlier` with the messages
    before, newest first. `bodies` are the loaded skill texts by name.
    """

    text: str = ""
    files: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    steps: tuple[TurnStep, ...] = ()
    bodies: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def loads(self) -> tuple[TurnStep, ...]:
        """The loads of this turn."""
        return tuple(step for step in self.steps if step.tool == LOAD)

    @property
    def runs(self) -> tuple[TurnStep, ...]:
        """The command runs of this turn."""
        return tuple(step for step in self.steps if step.tool == RUN)


def parse_turn(messages: Sequence[object]) -> TurnProgress:
    """Parse the turn that began with the last user message."""
    asked = [index for index, message in enumerate(messages) if get_string(message, "role") == "user"]
    if not asked:
        return TurnProgress(bodies=_parse_bodies(messages))
    text, files = split_files_line(get_text(messages[asked[-1]]))
    before = [name for index in reversed(asked[:-1]) for name in split_files_line(get_text(messages[index]))[1]]
    earlier = tuple(name for name in dict.fromkeys(before) if name not in files)
    return TurnProgress(text, files, earlier, _parse_steps(messages[asked[-1] + 1 :]), _parse_bodies(messages))


def _parse_steps(messages: Sequence[object]) -> tuple[TurnStep, ...]:
    results = {
        get_string(one, "tool_call_id"): get_text(one) for one in messages if get_field(one, "role") in TOOL_ROLES
    }
    return tuple(
        TurnStep(call.name, parse_json_object(call.arguments), results.get(call.id))
        for message in messages
        if get_field(message, "role") == "assistant"
        for call in get_tool_calls(message)
    )


def _parse_bodies(messages: Sequence[object]) -> dict[str, str]:
    """The texts of loaded skills, the latest last, from messages that we put them into."""
    loads = {call.id for message in messages for call in get_tool_calls(message) if call.name == LOAD and call.id}
    found: dict[str, str] = {}
    for message in messages:
        role = get_field(message, "role")
        if role not in SYSTEM_ROLES and not (role in TOOL_ROLES and get_string(message, "tool_call_id") in loads):
            continue
        text = get_text(message)
        for loaded in _LOADED.finditer(text):
            end = _BODY_END.search(text, loaded.end())
            found.pop(loaded["name"], None)
            found[loaded["name"]] = text[loaded.end() : end.start() if end else len(text)].strip()
    return found


_CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_QUOTED = re.compile('"([^"\n]+)"|“([^”\n]+)”|「([^」\n]+)」|『([^』\n]+)』|`([^`\n]+)`|《([^》\n]+)》')
_OPENING_QUOTE = '["“「『`《]'
_AFTER_VERB = re.compile(
    r"(?:\bfind\b|\bgrep\b|\bsearch(?:\s+for)?\b|搜索|检索|查找)\s*[:：]?\s*(?P<what>[^\s，,。；;]+)", re.IGNORECASE
)
_COMMAND_PREFIX = re.compile(r"[\w-]{1,32}\s?[:：]\s*(?=\S)")
# Numbers, one-letter names (but not "a" and "I"), functions, and operators between them.
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
    """Whether a request should be answered in Chinese."""
    return _CHINESE.search(text) is not None


def extract_payload(text: str) -> str:
    """The text for a command: what is in quotes, else what follows `find` or `echo:`, else everything."""
    quoted = _QUOTED.search(text)
    if quoted is not None:
        return next(found for found in quoted.groups() if found is not None)
    wanted = _AFTER_VERB.search(text)
    if wanted is not None:
        return wanted["what"]
    text = text.strip()
    prefix = _COMMAND_PREFIX.match(text)
    return text[prefix.end() :] if prefix else text


def strip_file_names(text: str, files: Sequence[str]) -> str:
    """The request without the names of these files."""
    for name in files:
        text = re.sub(re.escape(name), " ", text, flags=re.IGNORECASE)
    return text


def find_option_value(option: str, text: str) -> str:
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


def find_numbers(text: str) -> list[str]:
    """The numbers of a text as a command takes them: without separators of thousands."""
    return [found.replace(",", "") for found in _NUMBERS.findall(text)]


def find_formulas(text: str) -> list[str]:
    """The calculations and equations of a text, the longest first: `17 * 23`, `x^2 - x - 1 = 0`, `sqrt(2)`."""
    found = [match.group().strip(" ,.=<>*/+!").replace("×", "*").replace("÷", "/") for match in _FORMULA.finditer(text)]
    kept = [one for one in found if _OPERATION.search(one) and re.search(r"\d", one) and not _NUMBER.fullmatch(one)]
    return sorted(kept, key=len, reverse=True)


def select_files(text: str, files: Sequence[str], earlier: Sequence[str]) -> tuple[str, ...]:
    """The user's files that a request is about: those it names, else those that came with it, else the last one."""
    named = [name for name in (*files, *earlier) if name.casefold() in text.casefold()]
    if named or files:
        return tuple(named or files)
    # Who gives numbers gives what the request is about; a file of an earlier turn is not meant then.
    return () if re.search(r"\d", text) else tuple(earlier[:1])
