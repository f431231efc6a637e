"""FastMCP serves the skills of a conversation: `cache_fastmcp.py SKILLS-DIRECTORY`. Has an environment of its own.

Its provider for directories of skills, with resources as tools, asked by its own client. A server has no messages: they
are those of the plainest host, which puts the server's list of resources into the system message and every answer of
the server at the end.
"""

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# A benchmark may have the name of a library: looked for last, it is in nobody's way.
sys.path.append(sys.path.pop(0))

from context_talk import LOOK, LOOKED, SYSTEM, Step, of_data
from trpc_process import serve


def _calls(step: Step) -> list[tuple[str, dict[str, Any]]]:
    if step.kind == LOOK:
        return [("lookup", {"table": "figures"})]
    return [("read_resource", {"uri": f"skill://{step.skill}/{path}"}) for path in step.docs or ["SKILL.md"]]


class Host:
    """The plainest host: it appends."""

    def __init__(self, client: Any, listed: str) -> None:
        self._client = client
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": f"{SYSTEM}\n\n{listed}"}]
        self.requests: list[list[dict[str, Any]]] = []

    async def play(self, turns: Sequence[dict[str, Any]]) -> None:
        """A whole conversation."""
        for turn in of_data(turns):
            self._messages.append({"role": "user", "content": turn.user})
            for step in turn.steps:
                for name, arguments in _calls(step):
                    self.requests.append(list(self._messages))
                    await self._call(name, arguments)
            self.requests.append(list(self._messages))
            self._messages.append({"role": "assistant", "content": "Done."})

    async def _call(self, name: str, arguments: dict[str, Any]) -> None:
        text = LOOKED if name == "lookup" else _text(await self._client.call_tool(name, arguments))
        identity = f"call_{len(self.requests)}"
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": identity, "type": "function", "function": function}
        self._messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        self._messages.append({"role": "tool", "tool_call_id": identity, "content": text})


def _text(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


async def _answer(request: dict[str, Any]) -> dict[str, Any]:
    fastmcp: Any = importlib.import_module("fastmcp")
    providers: Any = importlib.import_module("fastmcp.server.providers.skills")
    transforms: Any = importlib.import_module("fastmcp.server.transforms")
    server = fastmcp.FastMCP("skills")
    server.add_provider(providers.SkillsDirectoryProvider(roots=Path(sys.argv[1])))
    server.add_transform(transforms.ResourcesAsTools(server))
    async with fastmcp.Client(server) as client:
        host = Host(client, _text(await client.call_tool("list_resources", {})))
        await host.play(request["turns"])
        return {"requests": host.requests}


if __name__ == "__main__":
    serve(lambda: _answer)
