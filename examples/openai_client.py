"""Skills for a model behind the official OpenAI client.

    pip install "openskill-runtime[openai]"
    python examples/openai_client.py

The loop in `answer` is all it takes. The messages are the client's own, and stay as the client made them. Here a
scripted server on this machine plays the model, so no key is needed; with the real one, it is `AsyncOpenAI()`.
"""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from scripted_server import calls, says, scripted_server

from openskills.catalog import Catalog
from openskills.runtime import SessionOptions, SkillRuntime, SkillSession
from openskills.settings import Settings

SKILLS = Path(__file__).parent.parent / "skills"
SALES = b"month,amount\n2026-01,12\n2026-02,\n"
LOG = b"2026-03-01T10:00:00 ERROR disk 7 is full\n2026-03-01T10:05:00 ERROR disk 9 is full\n"
REPORT = "python3 scripts/report.py inputs/sales.csv"
TRIAGE = "python3 scripts/triage.py inputs/app.log"

MODEL = [
    calls(("skill_load", {"skill": "csv-report"}), ("skill_load", {"skill": "log-triage"})),
    calls(
        ("skill_run", {"skill": "csv-report", "command": REPORT}),
        ("skill_run", {"skill": "log-triage", "command": TRIAGE}),
    ),
    says("One amount is missing in February. The log has one kind of error: a full disk."),
    calls(("skill_select_docs", {"skill": "csv-report", "docs": ["references/types.md"]})),
    says("A column is numeric when every value that is there is a number."),
]


async def answer(client: AsyncOpenAI, session: SkillSession, messages: list[Any]) -> str:
    """Let the model call tools until it has an answer for the user."""
    tools: Any = session.tools("openai")
    while True:
        request: Any = session.context(messages)
        completion = await client.chat.completions.create(model="gpt-5", messages=request, tools=tools)
        message = completion.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return message.content or ""
        wanted = [call for call in message.tool_calls if call.type == "function"]
        results = await asyncio.gather(
            *(session.call(call.function.name, call.function.arguments, call_id=call.id) for call in wanted)
        )
        for call, result in zip(wanted, results, strict=True):
            print(f"  {call.function.name} {call.function.arguments}\n    gives {result.text[:90]}")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result.text})


async def main(directory: Path) -> None:
    """Two questions of a user, and what each request has in common with the one before."""
    settings = replace(Settings.from_env(), state_dir=directory)
    options = SessionOptions(load_mode="session")
    with scripted_server(MODEL) as url:
        async with (
            SkillRuntime(Catalog.from_paths(SKILLS), "auto", settings=settings, options=options) as runtime,
            runtime.session("chat") as session,
            AsyncOpenAI(base_url=url, api_key="none is needed") as client,
        ):
            session.add_file("sales.csv", SALES)
            session.add_file("app.log", LOG)
            messages: list[Any] = []
            for question in ("Look at sales.csv and app.log, please.", "When is a column numeric?"):
                print(f"User: {question}")
                messages.append({"role": "user", "content": question})
                print(f"Model: {await answer(client, session, messages)}")

            print("\nWhat a request begins with is in the prompt cache when it was sent before:")
            for number, request in enumerate(session.ledger.last[1:], 2):
                read = sum(request.by_skill.values())
                print(f"  Request {number} has {request.total} tokens, {read} of them of loaded skills", end=", ")
                print(f"and begins with {request.unchanged_share:.0%} of request {number - 1}.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
