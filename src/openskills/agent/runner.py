"""Runs an agent: one message of a user in, events out, everything in the session's log."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

from openskills.agent.agent import Agent
from openskills.agent.attachments import Attachment, in_log, keep, offer, said
from openskills.agent.code_blocks import with_code_blocks
from openskills.agent.declared import Load, declare
from openskills.agent.log import END, ERROR, INTERRUPTED, Message, last_turn, transcript, unanswered
from openskills.agent.model import Usage
from openskills.agent.subagent import as_tools, forking
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
    """Runs one agent for the users of an application. Runs of one session come one after the other."""

    def __init__(self, app: str, agent: Agent) -> None:
        self._app = app
        self._agent = agent

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
        `instructions` take the place of the agent's for this run. Closing the generator ends the run and everything
        that it has started.
        """
        agent = _within(self._agent, runtime)
        agent = replace(agent, options=options or agent.options)
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        wishes = _Wishes(user, session, message, tuple(files), tuple(loads), agent.options, instructions)
        async with agent.runtime.one_run_at_a_time(Scope(self._app, user, session)):
            task = asyncio.get_running_loop().create_task(self._work(agent, wishes, queue))
            task.add_done_callback(lambda _: queue.put_nowait(None))
            try:
                while (event := await queue.get()) is not None:
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

    async def _work(self, agent: Agent, wishes: "_Wishes", queue: "asyncio.Queue[Event | None]") -> None:
        with bind(session=wishes.session, agent=agent.name):
            async with self._opened(agent, wishes) as session:
                session.records_calls = True
                with session.listening(queue.put_nowait):
                    await self._conversed(agent, session, wishes, queue)

    def _opened(self, agent: Agent, wishes: "_Wishes") -> AbstractAsyncContextManager[SkillSession]:
        return agent.runtime.session(
            wishes.session, agent=agent.name, user=wishes.user, app=self._app, options=wishes.options
        )

    async def _conversed(
        self, agent: Agent, session: SkillSession, wishes: "_Wishes", queue: "asyncio.Queue[Event | None]"
    ) -> None:
        await declare(session, wishes.loads, session.max_loaded_skills)
        done = Done()
        try:
            done = await self._answered(agent, session, wishes, queue, done)
        except SkillError as error:
            await session.log(ERROR, {"reason": error.reason, "message": error.message, **_cost(done)})
            return
        if agent.callbacks.after_run:
            await agent.callbacks.after_run(agent.name, done.text)
        await session.log(END, {"text": done.text, **_cost(done)})

    async def _answered(
        self,
        agent: Agent,
        session: SkillSession,
        wishes: "_Wishes",
        queue: "asyncio.Queue[Event | None]",
        done: Done,
    ) -> Done:
        """Let the model work on the message. What it has cost is in `done`, also when it gets nowhere."""
        text = wishes.message
        if agent.callbacks.before_run:
            text = await agent.callbacks.before_run(agent.name, text) or text
        messages = await self._history(agent, session)
        message = {"role": "user", "content": said(text, wishes.files)}
        files = await keep(session, agent.runtime.artifacts, wishes.files)
        await session.log(MESSAGE, {"to": agent.name, "message": message, "files": files}, author=USER)
        messages.append(message)
        turn = Turn(
            agent,
            session,
            messages,
            emit=queue.put_nowait,
            extra=[*agent.tools, *as_tools(agent, session, queue.put_nowait)],
            instructions=wishes.instructions,
            fork=forking(agent, session, queue.put_nowait),
            done=done,
        )
        return await with_code_blocks(agent, session, turn, messages)

    async def _history(self, agent: Agent, session: SkillSession) -> list[Message]:
        """What was said before, as much of it as the model is to see; calls that a crash left open are closed."""
        events = await session.events()
        for author in dict.fromkeys(event.author for event in events):
            for identity, name in unanswered(transcript(events, author)):
                closed = {"call_id": identity, "tool": name, "content": INTERRUPTED, "failed": True}
                await session.log(TOOL_RESPONSE, closed, author=author)
        if agent.summary is not None:
            await agent.summary.compact(agent.name, session)
        events = await session.events()
        offer(session, in_log(events))
        if agent.history_turns is not None and agent.history_turns > 1:
            events = events[last_turn(events, agent.name, agent.history_turns - 1) :]
        return [] if agent.history_turns == 1 else transcript(events, agent.name)


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
    return replace(agent, runtime=runtime, sub_agents=[_within(child, runtime) for child in agent.sub_agents])


def _cost(done: Done) -> dict[str, Any]:
    usage = {"input": done.usage.input, "output": done.usage.output, "cached": done.usage.cached}
    return {"usage": usage, "steps": done.steps, "tool_calls": done.tool_calls}
