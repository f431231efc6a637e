"""What can be ordered in a chat with a slash."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from openskills.agent.declared import Load
from openskills.artifacts.store import Artifact
from openskills.cli.chat_artifacts import fetched
from openskills.cli.chat_files import shown
from openskills.cli.chat_lines import whole
from openskills.cli.chat_talk import NO_SKILLS, Talk
from openskills.cli.chat_words import Order
from openskills.cli.output import plain, say
from openskills.cli.table import Column, show_table
from openskills.errors import InvalidArgument, UnknownSkill


@dataclass(frozen=True, slots=True)
class _Help:
    """How an order is written, and what it does."""

    usage: str
    does: str
    run: Callable[[Talk, str], Awaitable[None]]


class Ended(Exception):
    """The person wants to leave."""


async def obey(talk: Talk, order: Order) -> bool:
    """Do what was ordered; the name of a skill sends the rest to the agent with that skill loaded.

    Gives False when that had no answer. Raises `Ended` when it was to leave, and `SkillError` when it cannot be done.
    """
    known = ORDERS.get(order.name or "help")
    if known is not None:
        await known.run(talk, order.rest)
        return True
    try:
        skill = talk.skill(order.name)
    except UnknownSkill as error:
        near = [f"/{name}" for name in (*get_close_matches(order.name, ORDERS, n=2), *error.near)]
        hint = f"did you mean {' or '.join(near)}?" if near else "/help shows what there is"
        raise InvalidArgument(f"/{order.name}", f"there is neither an order nor a skill of that name; {hint}") from None
    text = f"Use the skill {skill.name}: {order.rest}" if order.rest else f"Use the skill {skill.name}."
    return await talk.say(text, [skill.name])


async def _help(talk: Talk, rest: str) -> None:
    del talk, rest
    width = max(len(one.usage) for one in ORDERS.values())
    for one in ORDERS.values():
        say((one.usage.ljust(width), "bold"), f"  {one.does}")
    say("In a message, $NAME uses a skill and @PATH sends a file. Ctrl-C stops a run, Ctrl-D ends the chat.")


async def _skills(talk: Talk, rest: str) -> None:
    del rest
    await asyncio.to_thread(talk.runtime.catalog.refresh)
    snapshot = talk.runtime.catalog.snapshot
    loaded = {*talk.session.loaded_skills(), *talk.loads}
    rows = [(skill, "loaded" if skill.name in loaded else "") for skill in snapshot.skills]
    rows += [(hidden.skill, f"hidden: {plain(hidden.reason)}") for hidden in snapshot.hidden.values()]
    columns = (Column("name", "bold cyan"), Column("", "green"), Column("description", wide=True))
    show_table(columns, [(plain(skill.name), state, plain(skill.description)) for skill, state in rows])
    if not rows:
        say(NO_SKILLS)


async def _load(talk: Talk, rest: str) -> None:
    words = rest.split()
    if not words:
        raise InvalidArgument("/load", "which skill? /skills lists them")
    skill = talk.skill(words[0])
    with talk.runtime.catalog.inviting([skill.name]):
        result = await talk.session.call("skill_load", {"skill": skill.name, "docs": words[1:] or None})
    result.checked()
    talk.loads[skill.name] = Load(skill.name, tuple(words[1:]) or None)
    say(f"{plain(skill.name)} is loaded, from now on with every message; /unload {plain(skill.name)} ends that")


async def _unload(talk: Talk, rest: str) -> None:
    if not rest:
        raise InvalidArgument("/unload", "which skill? /skills says what is loaded")
    name = talk.skill(rest).name
    talk.loads.pop(name, None)
    with talk.runtime.catalog.inviting([name]):
        result = await talk.session.call("skill_unload", {"skill": name})
    say(plain(result.checked().text))


async def _attach(talk: Talk, rest: str) -> None:
    path = rest.strip("\"'") if rest[:1] in "\"'" else rest
    if path:
        talk.attach(path)
        return
    for file in talk.files:
        say(f"goes with the next message: {shown(file)}")
    if not talk.files:
        raise InvalidArgument("/attach", "which file? As in: /attach data/sales.csv")


async def _files(talk: Talk, rest: str) -> None:
    if any(tool["name"] == "list_files" for tool in talk.session.tools("mcp")):
        result = await talk.session.call("list_files", {"glob": rest or None})
        say(whole(result.checked().text))
    artifacts = await talk.runtime.artifacts.list(talk.session.scope)
    for artifact in artifacts:
        say(artifact_line(artifact))
    if not artifacts:
        say("[no artifacts yet]")


async def _save(talk: Talk, rest: str) -> None:
    ref, _, to = rest.partition(" ")
    if not ref:
        raise InvalidArgument("/save", "which artifact? /files lists them; as in: /save out/report.md report.md")
    artifact, path = await fetched(talk.runtime.artifacts, talk.session.scope, ref, to.strip() or ".")
    say(f"{plain(artifact.ref)}: {artifact.size:,} bytes in {plain(str(path))}")


def artifact_line(artifact: Artifact) -> str:
    """An artifact for a person."""
    return f"{plain(artifact.ref)}\t{artifact.size}"


async def _tokens(talk: Talk, rest: str) -> None:
    del rest
    for line in talk.tokens.lines(await talk.session.events(), talk.runtime.catalog.skills):
        say(line)


async def _session(talk: Talk, rest: str) -> None:
    del rest
    say(talk.session.scope.session)


async def _quit(talk: Talk, rest: str) -> None:
    del talk, rest
    raise Ended


ORDERS = {
    "help": _Help("/help", "this list", _help),
    "skills": _Help("/skills", "the skills that there are now, and which are loaded", _skills),
    "load": _Help("/load NAME [DOC...]", "load a skill, with documents of it, for all messages to come", _load),
    "unload": _Help("/unload NAME", "end that", _unload),
    "attach": _Help("/attach FILE", "send a file with the next message", _attach),
    "files": _Help("/files [GLOB]", "the files of the workspace, and the artifacts", _files),
    "save": _Help("/save NAME [FILE]", "put an artifact into a file of yours, or into this directory", _save),
    "tokens": _Help("/tokens", "what the conversation costs", _tokens),
    "session": _Help("/session", "the name of this conversation, for --session", _session),
    "quit": _Help("/quit", "end the chat; --session NAME goes on with it", _quit),
    "exit": _Help("/exit", "the same", _quit),
}
"""Every order by its name. A skill of the same name is had with `$NAME`."""


def completions(talk: Talk, begun: str) -> Sequence[str]:
    """How a word that was begun with `/` or `$` may go on."""
    names = [skill.name for skill in talk.runtime.catalog.skills if skill.manifest.user_invocable]
    words = [*(f"/{name}" for name in (*ORDERS, *names)), *(f"${name}" for name in names)]
    return sorted({word for word in words if word.startswith(begun)})
