"""What a conversation costs: estimated by us, counted by the provider."""

from pathlib import Path

from openskills.agent.model import Answer, Usage
from openskills.cli.chat_tokens import Tokens, usage_of
from openskills.runtime.options import ModelCall
from openskills.session.events import MESSAGE, new_event
from openskills.sync import run
from tests.agent.agents import skills_for_agents
from tests.cli.chatting import talking


def counting(number: int) -> dict[str, object]:
    return {"message": {}, "usage": {"input": number, "output": 1, "cached": 2}}


def test_what_the_provider_counted_is_added_up_over_all_answers() -> None:
    events = [new_event("a", MESSAGE, counting(10)), new_event("u", MESSAGE, {}), new_event("a", "end", counting(5))]
    assert usage_of([*events, new_event("b", MESSAGE, counting(20))]) == Usage(30, 2, 4)


def test_without_a_request_there_is_little_to_say() -> None:
    lines = Tokens().lines([], [])
    assert lines[0] == "the model counts no tokens; all numbers here are estimates"
    assert lines[1:] == [
        "no request was sent since this chat was opened",
        "all 0 skills in full would be about 0 tokens",
    ]


def test_requests_are_estimated_as_they_are_sent() -> None:
    tokens = Tokens()
    first = [{"role": "user", "content": "hello " * 100}]
    tokens.seen(ModelCall("s", "a", (), list(first)))
    tokens.seen(ModelCall("s", "a", (), [*first, {"role": "assistant", "content": "hello " * 100}]))
    line = tokens.lines([], [])[1]
    assert line.startswith("2 requests since this chat was opened; the last had about ")
    assert line.endswith(" tokens, 50% of them unchanged since the one before")


def test_a_conversation_says_what_all_skills_would_cost_and_which_were_loaded(tmp_path: Path) -> None:
    async def lines() -> list[str]:
        usage = Answer("Hello.", usage=Usage(1234, 5, 0))
        async with talking(skills_for_agents(tmp_path), [usage]) as (talk, _):
            await talk.say("hi $alpha")
            return talk.tokens.lines(await talk.session.events(), talk.runtime.catalog.skills)

    counted, _, full, loaded = run(lines())
    assert counted == "counted by the provider for this conversation: 1,234 in, 5 out"
    assert full.startswith("all 2 skills in full would be about ")
    assert loaded.startswith("in the last request were loaded: alpha (about ")
