"""FastMCP with a tool that gives a text back: `host_fastmcp.py PORT`. Has an environment of its own."""

import sys

# A benchmark may have the name of a library: looked for last, it is in nobody's way.
sys.path.append(sys.path.pop(0))

import importlib
from typing import Any


def main(port: str) -> None:
    """Serve until somebody ends it, without sessions and with plain JSON, which is the quickest it can do."""
    server: Any = importlib.import_module("fastmcp").FastMCP("echo")

    def echo(text: str) -> dict[str, str]:
        return {"echoed": text}

    server.tool(echo)
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
    main(sys.argv[1])
