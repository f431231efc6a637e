"""Conversations in the console: the list, one conversation with its live events, and the requests of its steps."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlencode

from openskills.agent.agent import ARTIFACT, ERROR, SUMMARY, TOOL_CALL, build_items, group_layers
from openskills.errors import Forbidden
from openskills.host.bodies import read_message
from openskills.host.console.pages import PageRequest, build_page, render_markdown
from openskills.host.console.runs import parse_object
from openskills.host.console.skill import format_json
from openskills.host.conversations import (
    AGENT,
    ANSWER,
    APPROVAL,
    TEXT,
    ConversationEvent,
    ConversationView,
)
from openskills.host.http import HttpRefusal, HttpResponse, SseEvent, unknown_part
from openskills.host.routes import select_request, stream_events
from openskills.host.runs import CUT_EVENT, RESULT_EVENT, EventPosition
from openskills.prompt.usage import RequestChange, compare_requests, diff_lines
from openskills.session.events import MESSAGE, TOOL_RESPONSE, USER, Event
from openskills.tools.names import MAIN_ARGUMENTS

_PER_PAGE = 50
_MAX_TEXT = 20_000
_SIDE_SECONDS = 1.0
_ITEM_KINDS = frozenset({MESSAGE, SUMMARY, ERROR, TOOL_CALL, TOOL_RESPONSE, ARTIFACT})


async def show_conversations(request: PageRequest, error: str = "", *, status: int = 200) -> HttpResponse:
    """The conversations of the caller, latest first."""
    query = request.query.get("q", "")[:300]
    asked = {"q": query} if query else {}
    page = _parse_page(request.query.get("page", "1"))
    service = request.host.conversations
    found, more = await service.list(request.caller, search=query, limit=_PER_PAGE, offset=(page - 1) * _PER_PAGE)
    running = {head.id for head in found if await service.is_running(head)}
    context = {
        "error": error,
        "found": found,
        "running": running,
        "query": query,
        "page": page,
        "pages": page + more,
        "models": service.list_models(),
        "address": f"{request.root}/console/conversations?{urlencode(asked | {'page': ''})}",
    }
    return request.render("conversations.html", context, block="results", status=status)


def _parse_page(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 7 and int(text) else 1


async def create_conversation(request: PageRequest) -> HttpResponse:
    """Create a conversation and go there."""
    fields = await request.form()
    model = fields.get("model") or None
    try:
        head = await request.host.conversations.create(request.caller, model=model, asks="ask" in fields)
    except Forbidden as error:
        return await show_conversations(request, error.message, status=error.code)
    return request.redirect(f"/console/conversations/{head.id}")


async def show_conversation(request: PageRequest) -> HttpResponse:
    """One conversation; live if scripts run, complete without."""
    view = await request.host.conversations.show(request.caller, request.params["conversation_id"])
    items = await asyncio.to_thread(lambda: [describe_item(one) for one in view.items])
    return request.render("conversation.html", {**_describe_view(request, view), "items": items})


def _describe_view(request: PageRequest, view: ConversationView) -> dict[str, Any]:
    """What is shown around the items."""
    return {
        "view": view,
        "head": view.head,
        "layers": describe_layers(view.tokens["layers"]),
        "cached": round(100 * float(view.tokens["cached_share"])),
        "base": f"{request.root}/console/conversations/{view.head.id}",
        "files_base": f"{request.root}/conversations/{view.head.id}/files",
        "models": request.host.conversations.list_models(),
    }


def describe_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item of a conversation for the template: with rendered Markdown, and lines about a tool call."""
    shown = {**item, "at": datetime.fromisoformat(item["at"]).timestamp()}
    if item["kind"] == "tool":
        result = item["result"]
        shown |= {"call": summarize_call(item["arguments"]), "arguments": _cut(_indent(item["arguments"]))}
        shown |= {"ended": result is not None, "summary": "" if result is None else summarize_result(result)}
        shown["result"] = None if result is None else _cut(_indent(result))
    elif item["kind"] == "message" and item["role"] == "assistant":
        shown["html"] = render_markdown(item["text"])
    return shown


def _cut(text: str) -> str:
    more = len(text) - _MAX_TEXT
    return text if more <= 0 else f"{text[:_MAX_TEXT]}… (+{more:,})"


def _indent(text: str) -> str:
    found = parse_object(text)
    return text if found is None else format_json(found)


def summarize_call(arguments: str) -> str:
    """The most important arguments of a call: `csv-report: python3 scripts/report.py`."""
    found = parse_object(arguments)
    if found is None:
        return arguments[:200]
    named = [str(found[name]) for name in MAIN_ARGUMENTS if found.get(name) not in (None, "")]
    return ": ".join(named)[:300]


def summarize_result(result: str) -> str:
    """A result on one line: the exit code and files of a command, or the first line of a text."""
    found = parse_object(result)
    if found is None or "exit_code" not in found:
        return next((line for line in result.splitlines() if line.strip()), "")[:200]
    output = str((found.get("stdout") if found["exit_code"] == 0 else found.get("stderr")) or "").strip()
    line = output.splitlines()[0 if found["exit_code"] == 0 else -1] if output else ""
    parts = [f"exit code {found['exit_code']}", str(found.get("isolation") or ""), line]
    return " · ".join(part for part in parts if part)[:200]


def describe_layers(layers: Mapping[str, int]) -> list[dict[str, Any]]:
    """The layers of a request as parts of a bar that is 100 wide."""
    total = sum(layers.values()) or 1
    found: list[dict[str, Any]] = []
    start = 0.0
    for name in ("overview", "loaded", "tools", "history"):
        width = 100 * layers.get(name, 0) / total
        found.append({"name": name, "tokens": layers.get(name, 0), "x": round(start, 2), "width": round(width, 2)})
        start += width
    return found


async def send_message(request: PageRequest) -> HttpResponse:
    """Send the message of the form."""
    message = await read_message(request.exchange, request.host)
    identity = request.params["conversation_id"]
    await request.host.conversations.send(request.caller, identity, message, request.exchange.trace.id)
    return _finish(request, identity)


def _finish(request: PageRequest, identity: str) -> HttpResponse:
    """The answer to an action: nothing for scripts, which follow the events; otherwise the conversation again."""
    if b"hx-request" in request.exchange.headers:
        return build_page(request.exchange, "", status=204)
    return request.redirect(f"/console/conversations/{identity}#end")


async def cancel_turn(request: PageRequest) -> HttpResponse:
    """Cancel the running turn."""
    identity = request.params["conversation_id"]
    await request.host.conversations.cancel(request.caller, identity)
    return _finish(request, identity)


async def delete_conversation(request: PageRequest) -> HttpResponse:
    """Delete a conversation with its files, and go to the list."""
    await request.host.conversations.delete(request.caller, request.params["conversation_id"])
    return request.redirect("/console/conversations")


async def answer_approval(request: PageRequest) -> HttpResponse:
    """Answer a command that waits for approval."""
    fields = await request.form()
    identity, decision = request.params["conversation_id"], fields.get("decision", "")
    await request.host.conversations.answer(request.caller, identity, request.params["approval_id"], decision)
    return _finish(request, identity)


async def show_request(request: PageRequest) -> HttpResponse:
    """What the model saw in one step, against the step before."""
    service, identity = request.host.conversations, request.params["conversation_id"]
    found = await service.read_requests(request.caller, identity)
    head = await service.get(request.caller, identity)
    if not found:
        raise HttpRefusal(unknown_part("no requests were recorded; see OPENSKILL_RECORD_REQUESTS"))
    wanted, before, body = select_request(found, request.params["number"])
    numbers = [one.number for one in found]
    index = numbers.index(wanted.number)
    context = {
        "head": head,
        "found": found,
        "wanted": wanted,
        "before": before,
        "changes": [_describe_change(one) for one in compare_requests(before.body if before else None, body)],
        "index": index,
        "previous": numbers[index - 1] if index else None,
        "following": numbers[index + 1] if index + 1 < len(numbers) else None,
        "layers": describe_layers(group_layers(wanted.tokens.get("layers") or {})),
        "base": f"{request.root}/console/conversations/{identity}",
        "raw": f"{request.root}/conversations/{identity}/requests/{wanted.number}?raw=1",
    }
    return request.render("conversation_request.html", context)


def _describe_change(change: RequestChange) -> dict[str, Any]:
    element = change.element
    title = element.section if element.title == element.section else f"{element.section} · {element.title}"
    first = next((line for line in _find_description(element.raw).splitlines() if line.strip()), "")
    first = first or next((line for line in element.text.splitlines() if line.strip()), "")
    shown: dict[str, Any] = {"state": change.state, "title": title, "text": element.text, "first": first[:200]}
    shown["lines"] = diff_lines(change.before, element.text) if change.state == "changed" else []
    return shown


def _find_description(raw: str) -> str:
    """The description of a tool, in the formats of all providers; empty for everything else."""
    found = parse_object(raw) or {}
    tool = found.get("function", found)
    text = cast("dict[str, Any]", tool).get("description") if isinstance(tool, dict) else None
    return text if isinstance(text, str) else ""


async def stream_conversation(request: PageRequest) -> None:
    """The events of a conversation as HTML, after `Last-Event-ID` or `?after=`."""
    service, identity = request.host.conversations, request.params["conversation_id"]
    after = EventPosition.parse(request.exchange.header(b"last-event-id") or request.query.get("after"))
    seen = await service.read_turn(await service.get(request.caller, identity), after)
    await stream_events(request.exchange, request.host, _ConversationPage(request, identity).follow(after, seen))


class _ConversationPage:
    """Turns the events of a conversation into changes of its page."""

    def __init__(self, request: PageRequest, identity: str) -> None:
        self._request = request
        self._identity = identity
        self._events: list[Event] = []
        self._sent: dict[str, Mapping[str, Any]] = {}
        self._run = ""
        self._side_at = 0.0
        self._is_side_old = False

    async def follow(self, after: EventPosition, seen: Sequence[ConversationEvent]) -> AsyncGenerator[SseEvent]:
        """The changes after a position. The page has what was `seen` already; a result needs it to find its call."""
        service = self._request.host.conversations
        for event in seen:
            self._add(event.position, event.kind, event.data)
        self._sent = {item["id"]: item for item in build_items(self._events, AGENT)}
        async with aclosing(service.follow(self._request.caller, self._identity, after)) as events:
            async for event in events:
                for kind, data in await self._convert(event.position, event.kind, event.data):
                    yield SseEvent(kind, data)
                # An event without changes, so that a client resumes after all of them.
                yield SseEvent("position", {}, str(event.position))

    async def _convert(
        self, position: EventPosition, kind: str, data: Mapping[str, Any]
    ) -> Sequence[tuple[str, Mapping[str, Any]]]:
        if kind == TEXT:
            return [("text", {"text": data.get("text", "")}), *await self._update_page(kind)]
        if kind == CUT_EVENT:
            return [("reload", {})]
        changes: list[tuple[str, Mapping[str, Any]]] = []
        if kind == "start":
            item = {"id": f"turn-{position.run}", "kind": "message", "role": "user", "author": USER, "agent": ""}
            item |= {"text": str(data.get("text", "")), "files": [], "at": datetime.now(UTC).isoformat()}
            changes.append(("item", await self._render(item)))
        self._add(position, kind, data)
        if kind in _ITEM_KINDS:
            if kind == MESSAGE and data.get("author") == USER:
                changes.append(("remove", {"id": f"turn-{position.run}"}))
            elif kind != TOOL_CALL:
                changes.append(("clear", {}))
            changed = [item for item in build_items(self._events, AGENT) if self._sent.get(item["id"]) != item]
            changes += [("item", await self._render(item)) for item in changed]
        if kind == RESULT_EVENT:
            # The text of a cancelled answer is not part of the conversation.
            changes.append(("clear", {}))
        return [*changes, *await self._update_page(kind)]

    async def _update_page(self, kind: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """The parts around the messages, which cost more to find out: once a second, and when it matters."""
        self._is_side_old = self._is_side_old or kind in (TOOL_RESPONSE, ARTIFACT)
        is_due = self._is_side_old and time.monotonic() - self._side_at > _SIDE_SECONDS
        return await self._describe_page() if is_due or kind in ("start", APPROVAL, ANSWER, RESULT_EVENT) else ()

    def _add(self, position: EventPosition, kind: str, data: Mapping[str, Any]) -> None:
        if position.run != self._run:
            self._run, self._events, self._sent = position.run, [], {}
        if kind in _ITEM_KINDS:
            at = datetime.fromisoformat(str(data["at"]))
            payload = cast("Mapping[str, Any]", data["payload"])
            number = int(data["seq"])
            self._events.append(Event(f"e{number}", str(data["author"]), kind, at, payload, {}, number))

    async def _render(self, item: Mapping[str, Any]) -> dict[str, str]:
        base = f"{self._request.root}/console/conversations/{self._identity}"
        one = await asyncio.to_thread(describe_item, item)
        context = {"one": one, "base": base, "files_base": base.replace("/console/", "/", 1) + "/files"}
        html = self._request.render_text("conversation_item.html", context)
        self._sent[item["id"]] = item
        return {"id": item["id"], "html": html}

    async def _describe_page(self) -> list[tuple[str, Mapping[str, Any]]]:
        self._side_at, self._is_side_old = time.monotonic(), False
        view = await self._request.host.conversations.show(self._request.caller, self._identity)
        context = _describe_view(self._request, view)
        parts = ("head", "approvals", "side", "controls")
        render = self._request.render_text
        return [
            ("part", {"id": f"conversation-{part}", "html": render(f"conversation_{part}.html", context)})
            for part in parts
        ]


PAGES = (
    ("GET", "/console/conversations", show_conversations),
    ("POST", "/console/conversations", create_conversation, "run"),
    ("GET", "/console/conversations/{conversation_id}", show_conversation),
    ("GET", "/console/conversations/{conversation_id}/live", stream_conversation),
    ("POST", "/console/conversations/{conversation_id}/messages", send_message, "run"),
    ("POST", "/console/conversations/{conversation_id}/cancel", cancel_turn, "run"),
    ("POST", "/console/conversations/{conversation_id}/delete", delete_conversation, "run"),
    ("POST", "/console/conversations/{conversation_id}/approvals/{approval_id}", answer_approval, "run"),
    ("GET", "/console/conversations/{conversation_id}/requests/{number}", show_request),
)
