"""MCP servers for tests of clients: what `mcp_program.py` serves, and servers of other libraries."""

import hashlib
import json
import os
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("mcp_program.py")


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def skill_text(name: str, body: str = "Do it.", description: str = "Does it.", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n\n{body}\n"


class McpScenario:
    """A scenario of `mcp_program.py` that grows skill by skill; `write` saves it and gives the source."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.file = directory / "scenario.json"
        self.log = directory / "log.txt"
        self.content: dict[str, Any] = {"pages": [[]], "files": {}, "tools": [], "log": str(self.log), **options}

    def add(
        self,
        name: str,
        files: Mapping[str, bytes] | None = None,
        *,
        under: str = "",
        front: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Add a skill and return its entry; `front` is more front matter."""
        base = f"skill://{under}{name}/"
        more = "".join(f"{key}: {value}\n" for key, value in (front or {}).items())
        contents = {"SKILL.md": skill_text(name, more=more).encode(), **(files or {})}
        entry: dict[str, Any] = {
            "uri": f"{base}SKILL.md",
            "frontmatter": {"name": name, "description": "Does it.", **(front or {})},
            "resources": [
                {"uri": base + path, "digest": digest(data), "size": len(data)} for path, data in contents.items()
            ],
        }
        for path, data in contents.items():
            self.content["files"][base + path] = to_content(data)
        self.content["pages"][0].append(entry)
        return entry

    def write(self) -> str:
        """Save it; return the text of the source."""
        self.file.write_text(json.dumps(self.content), "utf-8")
        return f"mcp:{sys.executable} {PROGRAM} {self.file}"

    @property
    def calls(self) -> list[str]:
        """Everything that the server was asked, except how to speak with it."""
        lines = self.log.read_text("utf-8").splitlines() if self.log.exists() else []
        return [line for line in lines if not line.startswith(("server/discover", "initialize", "notifications/"))]


def to_content(data: bytes) -> Any:
    """A file as a server sends it: text, or a blob."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"blob": b64encode(data).decode()}


@contextmanager
def printing_port(argv: list[str]) -> Generator[str]:
    """The address of a server over HTTP that prints its port."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        finally:
            process.kill()


@contextmanager
def serving_http(scenario: McpScenario) -> Generator[str]:
    """The address of a scenario over HTTP."""
    scenario.write()
    with printing_port([sys.executable, str(PROGRAM), str(scenario.file), "http"]) as url:
        yield url


def wait_until_gone(*pids: int) -> None:
    """Wait until these processes have ended; fails after a while."""
    for _ in range(1000):
        if not any(map(is_running, pids)):
            return
        time.sleep(0.01)
    raise AssertionError(f"still running: {[pid for pid in pids if is_running(pid)]}")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


FASTMCP_SERVER = """
import sys
from pathlib import Path
from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension

server = FastMCP("peer")
provider = SkillsDirectoryProvider(roots=Path(sys.argv[1]), experimental_skills=True)
server.add_provider(provider)
server.add_extension(SkillsExtension(providers=[provider]))

@server.tool
def add(a: int, b: int) -> dict[str, int]:
    "Add two numbers."
    return {"sum": a + b}

server.run(show_banner=False)
"""

SDK_SERVER = """
from mcp.server import MCPServer
from mcp_types import ImageContent, TextContent
import anyio, sys

server = MCPServer("peer")

@server.tool()
def add(a: int, b: int) -> dict[str, int]:
    "Add two numbers."
    return {"sum": a + b}

@server.tool()
def picture() -> ImageContent:
    return ImageContent(data="aGVsbG8=", mime_type="image/png")

@server.tool()
def fail() -> str:
    raise ValueError("the tool is broken")

@server.tool()
async def wait(seconds: float) -> str:
    open(sys.argv[1], "w").write("started")
    try:
        await anyio.sleep(seconds)
    except BaseException:
        open(sys.argv[1], "w").write("cancelled")
        raise
    return "done"

server.run("stdio")
"""


def python_server(directory: Path, text: str, *arguments: str) -> list[str]:
    """The command of a server in Python."""
    program = directory / "server.py"
    program.write_text(text, "utf-8")
    return [sys.executable, str(program), *arguments]


def environment_of(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.defpath}


SDK_SKILLS_SERVER = """
import hashlib, sys
from pathlib import Path
from typing import Any
import anyio, mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from openskills.skillmd.parse import parse

ROOT = Path(sys.argv[1])

class Skills(types.PaginatedResult, types.CacheableResult):
    skills: list[Any]

def uri(path: Path) -> str:
    return f"skill://{path.relative_to(ROOT).as_posix()}"

async def list_skills(context: Any, params: Any) -> Skills:
    found = []
    for manifest in sorted(ROOT.glob("*/SKILL.md")):
        files = sorted(path for path in manifest.parent.rglob("*") if path.is_file())
        rows = [(uri(path), path.read_bytes()) for path in files]
        listed = [{"uri": u, "digest": f"sha256:{hashlib.sha256(d).hexdigest()}", "size": len(d)} for u, d in rows]
        front = dict(parse(manifest.read_text()).front.fields)
        found.append({"uri": uri(manifest), "frontmatter": front, "resources": listed})
    return Skills(skills=found, ttl_ms=0, cache_scope="public")

async def read(context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    text = (ROOT / str(params.uri).removeprefix("skill://")).read_text()
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=text)])

server = Server("peer", on_read_resource=read)
server.extensions["io.modelcontextprotocol/skills"] = {}
server.add_request_handler("skills/list", types.PaginatedRequestParams, list_skills)

async def main() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())

if sys.argv[2:] == ["http"]:
    import socket, uvicorn
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    app = server.streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listening])
else:
    anyio.run(main)
"""
"""A server on the low level of the SDK that serves a folder of skills."""
