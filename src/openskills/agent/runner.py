"""Runs an agent: one message of a user in, events out, everything in the session's log."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

from openskills.agent.agent import Agent
from openskills.agent.attached_line import with_files
from openskills.agent.attachments import Attachment, found_as, in_log, keep, offer
from openskills.agent.call_ids import CallIds
from openskills.agent.code_blocks import with_code_blocks
from openskills.agent.declared import Load, declare
from openskills.agent.log import END, ERROR, INTERRUPTED, Message, last_turn, transcript, unanswered
from openskills.agent.model import ChoosesSkills, Usage
from openskills.agent.model_calls import ModelCalls
from openskills.agent.stream import PATIENCE, Stream
from openskills.agent.subagent import Work, as_tools, forking
from openskills.agent.turn import Done, Turn
from openskills.artifacts.store import Scope
from openskills.errors import SkillError
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE, TOOL_RESPONSE, USER, Event
from openskills.trace import bind


@dataclass(frozen=True, slots=True)
class Reply:
    """What a run came to: the answer, its events, what it cost; `error` when it did not get to an answer."""

    text: str
    events: tuple[Event, ...]
    usage: Usage
    error: Mapping[str, Any] | None = None


class Runner:
    """Runs one agent for the users of an application. Runs of one session come one after the other.

    `patience` is how many seconds a run waits for somebody who does not read on.
    """

    def __init__(self, app: str, agent: Agent, *, patience: float = PATIENCE) -> None:
        self._app = app
        self._agent = agent
        self._patience = patience

    async def run(
        self,
        *,
        user: str,
        session: str,
        message: str,
        files: Sequence[Attachment] = (),
        loads: Sequence[Load] = (),
        options: SessionOptions | None = None,
        runtime: SkillRuntime | None = None,
        instructions: str = "",
    ) -> AsyncGenerator[Event]:
        """Let the agent answer a message of the user, and give every event as it happens.

        The last one is `end`, or `error` when there is no answer; neither is raised. `loads` are skills that are loaded
        before the model is asked; one that cannot be is raised before anything has happened. `options`, `runtime` and
        `instructions` take the place of the agent's for this run.

        Whoever reads slowly makes the run wait. Closing the generator ends the run and everything that it has started.
        Whoever keeps it and does not read on has it ended, with an `error`, when the runner's patience is at its end.
        """
        agent = _within(self._agent, runtime)
        agent = replace(agent, options=options or agent.options)
        stream = Stream(patience=self._patience)
        wishes = _Wishes(user, session, message, tuple(files), tuple(loads), agent.options, instructions)
        task = asyncio.get_running_loop().create_task(self._work(agent, wishes, stream))
        task.add_done_callback(lambda _: stream.end())
        try:
            while (event := await stream.get()) is not None:
                yield event
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def reply(self, *, user: str, session: str, message: str, **more: Any) -> Reply:
        """The same to its end, as one value: `run(Runner("app", agent).reply(...)).text`."""
        events = [event async for event in self.run(user=user, session=session, message=message, **more)]
        last = next(
            event for event in reversed(events) if event.kind in (END, ERROR) and event.author == self._agent.name
        )
        usage = Usage(**last.payload.get("usage", {}))
        if last.kind == ERROR:
            return Reply("", tuple(events), usage, dict(last.payload))
        return Reply(last.payload["text"], tuple(events), usage)

    async def _work(self, agent: Agent, wishes: "_Wishes", stream: Stream) -> None:
        # Held by the run and not by its reader: one that has stopped to read must not keep others out.
        alone = self._agent.runtime.one_run_at_a_time(Scope(self._app, wishes.user, wishes.session))
        with bind(session=wishes.session, agent=agent.name):
            async with alone, self._opened(agent, wishes) as session:
                session.records_calls = True
                with session.listening(stream.put):
                    await self._conversed(agent, session, wishes, stream)

    def _opened(self, agent: Agent, wishes: "_Wishes") -> AbstractAsyncContextManager[SkillSession]:
        return agent.runtime.session(
            wishes.session, agent=agent.name, user=wishes.user, app=self._app, options=wishes.options
        )

    async def _conversed(self, agent: Agent, session: SkillSession, wishes: "_Wishes", stream: Stream) -> None:
        await declare(session, wishes.loads, session.options.max_loaded_skills)
        done = Done()
        try:
            done = await self._answered(agent, session, wishes, stream, done)
        except SkillError as error:
            await session.log(ERROR, {"reason": error.reason, "message": error.message, **_cost(done)})
            return
        if agent.callbacks.after_run:
            await agent.callbacks.after_run(agent.name, done.text)
        await session.log(END, {"text": done.text, **_cost(done)})

    async def _answered(
        self, agent: Agent, session: SkillSession, wishes: "_Wishes", stream: Stream, done: Done
    ) -> Done:
        """Let the model work on the message. What it has cost is in `done`, also when it gets nowhere."""
        text = wishes.message
        if agent.callbacks.before_run:
            changed = await agent.callbacks.before_run(agent.name, text)
            text = text if changed is None else changed
        events, messages = await self._history(agent, session)
        files = await keep(session, agent.runtime.artifacts, wishes.files, events)
        told = with_files(text, [(found_as(file), str(file["name"])) for file in files])
        message = {"role": "user", "content": told}
        await session.log(MESSAGE, {"to": agent.name, "message": message, "files": files}, author=USER)
        messages.append(message)
        work = Work((agent.runtime,), session, stream, CallIds(events), ModelCalls(agent.limits.model_calls))
        turn = Turn(
            agent,
            session,
            messages,
            stream=stream,
            ids=work.ids,
            asked=work.asked,
            extra=[*agent.tools, *as_tools(agent, work)],
            instructions=wishes.instructions,
            fork=forking(agent, work, told),
            done=done,
        )
        return await with_code_blocks(agent, session, turn, messages)

    async def _history(self, agent: Agent, session: SkillSession) -> tuple[Sequence[Event], list[Message]]:
        """The log, and what of it the model is to see; calls that a crash left open are closed."""
        events = await session.events()
        authors = dict.fromkeys(event.author for event in events)
        left_open = [(author, *call) for author in authors for call in unanswered(transcript(events, author))]
        for author, identity, name in left_open:
            closed = {"call_id": identity, "tool": name, "content": INTERRUPTED, "failed": True}
            await session.log(TOOL_RESPONSE, closed, author=author)
        if agent.summary is not None:
            await agent.summary.compact(agent.name, session)
        if left_open or agent.summary is not None:
            # Only then is there more in it: a long log is not read twice for nothing.
            events = await session.events()
        offer(session, in_log(events))
        if agent.history_turns == 1:
            return events, []
        first = 0 if agent.history_turns is None else last_turn(events, agent.name, agent.history_turns - 1)
        return events, transcript(events[first:], agent.name)


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What was asked for in one run."""

    user: str
    session: str
    message: str
    files: tuple[Attachment, ...]
    loads: tuple[Load, ...]
    options: SessionOptions | None
    instructions: str


def _within(agent: Agent, runtime: SkillRuntime | None) -> Agent:
    """The agent and all below it in another runtime."""
    if runtime is None:
        return agent
    model = agent.model.among(runtime.catalog) if isinstance(agent.model, ChoosesSkills) else agent.model
    children = [_within(child, runtime) for child in agent.sub_agents]
    return replace(agent, runtime=runtime, model=model, sub_agents=children)


def _cost(done: Done) -> dict[str, Any]:
    usage = {"input": done.usage.input, "output": done.usage.output, "cached": done.usage.cached}
    return {"usage": usage, "steps": done.steps, "tool_calls": done.tool_calls}
