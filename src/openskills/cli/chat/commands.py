"""Slash commands.

Artifacts from a store into files, or to stdout.

What can be ordered in a chat with a slash.
"""

import asyncio
import os
import secrets
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from openskills.agent.subagent import Load
from openskills.artifacts.store import SCHEME, Artifact, ArtifactReader, ArtifactStore, Scope, parse_ref
from openskills.cli.chat.conversation import NO_SKILLS, ChatSession
from openskills.cli.chat.input import SlashCommand, describe_attachment
from openskills.cli.chat.view import escape_text
from openskills.cli.output import Column, escape_line, say, show_table
from openskills.errors import InvalidArgument, SkillError, UnknownSkill
from openskills.executors.files.mime import is_text
from openskills.filesystem import TEMPORARY_PREFIX

_MAX_SHOWN_BYTES = 1024 * 1024


async def find_artifacts(store: ArtifactStore, scope: Scope, *, versions: bool) -> Sequence[Artifact]:
    """The artifacts that a session can reach, by name; with `versions` every version of each."""
    latest = await store.list(scope)
    if not versions:
        return latest
    return [one for name in latest for one in await store.versions(scope, name.name)]


async def fetch_artifact(
    store: ArtifactStore, scope: Scope, ref: str, to: str | None, *, bare: bool = False
) -> tuple[Artifact, str | None]:
    """Put an artifact into a file, or into a directory under its own name, or on stdout; gives it and the path.

    `bare`: nobody has said that it is to go to stdout, so a terminal gets it only when it is text, made safe.
    """
    wanted = parse_ref(ref if ref.startswith(SCHEME) else f"{SCHEME}{ref}")
    async with store.open(scope, wanted.name, wanted.version) as reading:
        if to is None:
            await _print_artifact(reading, shows=bare and sys.stdout.isatty())
            return reading.artifact, None
        if not to:
            raise InvalidArgument("--to", "is empty; name a file, a directory, or - for stdout")
        path = _target_path(Path(to).expanduser(), reading.artifact)
        try:
            await _write_file(path, reading.chunks)
        except OSError as error:
            raise SkillError(f"{path} cannot be written: {error.strerror or error}") from error
        return reading.artifact, str(path)


async def _print_artifact(reading: ArtifactReader, *, shows: bool) -> None:
    sys.stdout.flush()
    if shows:
        sys.stdout.write(escape_text(await _read_text(reading)))
    async for chunk in reading.chunks:
        sys.stdout.buffer.write(chunk)
    sys.stdout.flush()


async def _read_text(reading: ArtifactReader) -> str:
    """The text of an artifact; raises `InvalidArgument` for what nobody wants on a terminal."""
    artifact, where = reading.artifact, "say with --to in which file to put it, or --to - for stdout"
    if artifact.size > _MAX_SHOWN_BYTES:
        raise InvalidArgument("--to", f"{artifact.ref} has {artifact.size:,} bytes; {where}")
    data = b"".join([chunk async for chunk in reading.chunks])
    if not is_text(data):
        raise InvalidArgument("--to", f"{artifact.ref} is no text; {where}")
    return data.decode("utf-8")


def _target_path(path: Path, artifact: Artifact) -> Path:
    return path / os.path.basename(artifact.name) if path.is_dir() else path


async def _write_file(path: Path, chunks: AsyncIterator[bytes]) -> None:
    """Write a file whole or not at all; what is no regular file, such as a device, is written into."""
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        with open(path, "wb") as file:
            async for chunk in chunks:
                file.write(chunk)
        return
    # Where a link leads, so that it stays a link.
    place = Path(os.path.realpath(path))
    arriving = place.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
    try:
        with open(arriving, "xb") as file:
            async for chunk in chunks:
                file.write(chunk)
        os.replace(arriving, place)
    finally:
        arriving.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _SlashCommandEntry:
    """How an order is written, and what it does."""

    usage: str
    does: str
    run: Callable[[ChatSession, str], Awaitable[None]]


class ChatExit(Exception):
    """The person wants to leave."""


async def run_slash_command(talk: ChatSession, order: SlashCommand) -> bool:
    """Do what was ordered; the name of a skill sends the rest to the agent with that skill loaded.

    Gives False when that had no answer. Raises `Ended` when it was to leave, and `SkillError` when it cannot be done.
    """
    known = SLASH_COMMANDS.get(order.name or "help")
    if known is not None:
        await known.run(talk, order.rest)
        return True
    try:
        skill = talk.find_skill(order.name)
    except UnknownSkill as error:
        near = [f"/{name}" for name in (*get_close_matches(order.name, SLASH_COMMANDS, n=2), *error.near)]
        hint = f"did you mean {' or '.join(near)}?" if near else "/help shows what there is"
        raise InvalidArgument(f"/{order.name}", f"there is neither an order nor a skill of that name; {hint}") from None
    text = f"Use the skill {skill.name}: {order.rest}" if order.rest else f"Use the skill {skill.name}."
    return await talk.send(text, [skill.name])


async def _help(talk: ChatSession, rest: str) -> None:
    del talk, rest
    width = max(len(one.usage) for one in SLASH_COMMANDS.values())
    for one in SLASH_COMMANDS.values():
        say((one.usage.ljust(width), "bold"), f"  {one.does}")
    say("In a message, $NAME uses a skill and @PATH sends a file. Ctrl-C stops a run, Ctrl-D ends the chat.")


async def _skills(talk: ChatSession, rest: str) -> None:
    del rest
    await asyncio.to_thread(talk.runtime.catalog.refresh)
    snapshot = talk.runtime.catalog.snapshot
    loaded = {*talk.session.loaded_skills(), *talk.loads}
    rows = [(skill, "loaded" if skill.name in loaded else "") for skill in snapshot.skills]
    rows += [(hidden.skill, f"hidden: {escape_line(hidden.reason)}") for hidden in snapshot.hidden.values()]
    columns = (Column("name", "bold cyan"), Column("", "green"), Column("description", wide=True))
    show_table(columns, [(escape_line(skill.name), state, escape_line(skill.description)) for skill, state in rows])
    if not rows:
        say(NO_SKILLS)


async def _load(talk: ChatSession, rest: str) -> None:
    words = rest.split()
    if not words:
        raise InvalidArgument("/load", "which skill? /skills lists them")
    skill = talk.find_skill(words[0])
    with talk.runtime.catalog.reveal([skill.name]):
        result = await talk.session.call("skill_load", {"skill": skill.name, "docs": words[1:] or None})
    result.raise_for_error()
    talk.loads[skill.name] = Load(skill.name, tuple(words[1:]) or None)
    say(
        f"{escape_line(skill.name)} is loaded, from now on with every message; "
        f"/unload {escape_line(skill.name)} ends that"
    )


async def _unload(talk: ChatSession, rest: str) -> None:
    if not rest:
        raise InvalidArgument("/unload", "which skill? /skills says what is loaded")
    name = talk.find_skill(rest).name
    talk.loads.pop(name, None)
    with talk.runtime.catalog.reveal([name]):
        result = await talk.session.call("skill_unload", {"skill": name})
    say(escape_line(result.raise_for_error().text))


async def _attach(talk: ChatSession, rest: str) -> None:
    path = rest.strip("\"'") if rest[:1] in "\"'" else rest
    if path:
        talk.attach(path)
        return
    for file in talk.files:
        say(f"goes with the next message: {describe_attachment(file)}")
    if not talk.files:
        raise InvalidArgument("/attach", "which file? As in: /attach data/sales.csv")


async def _files(talk: ChatSession, rest: str) -> None:
    if any(tool["name"] == "list_files" for tool in talk.session.tools("mcp")):
        result = await talk.session.call("list_files", {"glob": rest or None})
        say(escape_text(result.raise_for_error().text))
    artifacts = await talk.runtime.artifacts.list(talk.session.scope)
    for artifact in artifacts:
        say(format_artifact(artifact))
    if not artifacts:
        say("[no artifacts yet]")


async def _save(talk: ChatSession, rest: str) -> None:
    ref, _, to = rest.partition(" ")
    if not ref:
        raise InvalidArgument("/save", "which artifact? /files lists them; as in: /save out/report.md report.md")
    artifact, path = await fetch_artifact(talk.runtime.artifacts, talk.session.scope, ref, to.strip() or ".")
    say(f"{escape_line(artifact.ref)}: {artifact.size:,} bytes in {escape_line(str(path))}")


def format_artifact(artifact: Artifact) -> str:
    """An artifact for a person."""
    return f"{escape_line(artifact.ref)}\t{artifact.size}"


async def _tokens(talk: ChatSession, rest: str) -> None:
    del rest
    for line in talk.tokens.format_lines(await talk.session.events(), talk.runtime.catalog.skills):
        say(line)


async def _session(talk: ChatSession, rest: str) -> None:
    del rest
    say(talk.session.scope.session)


async def _quit(talk: ChatSession, rest: str) -> None:
    del talk, rest
    raise ChatExit


SLASH_COMMANDS = {
    "help": _SlashCommandEntry("/help", "this list", _help),
    "skills": _SlashCommandEntry("/skills", "the skills that there are now, and which are loaded", _skills),
    "load": _SlashCommandEntry(
        "/load NAME [DOC...]", "load a skill, with documents of it, for all messages to come", _load
    ),
    "unload": _SlashCommandEntry("/unload NAME", "end that", _unload),
    "attach": _SlashCommandEntry("/attach FILE", "send a file with the next message", _attach),
    "files": _SlashCommandEntry("/files [GLOB]", "the files of the workspace, and the artifacts", _files),
    "save": _SlashCommandEntry(
        "/save NAME [FILE]", "put an artifact into a file of yours, or into this directory", _save
    ),
    "tokens": _SlashCommandEntry("/tokens", "what the conversation costs", _tokens),
    "session": _SlashCommandEntry("/session", "the name of this conversation, for --session", _session),
    "quit": _SlashCommandEntry("/quit", "end the chat; --session NAME goes on with it", _quit),
    "exit": _SlashCommandEntry("/exit", "the same", _quit),
}
"""Every order by its name. A skill of the same name is had with `$NAME`."""


def complete_word(talk: ChatSession, begun: str) -> Sequence[str]:
    """How a word that was begun with `/` or `$` may go on."""
    names = [skill.name for skill in talk.runtime.catalog.skills if skill.manifest.user_invocable]
    words = [*(f"/{name}" for name in (*SLASH_COMMANDS, *names)), *(f"${name}" for name in names)]
    return sorted({word for word in words if word.startswith(begun)})
