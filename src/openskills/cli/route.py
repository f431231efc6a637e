"""`openskills route`: choose the skill for a request in natural language."""

import json
import logging
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openskills.cli.invoke import InvokeArguments, InvokeTarget, TraceId, is_live, open_invoker, run_invocation
from openskills.cli.output import escape_line, say, say_json, say_text, warn
from openskills.cli.parameters import Json, Paths, Skills, argument
from openskills.cli.skills import open_catalog
from openskills.errors import HostUnavailable, InvalidArgument
from openskills.settings import Settings
from openskills.sync import run

if TYPE_CHECKING:
    from openskills.host.client.client import HostedSkill
    from openskills.host.client.router import PartialInput, RouteDecision


def route(
    settings: Settings,
    text: Annotated[str, argument("TEXT", "A request, in English or Chinese.")],
    target: InvokeTarget,
    paths: Paths = None,
    skills: Skills = None,
    then_invoke: Annotated[bool, typer.Option("--invoke", help="Also invoke the chosen skill.")] = False,
    trace_id: TraceId = None,
    as_json: Json = False,
) -> None:
    """Choose the skill for a request, and explain why.

    Tries rules first (`echo:`, then words such as find, mean or log), then searches the skills of the host and SKILL.md
    folders. If nothing matches, the default is echo. Without a running host only rules and folders are used.

    Examples:
      openskills route "mean and median of 10.5, 9.9, 11.2"
      openskills route "搜索 openSkill" --invoke
      openskills route "echo: hello" --json

    Exit codes: 0 done, 1 the invoked skill failed, 2 wrong usage, or the text lacks required input.
    """
    from openskills.host.client.router import RoutableSkill, Router, extract_input
    from openskills.telemetry.context import bind

    with bind(trace_id) as bound, _log_to_stderr(settings.debug):
        hosted = _list_hosted(target, settings, required=then_invoke)
        catalog = open_catalog([*(paths or ()), *(skills or ())], settings, asking=False).skills
        offered = None if hosted is None else [RoutableSkill(skill.id, skill.description) for skill in hosted]
        decision = Router(offered, catalog).choose(text, trace_id=bound.trace_id)
        found = extract_input(decision.selected_skill_id, text)
        skill = next((one for one in hosted or () if one.id == decision.selected_skill_id), None)
        if as_json and not then_invoke:
            say_json(_decision_json(decision, found, hosted, bound.trace_id))
            return
        _explain(decision, hosted, to_stderr=then_invoke)
        if then_invoke:
            skill_input = _build_input(decision, found, skill)
            warn(("input", "bold"), f": {escape_line(json.dumps(skill_input, ensure_ascii=False))}")
            live = is_live(None, as_json=as_json)
            call = InvokeArguments(decision.selected_skill_id, skill_input, bound.trace_id, None, live, as_json)
            raise typer.Exit(run_invocation(call, target, settings))


def _list_hosted(target: InvokeTarget, settings: Settings, *, required: bool) -> "tuple[HostedSkill, ...] | None":
    """The ready skills of the host; None, with a warning, when it is unavailable and not `required`."""

    async def list_skills() -> "tuple[HostedSkill, ...]":
        async with open_invoker(target, settings) as host:
            return await host.skills()

    try:
        return tuple(skill for skill in run(list_skills()) if skill.is_ready)
    except HostUnavailable as error:
        if required:
            raise
        warn(("warning", "yellow"), f": {escape_line(error.message)}; using only rules and SKILL.md folders")
        return None


def _explain(decision: "RouteDecision", hosted: "tuple[HostedSkill, ...] | None", *, to_stderr: bool) -> None:
    from openskills.host.client.router import COMMANDS

    chosen = escape_line(decision.selected_skill_id)
    why = {
        "rule": f"the text says {decision.detail!r}",
        "search": "the best match among the skills of the host",
        "catalog": "a matching SKILL.md folder; no skill of the host matches",
        "default": "nothing matches",
    }[decision.stage]
    if to_stderr:
        warn(("routed to", "bold"), f" {chosen}: {why}")
    elif sys.stdout.isatty():
        say((chosen, "bold cyan"), f"  {why}")
    else:
        say_text(f"{chosen}\t{decision.routing_reason}")
    for note in decision.notes:
        warn(("note", "yellow"), f": {escape_line(note)}")
    if decision.near:
        warn(f"  other matches: {', '.join(map(escape_line, decision.near))}")
    if not decision.is_understood:
        warn(("not understood", "yellow"), ": no rule or skill matches, so the default is used. Try for example:")
        for command in COMMANDS:
            warn(f"  {command}")
        if hosted:
            warn(f"  or name one of: {', '.join(escape_line(skill.id) for skill in hosted)}")


def _build_input(
    decision: "RouteDecision", found: "PartialInput | None", skill: "HostedSkill | None"
) -> Mapping[str, Any]:
    """The input for the chosen skill. Raises `InvalidArgument` that names the missing fields."""
    chosen = decision.selected_skill_id
    if decision.stage == "catalog":
        raise InvalidArgument(
            "TEXT", f"{chosen} is a SKILL.md folder and cannot be invoked; use openskills chat or openskills run"
        )
    if decision.hosted is False:
        raise InvalidArgument("TEXT", f"the host has no skill {chosen!r}")
    if found is None:
        needs = f" ({', '.join(skill.required_fields)})" if skill is not None and skill.required_fields else ""
        hint = f"use: openskills invoke {chosen} --input '{{...}}'"
        raise InvalidArgument("TEXT", f"cannot extract the input of {chosen}{needs} from text; {hint}")
    if found.missing:
        asks = "; ".join(f"{name}: {escape_line(question)}" for name, question in found.missing.items())
        raise InvalidArgument("TEXT", f"{chosen} needs more input. {asks}")
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
    """With OPENSKILL_DEBUG=1, write the log of the router to stderr as JSON."""
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
