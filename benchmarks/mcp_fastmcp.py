"""FastMCP with a tool and skills: `mcp_fastmcp.py PORT SKILLS`. Has an environment of its own."""

import sys

# A benchmark has the name of a library: looked for last, it is in nobody's way.
sys.path.append(sys.path.pop(0))

import importlib
from pathlib import Path
from typing import Any


def main(port: str, skills: str) -> None:
    """Serve until somebody ends it, without sessions and with plain JSON, which is the quickest it can do."""
    server: Any = importlib.import_module("fastmcp").FastMCP("bench")
    providers: Any = importlib.import_module("fastmcp.server.providers.skills")
    extension: Any = importlib.import_module("fastmcp.skills.extension")

    def echo(text: str) -> dict[str, str]:
        return {"echoed": text}

    server.tool(echo)
    provider = providers.SkillsDirectoryProvider(roots=Path(skills), experimental_skills=True)
    server.add_provider(provider)
    server.add_extension(extension.SkillsExtension(providers=[provider]))
    server.run(
        transport="http",
        host="127.0.0.1",
        port=int(port),
        stateless_http=True,
        json_response=True,
        show_banner=False,
        uvicorn_config={"log_level": "warning", "access_log": False},
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
