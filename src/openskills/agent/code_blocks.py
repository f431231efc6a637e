"""Fenced code blocks in answers, run in the workspace. Only for agents that ask for it."""

import re

from openskills.agent.agent import Agent
from openskills.agent.log import Message
from openskills.agent.turn import Done, Turn
from openskills.errors import SkillError
from openskills.executors.requests import RunRequest
from openskills.executors.stored import shown
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE

_FENCE = "```"
_OPENING = re.compile(r"```([\w+-]*)(?:\s.*)?")
_PROGRAMS = {"python": "python3", "py": "python3", "python3": "python3", "bash": "bash", "sh": "sh", "shell": "bash"}
_MOST_ROUNDS = 5
_SHOWN = 4_000


def blocks(text: str) -> list[tuple[str, str]]:
    """Program and code of every closed block that can be run."""
    found: list[tuple[str, str]] = []
    program: str | None = None
    code: list[str] | None = None
    for line in text.splitlines():
        if code is None:
            opening = _OPENING.fullmatch(line)
            if opening:
                program, code = _PROGRAMS.get(opening[1].lower()), []
        elif line.rstrip() == _FENCE:
            if program is not None:
                found.append((program, "".join(f"{one}\n" for one in code)))
            code = None
        else:
            code.append(line)
    return found


async def with_code_blocks(agent: Agent, session: SkillSession, turn: Turn, messages: list[Message]) -> Done:
    """The turn to its end; with `code_blocks`, blocks of an answer are run, and the model goes on with their output.

    Where the session's model has no tool that runs commands, as with the profile `knowledge_only`, no block is run.
    """
    done = await turn.run()
    rounds = 0
    runs = agent.code_blocks and session.runs_commands
    while runs and rounds < _MOST_ROUNDS and (found := blocks(done.text)):
        rounds += 1
        outputs = [await _output(session, program, code) for program, code in found]
        message: Message = {"role": "user", "content": "Output of your code:\n\n" + "\n\n".join(outputs)}
        await session.log(MESSAGE, {"to": agent.name, "message": message, "why": "code blocks"})
        messages.append(message)
        done = await turn.run()
    return done


async def _output(session: SkillSession, program: str, code: str) -> str:
    options = session.options
    request = RunRequest(
        (program, "-"),
        stdin=code.encode("utf-8", "replace"),
        cwd="$WORK_DIR",
        env=options.environment,
        limits=options.limits,
        network=options.network,
    )
    try:
        ran = await (await session.bench()).run(request)
    except SkillError as error:
        return f"error: {error.message}"
    result = shown(ran)
    parts = [part for part in (result["stdout"], result["stderr"]) if part]
    text = "\n".join(parts)[:_SHOWN] or "(no output)"
    return f"exit code {result['exit_code']}\n{text}"
