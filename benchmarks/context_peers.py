"""Other libraries that build requests with skills in them, each in a process and an environment of its own."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from context_talk import Turn, as_data
from peer_process import Installed, new_home, peer_process
from running_part import NotMeasured
from sampling import Way


@dataclass(frozen=True)
class Holder(Installed):
    """A library, the script that holds a conversation with it, and with how many skills that can be waited for."""

    script: str
    max_skills: int = 1_000_000


DEEPAGENTS, ADK, PYDANTIC = "deepagents", "google-adk", "pydantic-ai-skills, the whole request"
HOLDERS = {
    DEEPAGENTS: Holder("deepagents", "venv", "deepagents", "context_deepagents.py"),
    ADK: Holder("google-adk", "adk", "google/adk", "context_adk.py"),
    PYDANTIC: Holder("pydantic-ai-skills", "pydantic", "pydantic_ai_skills", "context_pydantic.py", max_skills=100),
}
NOT_TRIED = {
    "FastMCP": "it is a server; its clients build the requests",
    "skills-ref": "it lists skills for a prompt, but has no conversations",
    f"pydantic-ai-skills with more than {HOLDERS[PYDANTIC].max_skills:,} skills": "a request takes a second",
}
"""What else there is, and why it is not tried."""


async def holding(
    turn: Turn,
    loaded: int,
    skills: Path,
    count: int,
    scratch: Path,
    stack: AsyncExitStack,
    holders: Mapping[str, Holder] = HOLDERS,
) -> tuple[dict[str, Way], dict[str, str]]:
    """What builds the last request of a conversation again, by library, and why others cannot.

    A request of another number of `loaded` texts is that of another conversation: it is not measured either.
    """
    ways: dict[str, Way] = {}
    missing: dict[str, str] = {}
    for name, holder in holders.items():
        if count > holder.max_skills:
            continue
        try:
            process = peer_process(holder, holder.script, skills, variables=new_home(scratch))
            peer = await stack.enter_async_context(process)
            held = await peer.ask({"do": "hold", "turns": as_data([turn])})
        except NotMeasured as reason:
            missing[name] = str(reason)
            continue
        if held["loaded"] != loaded:
            missing[name] = f"{holder.name}: its conversation is another one: {held}"
            continue
        ways[name] = peer.way("build")
    return ways, missing
