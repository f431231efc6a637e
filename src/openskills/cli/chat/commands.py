"""Slash commands of the chat, and downloading artifacts to files or stdout."""

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
from openskills.cli.chat.conversation import NO_SKILLS, ChatSession, new_session_name
from openskills.cli.chat.input import SlashCommand, describe_attachment
from openskills.cli.output import Column, escape_line, escape_text, say, show_table
from openskills.errors import InvalidArgument, SkillError, UnknownSkill
from openskills.executors.files.mime import is_text
from openskills.filesystem import TEMPORARY_PREFIX

_MAX_SHOWN_BYTES = 1024 * 1024


async def find_artifacts(store: ArtifactStore, scope: Scope, *, versions: bool) -> Sequence[Artifact]:
    """The artifacts of a session, sorted by name; with `versions` every version of each."""
    latest = await store.list(scope)
    if not versions:
        return latest
    return [one for name in latest for one in await store.versions(scope, name.name)]


async def fetch_artifact(
    store: ArtifactStore, scope: Scope, ref: str, to: str | None, *, bare: bool = False
) -> tuple[Artifact, str | None]:
    """Write an artifact to a file, to a directory under its own name, or to stdout; return it and the path.

    With `bare` stdout was not asked for explicitly, so a terminal gets only text, escaped.
    """
    wanted = parse_ref(ref if ref.startswith(SCHEME) else f"{SCHEME}{ref}")
    async with store.open(scope, wanted.name, wanted.version) as reading:
        if to is None:
            sys.stdout.flush()
            if bare and sys.stdout.isatty():
                sys.stdout.write(escape_text(await _read_text(reading)))
            async for chunk in reading.chunks:
                sys.stdout.buffer.write(chunk)
            sys.stdout.flush()
            return reading.artifact, None
        if not to:
            raise InvalidArgument("--to", "must not be empty; use a file, a directory, or - for stdout")
        path = Path(to).expanduser()
        path = path / os.path.basename(reading.artifact.name) if path.is_dir() else path
        try:
            await _write_file(path, reading.chunks)
        except OSError as error:
            raise SkillError(f"cannot write {path}: {error.strerror or error}") from error
        return reading.artifact, str(path)


async def _read_text(reading: ArtifactReader) -> str:
    """The text of an artifact; raises `InvalidArgument` for one that is too large or not text."""
    artifact, hint = reading.artifact, "choose a file with --to, or use --to - for stdout"
    if artifact.size > _MAX_SHOWN_BYTES:
        raise InvalidArgument("--to", f"{artifact.ref} has {artifact.size:,} bytes; {hint}")
    data = b"".join([chunk async for chunk in reading.chunks])
    if not is_text(data):
        raise InvalidArgument("--to", f"{artifact.ref} is not text; {hint}")
    return data.decode("utf-8")


async def _write_file(path: Path, chunks: AsyncIterator[bytes]) -> None:
    """Write a file atomically; an existing device or pipe is written to directly."""
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        with open(path, "wb") as file:
            async for chunk in chunks:
                file.write(chunk)
        return
    # Replace the target of a link, not the link.
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            async for chunk in chunks:
                file.write(chunk)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _CommandEntry:
    usage: str
    help: str
    run: Callable[[ChatSession, str], Awaitable[None]]


class ChatExit(Exception):
    """The user has ended the chat."""


async def run_slash_command(talk: ChatSession, command: SlashCommand) -> bool:
    """Run a slash command; the name of a skill sends the rest to the agent with that skill loaded.

    Returns False when the agent did not answer. Raises `ChatExit` to end the chat, and `SkillError` when it fails.
    """
    known = SLASH_COMMANDS.get(command.name or "help")
    if known is not None:
        await known.run(talk, command.rest)
        return True
    try:
        skill = talk.find_skill(command.name)
    except UnknownSkill as error:
        near = [f"/{name}" for name in (*get_close_matches(command.name, SLASH_COMMANDS, n=2), *error.near)]
        hint = f"did you mean {' or '.join(near)}?" if near else "/help lists the commands"
        raise InvalidArgument(f"/{command.name}", f"unknown command or skill; {hint}") from None
    text = f"Use the skill {skill.name}: {command.rest}" if command.rest else f"Use the skill {skill.name}."
    return await talk.send(text, [skill.name])


async def _help(_talk: ChatSession, _rest: str) -> None:
    width = max(len(one.usage) for one in SLASH_COMMANDS.values())
    for one in SLASH_COMMANDS.values():
        say((one.usage.ljust(width), "bold"), f"  {one.help}")
    say("In a message, $NAME loads a skill and @PATH attaches a file. Ctrl-C stops a run, Ctrl-D ends the chat.")


async def _skills(talk: ChatSession, _rest: str) -> None:
    await asyncio.to_thread(talk.runtime.catalog.refresh)
    snapshot = talk.runtime.catalog.snapshot
    loaded = {*talk.session.loaded_skills(), *talk.loads}
    rows = [(skill, "loaded" if skill.name in loaded else "") for skill in snapshot.skills]
    rows += [(hidden.skill, f"hidden: {hidden.reason}") for hidden in snapshot.hidden.values()]
    columns = (Column("name", "bold cyan"), Column("", "green"), Column("description", wide=True))
    show_table(columns, [(skill.name, state, skill.description) for skill, state in rows])
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
    name = escape_line(skill.name)
    say(f"{name} is loaded for all following messages; /unload {name} unloads it")


async def _unload(talk: ChatSession, rest: str) -> None:
    if not rest:
        raise InvalidArgument("/unload", "which skill? /skills shows what is loaded")
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
        say(f"attached to the next message: {describe_attachment(file)}")
    if not talk.files:
        raise InvalidArgument("/attach", "which file? As in: /attach data/sales.csv")


async def _files(talk: ChatSession, rest: str) -> None:
    if any(tool["name"] == "list_files" for tool in talk.session.tools("mcp")):
        result = await talk.session.call("list_files", {"glob": rest or None})
        say(escape_text(result.raise_for_error().text))
    artifacts = await talk.runtime.artifacts.list(talk.session.scope)
    for artifact in artifacts:
        say(f"{escape_line(artifact.ref)}\t{artifact.size}")
    if not artifacts:
        say("[no artifacts yet]")


async def _save(talk: ChatSession, rest: str) -> None:
    ref, _, to = rest.partition(" ")
    if not ref:
        raise InvalidArgument("/save", "which artifact? /files lists them; as in: /save out/report.md report.md")
    artifact, path = await fetch_artifact(talk.runtime.artifacts, talk.session.scope, ref, to.strip() or ".")
    say(f"{escape_line(artifact.ref)}: {artifact.size:,} bytes in {escape_line(str(path))}")


async def _tokens(talk: ChatSession, _rest: str) -> None:
    for line in talk.tokens.format_lines(await talk.session.events(), talk.runtime.catalog.skills):
        say(line)


async def _session(talk: ChatSession, _rest: str) -> None:
    say(talk.session.scope.session)


async def _model(talk: ChatSession, rest: str) -> None:
    if rest:
        await talk.set_model(rest)
    model = talk.agent.model if talk.agent is not None else ""
    say(f"model: {escape_line(model if isinstance(model, str) else model.name)}")


async def _new(talk: ChatSession, rest: str) -> None:
    old = talk.session.scope.session
    await talk.start_session(rest or new_session_name())
    say(f"new conversation {escape_line(talk.session.scope.session)}; `--session {escape_line(old)}` continues the old")


async def _quit(_talk: ChatSession, _rest: str) -> None:
    raise ChatExit


SLASH_COMMANDS = {
    "help": _CommandEntry("/help", "show this list", _help),
    "skills": _CommandEntry("/skills", "list the skills, and which are loaded", _skills),
    "load": _CommandEntry("/load NAME [DOC...]", "load a skill, with documents, for all following messages", _load),
    "unload": _CommandEntry("/unload NAME", "unload a skill", _unload),
    "attach": _CommandEntry("/attach FILE", "send a file with the next message", _attach),
    "files": _CommandEntry("/files [GLOB]", "list the files of the workspace, and the artifacts", _files),
    "save": _CommandEntry("/save NAME [FILE]", "save an artifact to a file, or in this directory", _save),
    "tokens": _CommandEntry("/tokens", "show what the conversation costs", _tokens),
    "model": _CommandEntry("/model [NAME]", "show the model, or use another one from now on", _model),
    "new": _CommandEntry("/new [NAME]", "start a new conversation", _new),
    "session": _CommandEntry("/session", "show the name of this conversation, for --session", _session),
    "quit": _CommandEntry("/quit", "end the chat; --session NAME continues it", _quit),
    "exit": _CommandEntry("/exit", "same as /quit", _quit),
}
"""The slash commands by name. A skill of the same name can be loaded with `$NAME`."""


def complete_word(talk: ChatSession, begun: str) -> Sequence[str]:
    """Completions for a word that begins with `/` or `$`."""
    names = [skill.name for skill in talk.runtime.catalog.skills if skill.manifest.user_invocable]
    words = [*(f"/{name}" for name in (*SLASH_COMMANDS, *names)), *(f"${name}" for name in names)]
    return sorted({word for word in words if word.startswith(begun)})
