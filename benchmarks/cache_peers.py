"""Other libraries that show skills to a model, each in a process and an environment of its own."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from context_talk import Turn, as_data
from peer_process import Installed, PeerProcess, new_home, peer_process


@dataclass(frozen=True)
class Peer(Installed):
    """A library with the script that plays it.

    `ways` are its ways to play, by what we call them, with what the script has to be told for it.
    """

    script: str
    ways: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


TRPC, TRPC_SYSTEM = "trpc-agent-py, tool results", "trpc-agent-py, system message"
ADK_TURN = "google-adk, ephemeral"
PEERS = (
    Peer("deepagents", "venv", "deepagents", "cache_deepagents.py", {"deepagents": {}}),
    Peer(
        "google-adk",
        "adk",
        "google/adk",
        "cache_adk.py",
        {"google-adk": {"way": "persistent"}, ADK_TURN: {"way": "ephemeral"}},
    ),
    Peer("pydantic-ai-skills", "pydantic", "pydantic_ai_skills", "cache_pydantic.py", {"pydantic-ai-skills": {}}),
    Peer("FastMCP", "fastmcp", "fastmcp", "cache_fastmcp.py", {"FastMCP": {}}),
)


def trpc_ways(mode: str) -> dict[str, dict[str, Any]]:
    """Both placements of trpc-agent-py with a load mode."""
    placements = {TRPC: True, TRPC_SYSTEM: False}
    return {way: {"do": "talk", "tool_result": inside, "load_mode": mode} for way, inside in placements.items()}


TRPC_AGENT = Peer("trpc-agent-py", "running", "trpc_agent_sdk", "context_trpc.py", trpc_ways("session"))


def playing(peer: Peer, skills: Path, scratch: Path) -> AbstractAsyncContextManager[PeerProcess]:
    """The library over a directory of skills; see `peer_process`."""
    return peer_process(peer, peer.script, skills, skills, variables=new_home(scratch))


async def requests_of(
    player: PeerProcess, told: dict[str, Any], turns: Sequence[Turn]
) -> Sequence[Sequence[dict[str, Any]]]:
    """What a library would send in a whole conversation, told so. Raises `NotMeasured` when it fails."""
    return (await player.ask({**told, "turns": as_data(turns)}))["requests"]
