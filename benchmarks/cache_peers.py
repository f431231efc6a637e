"""Other libraries that show skills to a model, each in a process and an environment of its own."""

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from context_talk import Turn, as_data
from running_part import NotMeasured

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parent / ".bench"
_LONGEST_ANSWER = 64 * 1024 * 1024
_ENDS_WITHIN = 30.0


@dataclass(frozen=True)
class Peer:
    """A library: where it is installed, by which module that is seen, and the script that plays it.

    `ways` are its ways to play, by what we call them, with what the script has to be told for it.
    """

    name: str
    environment: str
    module: str
    script: str
    ways: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    @property
    def python(self) -> Path:
        """The interpreter that has it."""
        return ENVIRONMENTS / self.environment / "bin" / "python"

    def check(self) -> None:
        """Raises `NotMeasured` where it is not installed."""
        if not list((ENVIRONMENTS / self.environment).glob(f"lib/*/site-packages/{self.module}")):
            raise NotMeasured(f"{self.name}: it is not installed; `make peers` installs it where it can")


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


class Playing:
    """A library whose process runs."""

    def __init__(self, peer: Peer, process: asyncio.subprocess.Process, complaints: Path) -> None:
        self._peer = peer
        self._process = process
        self._complaints = complaints

    async def ready(self) -> None:
        """Wait until it says that it is."""
        await self._line()

    async def requests(self, told: dict[str, Any], turns: Sequence[Turn]) -> list[list[dict[str, Any]]]:
        """What it would send in a whole conversation, told so. Raises `NotMeasured` when it fails."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps({**told, "turns": as_data(turns)}).encode() + b"\n")
        await stdin.drain()
        return json.loads(await self._line())["requests"]

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            said = self._complaints.read_text("utf-8", "replace").strip().splitlines() or ["it said nothing"]
            raise NotMeasured(f"{self._peer.name}: it failed with {said[-1][:200]}")
        return line


@asynccontextmanager
async def playing(peer: Peer, skills: Path, scratch: Path) -> AsyncGenerator[Playing]:
    """The library over a directory of skills. Raises `NotMeasured` where it is not installed or does not start."""
    peer.check()
    home = Path(tempfile.mkdtemp(prefix="home-", dir=scratch))
    complaints = home / "complaints"
    with complaints.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(str(peer.python), str(HERE / peer.script), str(skills), str(skills)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env={"HOME": str(home), "TMPDIR": str(home), "PATH": os.defpath, "LANG": "C.UTF-8"},
            limit=_LONGEST_ANSWER,
        )
    try:
        player = Playing(peer, process, complaints)
        await player.ready()
        yield player
    finally:
        await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _ENDS_WITHIN)
    except TimeoutError:
        process.kill()
        await process.wait()
