"""`GET /skills`, `GET /skills/{id}`, `GET /tools`: what the host offers."""

from urllib.parse import parse_qs

from openskills.host.books.keys import Principal
from openskills.host.parts import Parts
from openskills.host.routes.describing import described
from openskills.host.routes.tool_export import tools
from openskills.host.wire.answers import Answer, document
from openskills.host.wire.exchange import Exchange


async def list_skills(exchange: Exchange, parts: Parts, principal: Principal) -> Answer:
    """Every skill that the caller may know of, broken ones with what is wrong."""
    entries = (entry for entry in parts.registry.entries() if principal.may(entry.id))
    return document(
        {"skills": [described(entry, parts.start) for entry in entries]}, exchange.trace, latency_ms=exchange.latency_ms
    )


async def show_skill(exchange: Exchange, parts: Parts, principal: Principal) -> Answer:
    """One of them."""
    name = exchange.scope["path_params"]["skill_id"]
    entry = parts.registry.entry(name)
    if not principal.may(entry.id):
        parts.host.find(name, principal)
    return document(described(entry, parts.start), exchange.trace, skill_id=entry.id, latency_ms=exchange.latency_ms)


async def export_tools(exchange: Exchange, parts: Parts, principal: Principal) -> Answer:
    """Skills that can be called, as tools for models: `?format=openai|openai-chat|anthropic|mcp`."""
    query = parse_qs(exchange.scope["query_string"].decode("latin-1"), keep_blank_values=True)
    form = query.get("format", ["openai"])[-1]
    entries = parts.registry.entries()
    ready = {entry.id for entry in entries if entry.status == "ready"}
    offered = [one for one in parts.registry.all() if one.id in ready and principal.may(one.id)]
    made = tools(offered, form, known=[entry.id for entry in entries])
    return document({"format": form, "tools": made}, exchange.trace, latency_ms=exchange.latency_ms)
