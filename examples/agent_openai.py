"""An agent with a model behind OpenAI's API, at a server that has a bad day.

    pip install "openskill-runtime[openai]"
    python examples/agent_openai.py

`openai/NAME` is a model of OpenAI, or of any server that speaks its protocol: `OPENAI_API_KEY` and `OPENAI_BASE_URL`
say which. Here the server is one of ours on this machine, with a script for a model, and with faults: it refuses a
request, breaks off before an answer has begun, and lets the model write nonsense. The user notices nothing of it.
"""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

from openskills.agent import Agent, ModelResponse, Runner, ToolCall, Usage, open_model
from openskills.catalog import Catalog
from openskills.runtime import SkillRuntime
from openskills.settings import Settings
from openskills.testing import ErrorReply, ModelReply, ModelServer, call_tools

SKILLS = Path(__file__).parent.parent / "skills"
COMMAND = {"skill": "math", "command": "python3 scripts/convert.py 26.2 mile km"}

SCRIPT = [
    ErrorReply(429, "Too many requests", headers={"retry-after": "0"}),
    call_tools(("skill_load", {"skill": "math"})),
    ModelResponse(calls=(ToolCall("nonsense", "skill_run", '{"skill": "math", "command"'),)),
    call_tools(("skill_run", COMMAND)),
    ModelReply(ModelResponse("A marathon has 42."), cut_after=1),
    ModelResponse("A marathon has 42.2 kilometres.", usage=Usage(input=2400, output=12, cached=2100)),
]


async def main(directory: Path, server: ModelServer) -> None:
    """Ask one question, and look at what went over the wire for it."""
    question = "How many kilometres are the 26.2 miles of a marathon?"
    # A program of yours has these variables in its environment, and needs no settings.
    settings = replace(Settings.from_env(), state_dir=directory, environment=server.environment)
    model = open_model("openai/gpt-5", settings)
    async with SkillRuntime(Catalog.from_paths(SKILLS), "auto", settings=settings) as runtime:
        runner = Runner("school", Agent("assistant", model, runtime))
        reply = await runner.reply(user="ada", session="sports", message=question)
    await model.close()

    print(f"User: {question}\nModel: {reply.text}")
    print("\nWhat the model was told about its calls:")
    for event in reply.events:
        if event.kind == "tool.response":
            print(f"  {event.payload['tool']}: {event.payload['content'][:90]}")
    answers = sum(event.kind == "message" and event.author == "assistant" for event in reply.events)
    print(f"\nThe agent got {answers} answers with {len(server.requests)} requests.")
    print(f"It cost {reply.usage.input} tokens, {reply.usage.cached} of them from the prompt cache.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, ModelServer(SCRIPT) as server:
        asyncio.run(main(Path(directory), server))
