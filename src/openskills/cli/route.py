"""`openskills route`: which skill a request in words is for, and why."""

import json
import logging
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openskills.cli.invoke import (
    InvokeArguments,
    InvokeTarget,
    Local,
    Timeout,
    TraceId,
    Url,
    open_invoker,
    run_invocation,
    select_output_mode,
)
from openskills.cli.output import escape_line, say, say_json, say_text, warn
from openskills.cli.skills import Json, get_settings, open_catalog
from openskills.errors import HostUnavailable, InvalidArgument

if TYPE_CHECKING:
    from openskills.host.client.client import HostedSkill
    from openskills.host.client.router import PartialInput, RouteDecision
    from openskills.settings import Settings


def route(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A request in words, in English or Chinese.")],
    then_invoke: Annotated[
        bool, typer.Option("--invoke", help="Also invoke the skill with what the text says.")
    ] = False,
    url: Url = None,
    trace_id: TraceId = None,
    timeout: Timeout = None,
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Say which skill a request is for, and why.

    First the rules: `echo:`, then words such as find, mean or log. Then a search over the skills of the host and over
    SKILL.md folders. Nothing fits: the default is echo, and that is said. Without a running host the rules and the
    folders decide alone.

    Examples:
      openskills route "mean and median of 10.5, 9.9, 11.2"
      openskills route "搜索 openSkill" --invoke
      openskills route "echo: hello" --json

    Exit codes: 0; 1 when what was to be invoked failed; 2 for wrong usage, or when the text does not say enough.
    """
    from openskills.host.client.router import extract_input as extracted
    from openskills.telemetry.context import bind

    settings = get_settings(context)
    place = InvokeTarget(url, timeout, local)
    with bind(trace_id) as bound, _log_to_stderr(settings.debug):
        hosted = _list_hosted(place, settings, needed=then_invoke)
        decision = _choose_skill(text, hosted, settings, bound.trace_id)
        found = extracted(decision.selected_skill_id, text)
        skill = next((one for one in hosted or () if one.id == decision.selected_skill_id), None)
        if as_json and not then_invoke:
            say_json(_decision_json(decision, found, hosted, bound.trace_id))
            return
        _explain(decision, hosted, beside=then_invoke)
        if then_invoke:
            wanted = _build_input(decision, found, skill)
            warn(("input", "bold"), f": {escape_line(json.dumps(wanted, ensure_ascii=False))}")
            manner = select_output_mode(None, as_json=as_json)
            asked = InvokeArguments(decision.selected_skill_id, wanted, bound.trace_id, output_mode=manner)
            raise typer.Exit(run_invocation(asked, place, settings))


def _list_hosted(place: InvokeTarget, settings: "Settings", *, needed: bool) -> "tuple[HostedSkill, ...] | None":
    """The skills of the host that can be invoked; None when it cannot be asked, which is said unless it is `needed`."""
    from openskills.sync import run

    async def ask() -> "tuple[HostedSkill, ...]":
        async with open_invoker(place, settings) as host:
            return await host.skills()

    try:
        return tuple(skill for skill in run(ask()) if skill.is_ready)
    except HostUnavailable as error:
        if needed:
            raise
        warn(("warning", "yellow"), f": {escape_line(error.message)}; the rules and SKILL.md folders decide alone")
        return None


def _choose_skill(
    text: str, hosted: "tuple[HostedSkill, ...] | None", settings: "Settings", trace_id: str
) -> "RouteDecision":
    from openskills.host.client.router import RoutableSkill as Offered
    from openskills.host.client.router import Router

    offered = None if hosted is None else [Offered(skill.id, skill.description) for skill in hosted]
    catalog = open_catalog((), settings, asking=False).snapshot.skills
    return Router(offered, catalog).choose(text, trace_id=trace_id)


def _explain(decision: "RouteDecision", hosted: "tuple[HostedSkill, ...] | None", *, beside: bool) -> None:
    chosen, why = escape_line(decision.selected_skill_id), _describe_reason(decision)
    if beside:
        warn(("routed to", "bold"), f" {chosen}: {why}")
    elif sys.stdout.isatty():
        say((chosen, "bold cyan"), f"  {why}")
    else:
        say_text(f"{chosen}\t{decision.routing_reason}")
    for note in decision.notes:
        warn(("note", "yellow"), f": {escape_line(note)}")
    if decision.near:
        warn(f"  others that fit: {', '.join(map(escape_line, decision.near))}")
    if not decision.is_understood:
        _report_no_match(hosted)


def _report_no_match(hosted: "tuple[HostedSkill, ...] | None") -> None:
    from openskills.host.client.router import COMMANDS

    warn(("not understood", "yellow"), ": no rule and no skill fits, so this goes to the default. Say for instance:")
    for command in COMMANDS:
        warn(f"  {command}")
    if hosted:
        warn(f"  or name one of: {', '.join(escape_line(skill.id) for skill in hosted)}")


def _describe_reason(decision: "RouteDecision") -> str:
    return {
        "rule": f"the text says {decision.detail!r}",
        "search": "it fits the words best, of the skills of the host",
        "catalog": "a SKILL.md folder that fits the words; no skill of the host does",
        "default": "nothing fits",
    }[decision.stage]


def _build_input(
    decision: "RouteDecision", found: "PartialInput | None", skill: "HostedSkill | None"
) -> Mapping[str, Any]:
    """What to invoke with. Raises `InvalidArgument` that asks for what the text does not say."""
    chosen = decision.selected_skill_id
    by_hand = f"write it out: openskills invoke {chosen} --input '{{...}}'"
    if decision.stage == "catalog":
        raise InvalidArgument("TEXT", f"{chosen} is a SKILL.md folder and not hosted; try openskills chat, or run")
    if decision.hosted is False:
        raise InvalidArgument("TEXT", f"the host has no skill {chosen!r}, so that nothing can be invoked")
    if found is None:
        needs = (
            f", which needs {', '.join(skill.required_fields)}" if skill is not None and skill.required_fields else ""
        )
        raise InvalidArgument("TEXT", f"nobody knows how to read an input for {chosen} from words{needs}; {by_hand}")
    if found.missing:
        asks = "; ".join(f"{name}: {escape_line(question)}" for name, question in found.missing.items())
        raise InvalidArgument("TEXT", f"{chosen} needs more than the text says. {asks}")
    return found.input


def _decision_json(
    decision: "RouteDecision", found: "PartialInput | None", hosted: "tuple[HostedSkill, ...] | None", trace_id: str
) -> dict[str, Any]:
    return {
        "selected_skill_id": decision.selected_skill_id,
        "routing_reason": decision.routing_reason,
        "trace_id": trace_id,
        "understood": decision.is_understood,
        "hosted": decision.hosted,
        "near": list(decision.near),
        "notes": list(decision.notes),
        "input": dict(found.input) if found is not None else None,
        "missing": dict(found.missing) if found is not None else {},
        "available": None if hosted is None else [skill.id for skill in hosted],
    }


@contextmanager
def _log_to_stderr(debug: bool) -> Generator[None]:
    """With OPENSKILL_DEBUG=1 the line of the log is on stderr, as JSON."""
    if not debug:
        yield
        return
    from openskills.telemetry.context import JsonFormatter

    logger, handler = logging.getLogger("openskills.host.client.router"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
