"""Token usage of requests by layer and skill, and how much of each request is unchanged; recorded requests. No I/O."""

import hashlib
import json
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest
from typing import Any, NamedTuple, cast

from openskills.prompt.blocks import PromptLayer, PromptPart
from openskills.prompt.history import (
    HistoryToolCall,
    Message,
    get_field,
    get_items,
    get_part_texts,
    get_string,
    get_tool_calls,
)
from openskills.session.events import Event
from openskills.tokens import TokenCounter, estimate_tokens

_MAX_NOT_SUMMED = 256
_MAX_DEPTH = 6  # of nested data in a message


@dataclass(frozen=True, slots=True)
class RequestTokens:
    """The tokens of one request, or of several.

    `before` is the number of tokens of the previous request, `unchanged` how many of them this one starts with.
    `by_layer` has every layer; its sum may differ from `total` by a few tokens. `estimated`: not counted exactly.
    """

    total: int = 0
    by_layer: Mapping[PromptLayer, int] = field(default_factory=lambda: dict.fromkeys(PromptLayer, 0))
    by_skill: Mapping[str, int] = field(default_factory=dict[str, int])
    unchanged: int = 0
    before: int = 0
    estimated: bool = False

    @property
    def unchanged_share(self) -> float:
        """The share of the previous request that this one starts with; 1 if there was none."""
        return self.unchanged / self.before if self.before else 1.0

    @property
    def cache_share(self) -> float:
        """The share of this request that a prompt cache may have."""
        return self.unchanged / self.total if self.total else 0.0


class FlatMessage(NamedTuple):
    """A message as texts, which are counted, and data, which is only compared."""

    role: str
    texts: tuple[str, ...]
    data: tuple[str, ...] = ()


class TokenCountCache:
    """Caches the token counts of texts, at least of those that were counted last."""

    def __init__(self, count: TokenCounter) -> None:
        self.count = count
        self._now: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        found = self._now.get(text)
        if found is None:
            found = self._before.get(text)
            self._now[text] = found = self.count(text) if found is None else found
        return found

    def limit(self, size: int) -> None:
        """Drop texts that were not used for long if there are more than `size`."""
        if len(self._now) > size:
            self._before, self._now = self._now, {}


def account(
    before: Sequence[Message] | None,
    now: Sequence[Message],
    parts: Sequence[PromptPart],
    count: TokenCounter = estimate_tokens,
) -> RequestTokens:
    """Count a request that follows `before`; `parts` are the texts that were added to it.

    Texts, names of called tools and their arguments are counted. Images and other data are only compared.
    """
    ledger = Ledger()
    if before is not None:
        ledger.record(before, (), count)
    return ledger.record(now, parts, count)


def flatten_messages(messages: Iterable[Message]) -> list[FlatMessage]:
    return [_flatten_message(message) for message in messages]


def _count_common(old: FlatMessage, new: FlatMessage, count: TokenCounter) -> int:
    """The tokens of the common beginning of two messages."""
    tokens = 0
    if old.role == new.role:
        for one, other in zip_longest(old.texts, new.texts, fillvalue=""):
            if one != other:
                return tokens + count(one[: _find_common_length(one, other)])
            tokens += count(one)
    return tokens


def _find_common_length(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _flatten_message(message: Message) -> FlatMessage:
    role, content = get_string(message, "role"), get_field(message, "content")
    calls = [text for call in get_tool_calls(message) for text in _list_call_texts(call)] if role == "assistant" else ()
    if isinstance(content, str):
        return FlatMessage(role, (content, *calls))
    if content is None:
        return FlatMessage(role, tuple(calls))
    data = tuple(text for part in get_items(content) if not get_part_texts((part,)) for text in _iter_strings(part))
    return FlatMessage(role, (*get_part_texts(content), *calls), data)


def _list_call_texts(call: HistoryToolCall) -> tuple[str, ...]:
    return (
        (call.name, call.arguments) if isinstance(call.arguments, str) else (call.name, *_iter_strings(call.arguments))
    )


def _iter_strings(value: object, depth: int = _MAX_DEPTH) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, Mapping):
        for key, inner in cast("Mapping[object, object]", value).items():
            yield from _iter_strings(key, 0)
            yield from _iter_strings(inner, depth - 1)
    elif depth:
        for inner in get_items(value):
            yield from _iter_strings(inner, depth - 1)


class Ledger:
    """Token usage of a conversation: the last `max_requests` requests, the number of `requests`, and the sum of all."""

    def __init__(self, max_requests: int = 256) -> None:
        self._last: deque[RequestTokens] = deque(maxlen=max_requests)
        self.requests = 0
        self._sum = RequestTokens()
        self._not_summed: list[RequestTokens] = []
        self._sent: list[FlatMessage] = []
        self._each: list[int] = []
        self._total = 0
        self._parts: tuple[Sequence[PromptPart], str] | None = None
        self._by_part: tuple[Mapping[PromptLayer, int], Mapping[str, int], int] = ({}, {}, 0)
        self._counts = TokenCountCache(estimate_tokens)

    @property
    def last(self) -> Sequence[RequestTokens]:
        """The last requests, newest last."""
        return tuple(self._last)

    @property
    def sum(self) -> RequestTokens:
        new, self._not_summed = [self._sum, *self._not_summed], []
        skills: dict[str, int] = {}
        for one in new:
            for skill, tokens in one.by_skill.items():
                skills[skill] = skills.get(skill, 0) + tokens
        self._sum = RequestTokens(
            sum(one.total for one in new),
            {layer: sum(one.by_layer.get(layer, 0) for one in new) for layer in PromptLayer},
            skills,
            sum(one.unchanged for one in new),
            sum(one.before for one in new),
            any(one.estimated for one in new),
        )
        return self._sum

    def record(
        self,
        now: Sequence[Message],
        parts: Sequence[PromptPart],
        count: TokenCounter = estimate_tokens,
        *,
        tools: str = "",
        unchanged: int = 0,
        after: RequestTokens | None = None,
    ) -> RequestTokens:
        """Count a request, comparing it with the previous one, and add it. The messages may change afterwards.

        `tools` are the descriptions of its tools as JSON, which providers put in front of the messages. The first
        `unchanged` messages are known to be those of the request `after`.
        """
        if self._counts.count is not count:
            self._counts = TokenCountCache(count)
            self._parts = after = None
        sent, each = self._sent, self._each
        described = sent[0].texts[0] if sent and sent[0].role == PromptLayer.TOOLS else ""
        is_next = unchanged and after is not None and after is self._last[-1] and described == tools
        same = unchanged + bool(tools) if is_next else 0
        if after is not None and same == len(sent) > 0 and unchanged == len(now) and (parts, tools) == self._parts:
            # The same request once more.
            is_repeated = after.unchanged == after.before == after.total
            found = after if is_repeated else replace(after, unchanged=after.total, before=after.total)
            self.add(found)
            return found
        flat = flatten_messages(now[unchanged if same else 0 :])
        if tools and not same:
            flat.insert(0, FlatMessage(PromptLayer.TOOLS, (tools,)))
        # Only what follows the first `same` messages is counted and compared.
        old, old_each = sent[same:], each[same:]
        sent[same:] = flat
        each[same:] = new_each = [sum(map(self._counts, message.texts)) for message in flat]
        had, kept = self._total, self._total - sum(old_each)
        self._total = total = kept + sum(new_each)
        layers, skills, added = self._count_parts(parts, tools)
        found = RequestTokens(
            total,
            {**layers, PromptLayer.OTHER: max(0, total - added)},
            skills,
            kept + self._count_unchanged(old, flat, new_each),
            had,
            self._counts.count is estimate_tokens,
        )
        self._counts.limit(4 * len(sent) + 64)
        self.add(found)
        return found

    def _count_unchanged(self, old: Sequence[FlatMessage], new: Sequence[FlatMessage], each: Sequence[int]) -> int:
        """The tokens of the common beginning of two lists of messages; `each` are those of the new ones."""
        tokens = 0
        for one, other, size in zip(old, new, each, strict=False):
            if one != other:
                return tokens + _count_common(one, other, self._counts)
            tokens += size
        return tokens

    def _count_parts(
        self, parts: Sequence[PromptPart], tools: str
    ) -> tuple[Mapping[PromptLayer, int], Mapping[str, int], int]:
        """The tokens of added texts and tools by layer, by skill, and in all."""
        if (parts, tools) != self._parts:
            layers = dict.fromkeys(PromptLayer, 0)
            skills: dict[str, int] = {}
            for part in parts:
                tokens = self._counts(part.text)
                layers[part.layer] += tokens
                if part.skill:
                    skills[part.skill] = skills.get(part.skill, 0) + tokens
            layers[PromptLayer.TOOLS] = self._counts(tools) if tools else 0
            self._parts, self._by_part = (tuple(parts), tools), (layers, skills, sum(layers.values()))
        return self._by_part

    def add(self, request: RequestTokens) -> None:
        """Add a request that was counted elsewhere."""
        self.requests += 1
        self._last.append(request)
        self._not_summed.append(request)
        if len(self._not_summed) > _MAX_NOT_SUMMED:
            _ = self.sum

    def format_table(self) -> str:
        """A text table of the last requests and the sum, then the skills by tokens."""
        first = self.requests - len(self._last) + 1
        rows = [["request", "tokens", *PromptLayer, "unchanged"]]
        rows += [_format_row(str(number), request) for number, request in enumerate(self._last, first)]
        rows.append(_format_row("all", self.sum))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        skills = sorted(self.sum.by_skill.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"{skill}: {tokens:,}" for skill, tokens in skills]
        return "\n".join([*lines, *(["All tokens are estimated."] if self.sum.estimated else [])])


def _format_row(name: str, request: RequestTokens) -> list[str]:
    layers = [f"{request.by_layer.get(layer, 0):,}" for layer in PromptLayer]
    return [name, f"{request.total:,}", *layers, f"{request.unchanged_share:.1%}" if request.before else "-"]


REQUEST = "request"
"""The kind of the events of recorded requests."""
_REFERENCE = "#"
_MAX_DIFF_LINES = 4_000


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request that was sent to a model. `body` are its bytes; None if they were too large to keep, or are damaged.

    `tokens` has the estimated numbers of `RequestTokens`: `total`, `layers`, `skills`, `unchanged`.
    """

    number: int
    at: datetime
    agent: str
    model: str
    digest: str
    size: int
    tokens: Mapping[str, Any]
    body: bytes | None = field(default=None, repr=False)


def encode_json(value: object) -> str:
    """Compact JSON, as HTTP clients encode bodies."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def digest_text(text: str) -> str:
    """A short digest of a part of a request."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def pack_body(body: bytes, known: Container[str]) -> tuple[list[str], dict[str, str]]:
    """Split a JSON body into parts that give the body when they are joined.

    Elements of lists at the top level, such as messages and tools, are replaced by `#` and their digest; the second
    value are those that are not `known`, by digest. A body that is encoded in another way is one such part.
    """
    text = body.decode("utf-8", "surrogatepass")
    parts = _split_body(text)
    if "".join(part for part, _ in parts) != text:
        parts = [(text, True)]
    packed: list[str] = []
    new: dict[str, str] = {}
    for part, is_element in parts:
        if not is_element:
            packed.append(part)
            continue
        digest = digest_text(part)
        packed.append(f"{_REFERENCE}{digest}")
        if digest not in known:
            new[digest] = part
    return packed, new


def list_references(parts: Iterable[str]) -> list[str]:
    return [part[1:] for part in parts if part.startswith(_REFERENCE)]


def _split_body(text: str) -> list[tuple[str, bool]]:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(found, dict):
        return []
    parts: list[tuple[str, bool]] = []
    glue = "{"
    for number, (name, value) in enumerate(cast("dict[str, object]", found).items()):
        glue += f"{',' if number else ''}{encode_json(name)}:"
        elements = cast("list[object]", value) if isinstance(value, list) else []
        if not elements:
            glue += encode_json(cast("object", value))
            continue
        glue += "["
        for element in elements:
            parts += [(glue, False), (encode_json(element), True)]
            glue = ","
        glue = "]"
    return [*parts, (f"{glue}}}", False)]


def read_requests(events: Iterable[Event]) -> list[RecordedRequest]:
    """The recorded requests in a log, oldest first."""
    texts: dict[str, str] = {}
    found: list[RecordedRequest] = []
    for event in events:
        payload = event.payload
        if event.kind != REQUEST:
            continue
        texts.update(cast("Mapping[str, str]", payload.get("texts") or {}))
        parts = cast("Sequence[str]", payload.get("parts") or ())
        digest = str(payload.get("digest", ""))
        body = _join_parts(parts, texts)
        if body is not None and hashlib.sha256(body).hexdigest() != digest:
            body = None
        tokens = cast("Mapping[str, Any]", payload.get("tokens") or {})
        size, model = int(payload.get("size") or 0), str(payload.get("model", ""))
        found.append(RecordedRequest(event.seq, event.at, event.author, model, digest, size, tokens, body))
    return found


def _join_parts(parts: Sequence[str], texts: Mapping[str, str]) -> bytes | None:
    whole = [texts.get(part[1:]) if part.startswith(_REFERENCE) else part for part in parts]
    if not whole or None in whole:
        return None
    return "".join(cast("list[str]", whole)).encode("utf-8", "surrogatepass")


class RequestElement(NamedTuple):
    """A part of a request for readers: a message, a tool, or another field. `raw` is its JSON."""

    section: str
    title: str
    text: str
    raw: str


class RequestChange(NamedTuple):
    """An element against the previous request: `same`, `added`, `removed`, or `changed` with its text `before`."""

    state: str
    element: RequestElement
    before: str = ""


def list_elements(body: bytes) -> list[RequestElement]:
    """The elements of a JSON body in its order."""
    found: object = json.loads(body)
    elements: list[RequestElement] = []
    for section, value in cast("Mapping[str, object]", found).items() if isinstance(found, dict) else ():
        if isinstance(value, list):
            elements += [_build_element(section, one) for one in cast("list[object]", value)]
        else:
            raw = encode_json(value)
            elements.append(RequestElement(section, section, value if isinstance(value, str) else raw, raw))
    return elements


def _build_element(section: str, value: object) -> RequestElement:
    raw = encode_json(value)
    name = get_string(get_field(value, "function"), "name") or get_string(value, "name")
    title = get_string(value, "role") or name or get_string(value, "type")
    if not get_string(value, "role"):
        text = get_string(value, "text") or json.dumps(value, ensure_ascii=False, indent=2)
        return RequestElement(section, title, text, raw)
    content = get_field(value, "content")
    # Data, such as images, and blocks of other providers are shown as JSON.
    items = () if isinstance(content, str) else get_items(content)
    parts = ["\n".join(get_part_texts((part,))) or encode_json(part) for part in items]
    lines = [content] if isinstance(content, str) else parts
    for call in get_tool_calls(cast("Message", value)):
        arguments = call.arguments if isinstance(call.arguments, str) else encode_json(call.arguments)
        lines.append(f"{call.name} {arguments}")
    return RequestElement(section, title, "\n".join(lines), raw)


def compare_requests(before: bytes | None, now: bytes) -> list[RequestChange]:
    """The elements of a request, each compared with those of the request before it."""
    old, new = [] if before is None else list_elements(before), list_elements(now)
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(
        None, [(one.section, one.raw) for one in old], [(one.section, one.raw) for one in new], False
    )
    changes: list[RequestChange] = []
    for state, start, end, first, last in matcher.get_opcodes():
        if state == "equal":
            changes += [RequestChange("same", one) for one in new[first:last]]
        else:
            changes += _compare_elements(old[start:end], new[first:last])
    return changes


def _compare_elements(old: Sequence[RequestElement], new: Sequence[RequestElement]) -> list[RequestChange]:
    changes: list[RequestChange] = []
    left = list(old)
    for one in new:
        same = next((two for two in left if (two.section, two.title) == (one.section, one.title)), None)
        if same is None:
            changes.append(RequestChange("added", one))
            continue
        changes += [RequestChange("removed", two) for two in left[: left.index(same)]]
        del left[: left.index(same) + 1]
        changes.append(RequestChange("changed", one, same.text))
    return [*changes, *(RequestChange("removed", one) for one in left)]


def diff_lines(before: str, now: str) -> list[tuple[str, str]]:
    """The lines of two texts, each with ` `, `-` or `+`."""
    from difflib import SequenceMatcher

    old, new = before.splitlines(), now.splitlines()
    if len(old) + len(new) > _MAX_DIFF_LINES:
        return [*(("-", line) for line in old), *(("+", line) for line in new)]
    lines: list[tuple[str, str]] = []
    for state, start, end, first, last in SequenceMatcher(None, old, new, False).get_opcodes():
        if state == "equal":
            lines += [(" ", line) for line in new[first:last]]
        else:
            lines += [("-", line) for line in old[start:end]] + [("+", line) for line in new[first:last]]
    return lines
